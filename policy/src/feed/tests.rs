//! A feed over answers of all kinds.

mod plain;

use super::*;
use crate::shared::memory::Memory;
use glacis_limits::geo::Country;

const T0: u64 = 1_700_000_000 * SECOND_NS;

fn source() -> Source {
    Source {
        kind: Kind::List,
        name: "block".to_owned(),
        cluster: "lists".to_owned(),
        authority: "lists.example".to_owned(),
        path: "/block.txt".to_owned(),
        refresh_seconds: 60,
        timeout: Duration::from_secs(1),
        required: false,
        shadow: false,
        format: Format::Own,
        max_age_seconds: None,
    }
}

fn plain(mark: &str) -> Source {
    Source { format: Format::Plain(mark.to_owned()), ..source() }
}

fn good(body: &str, etag: &str) -> Response {
    let digest = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)));
    response("200", body, etag, &digest)
}

fn response(status: &str, body: &str, etag: &str, digest: &str) -> Response {
    Response {
        status: status.into(),
        etag: etag.into(),
        digest: digest.into(),
        body: Some(body.into()),
    }
}

fn denies(feed: &Feed, address: &str) -> bool {
    let found = |list: &NetworkList| list.find(address.parse().unwrap(), 0).action.is_some();
    feed.list().is_some_and(found)
}

/// A failure is in the log once, until there was an answer of use; another one is as well.
#[test]
fn failures_are_news_once() {
    let shared = Memory::default();
    for (required, meaning) in
        [(true, "requests are answered 503"), (false, "requests pass without")]
    {
        let mut feed = Feed::restored(Source { required, ..source() }, &shared);
        let unreachable = feed.called(None, T0).unwrap_err();
        for part in ["the list \"block\"", meaning, "no call", "a cluster \"lists\""] {
            assert!(unreachable.contains(part), "{part} in {unreachable}");
        }
        assert!(feed.is_news(&unreachable) && !feed.is_news(&unreachable));
        assert!(feed.called(Some(7), T0).is_ok());
        let silent = feed.answered(&response("", "", "", ""), T0, &shared).unwrap_err();
        assert!(feed.is_news(&silent) && !feed.is_news(&silent));
    }
    let mut feed = Feed::restored(source(), &shared);
    let before = feed.called(None, T0).unwrap_err();
    assert!(feed.is_news(&before));
    feed.answered(&good("10.0.0.0/8 deny", "\"a\""), T0, &shared).unwrap();
    let after = feed.called(None, T0).unwrap_err();
    assert!(after.contains("stays as it was") && feed.is_news(&after) && !feed.is_news(&after));
    feed.answered(&response("304", "", "", ""), T0, &shared).unwrap();
    assert!(feed.is_news(&after), "it had recovered");
}

#[test]
fn the_last_good_list_stays() {
    let shared = Memory::default();
    let mut feed = Feed::restored(source(), &shared);
    assert!(feed.is_due(T0) && feed.list().is_none());
    let change = feed.answered(&good("10.0.0.0/8 deny", "\"a\""), T0, &shared);
    assert_eq!(change, Ok(Change::Replaced));
    assert!(feed.request().contains(&("if-none-match", "\"a\"")));
    let wrong = good("11.0.0.0/8 deny", "");
    let rows = [
        (response("", "", "", ""), "there was no answer"),
        (response("503", "", "", ""), "the answer was \"503\""),
        (response("2000", "", "", ""), "the answer was"),
        (response("200", "11.0.0.0/8 deny", "", ""), "no right sha-256"),
        (Response { body: Some(b"12.0.0.0/8 deny".to_vec()), ..wrong }, "no right sha-256"),
        (Response { body: None, ..good("", "") }, "could not be read, or is too long"),
        (good("11.0.0.0/8 deny\n12.0.0.1/8 deny", ""), "line 2: \"12.0.0.1/8\""),
    ];
    for (response, expected) in rows {
        let told = feed.answered(&response, T0, &shared).unwrap_err();
        assert!(told.contains(expected) && told.contains("\"block\" stays as"), "{told}");
        assert!(denies(&feed, "10.1.1.1") && !denies(&feed, "11.1.1.1"));
        assert!(!feed.is_due(T0 + 9 * SECOND_NS) && feed.is_due(T0 + 10 * SECOND_NS));
    }
    assert_eq!(feed.answered(&response("304", "", "", ""), T0, &shared), Ok(Change::None));
    assert!(!feed.is_due(T0 + 59 * SECOND_NS) && feed.is_due(T0 + 60 * SECOND_NS));
    // A new VM begins with it, and asks whether it has changed.
    let next = Feed::restored(source(), &shared);
    assert!(denies(&next, "10.1.1.1") && next.is_due(T0));
    assert!(next.request().contains(&("if-none-match", "\"a\"")));
    // An empty list is a list.
    assert_eq!(feed.answered(&good("", ""), T0, &shared), Ok(Change::Replaced));
    assert_eq!(feed.list().map(NetworkList::entries), Some(0));
    assert!(!denies(&feed, "10.1.1.1"));
    assert!(!feed.request().iter().any(|(name, _)| *name == "if-none-match"));
}

/// Tables and patches: what is good takes the place of what was there, and what is not does not.
#[test]
fn what_else_is_fetched() {
    let address = |text: &str| text.parse::<std::net::IpAddr>().unwrap();
    let countries = |country: &str| {
        let network = ("192.0.2.0", "192.0.2.255");
        let country = Country::parse(country).unwrap();
        let network = (address(network.0), address(network.1), country);
        STANDARD.encode(CountryTable::new(vec![network]).to_bytes())
    };
    let systems = |number: u32| {
        let network = (address("192.0.2.0"), address("192.0.2.255"), number);
        STANDARD.encode(AsnTable::new(&[network]).to_bytes())
    };
    let patch = |id: &str| {
        format!(
            r#"{{"id": "{id}", "cve": "CVE-2099-1", "title": "t", "rule": 9100001,
                "when": [{{"target": "path", "equals": "/a"}}]}}"#
        )
    };
    let many = format!("[{}]", vec![patch("a"); 501].join(","));
    let rows = [
        (Kind::Countries, countries("DE"), countries("FR"), "AAAA".to_owned()),
        (Kind::Systems, systems(7), systems(8), "not base64".to_owned()),
        (Kind::Patches, format!("[{}]", patch("a")), "[]".to_owned(), many),
        (Kind::Patches, format!("[{}]", patch("a")), "[]".to_owned(), "[{}]".to_owned()),
        (Kind::Patches, format!("[{}]", patch("a")), "[]".to_owned(), "{}".to_owned()),
    ];
    for (kind, one, other, wrong) in rows {
        let shared = Memory::default();
        let source = || Source { kind, ..source() };
        let mut feed = Feed::restored(source(), &shared);
        assert!(feed.is_empty() && feed.list().is_none() && feed.patches().is_empty());
        let seen = |feed: &Feed| {
            let country = feed.countries().map(|table| table.country(address("192.0.2.1")));
            let system = feed.systems().map(|table| table.number(address("192.0.2.1")));
            (country, system, feed.patches().len())
        };
        assert_eq!(feed.answered(&good(&one, "\"1\""), T0, &shared), Ok(Change::Replaced));
        let first = seen(&feed);
        let told = feed.answered(&good(&wrong, ""), T0, &shared).unwrap_err();
        assert!(told.contains(kind.name()), "{told}");
        assert_eq!(seen(&feed), first, "the last good one stays");
        assert_eq!(seen(&Feed::restored(source(), &shared)), first, "for a new VM too");
        assert_eq!(feed.answered(&good(&other, ""), T0, &shared), Ok(Change::Replaced));
        assert_ne!(seen(&feed), first);
    }
}

#[test]
fn digests() {
    let (body, empty) = (b"x".as_slice(), "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:");
    let right = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)));
    let rows = [
        (right.clone(), true),
        (format!("sha-512=:AAAA:, {right}"), true),
        (right.replace(':', ""), false),
        (right.to_uppercase(), false),
        (empty.to_owned(), false),
        (String::new(), false),
    ];
    for (field, expected) in rows {
        assert_eq!(is_digest_of(field.as_bytes(), body), expected, "{field}");
    }
    assert!(is_digest_of(empty.as_bytes(), b""));
}

#[test]
fn one_call_at_a_time_and_not_for_ever() {
    let shared = Memory::default();
    let mut feed = Feed::restored(source(), &shared);
    let _ = feed.called(Some(7), T0);
    assert!(feed.awaits(7) && !feed.awaits(8) && !feed.is_due(T0 + SECOND_NS));
    assert!(feed.is_due(T0 + 12 * SECOND_NS), "an answer that never comes");
    assert!(!feed.is_due(T0) && feed.is_due(T0 - SECOND_NS), "and the clock was set back");
    let _ = feed.called(None, T0);
    assert!(!feed.is_due(T0 + 9 * SECOND_NS) && feed.is_due(T0 + 10 * SECOND_NS));
    assert!(feed.is_due(T0 - 1_000 * SECOND_NS), "the clock was set back");
    let slow = Source { refresh_seconds: 1, timeout: Duration::from_secs(60), ..source() };
    let mut feed = Feed::restored(slow, &shared);
    let _ = feed.called(Some(7), T0);
    assert!(!feed.is_due(T0) && !feed.is_due(T0 + 69 * SECOND_NS), "one call at a time");
    // Nothing is there that could not have changed.
    let told = feed.answered(&response("304", "", "", ""), T0, &shared).unwrap_err();
    assert!(told.contains("the answer was \"304\"") && feed.is_empty(), "{told}");
}

/// A time that is over, and one further away than it was ever set, are no reason to wait.
#[test]
fn times_to_come() {
    for (then_ns, now_ns, most_ns, expected) in [
        (10, 0, 10, true),
        (11, 0, 10, false),
        (1, 0, 10, true),
        (10, 10, 10, false),
        (0, 10, 10, false),
    ] {
        assert_eq!(is_to_come(then_ns, now_ns, most_ns), expected, "{then_ns} {now_ns}");
    }
}

/// A tag that is repeated stands in a header field as it came.
#[test]
fn tags_that_are_repeated() {
    let long = "a".repeat(ETAG_BYTES_MAX);
    for (etag, is_plain) in [
        ("\"a\"", true),
        ("", true),
        ("a b", false),
        ("a\r\nb: c", false),
        ("\u{e4}", false),
        (long.as_str(), true),
        (&format!("{long}a"), false),
    ] {
        assert_eq!(plain_etag(etag.as_bytes()), if is_plain { etag } else { "" });
    }
}

#[test]
fn what_others_left_in_shared_data() {
    let place = "lists lists.example /block.txt\n";
    let rows = [
        (format!("{place}\n10.0.0.0/8 deny"), true),
        (format!("{place}etag\nnonsense"), false),
        (format!("{place}no line"), false),
        ("etag\n10.0.0.0/8 deny".to_owned(), false),
        ("no line".to_owned(), false),
        (String::new(), false),
    ];
    for (kept, expected) in rows {
        let shared = Memory::default();
        shared.put("glacis.wasm/2/feed/block", kept.as_bytes()).unwrap();
        assert_eq!(!Feed::restored(source(), &shared).is_empty(), expected, "{kept:?}");
    }
    let shared = Memory::default();
    shared.put("glacis.wasm/2/feed/block", b"\xFF\n").unwrap();
    assert!(Feed::restored(source(), &shared).is_empty());
}

/// What another server or path has given under the same name is not begun with, nor is its tag repeated.
#[test]
fn another_place_begins_anew() {
    let shared = Memory::default();
    let mut feed = Feed::restored(source(), &shared);
    feed.answered(&good("10.0.0.0/8 deny", "\"a\""), T0, &shared).unwrap();
    let other = || "other".to_owned();
    let rows = [
        (Source { refresh_seconds: 7, required: true, ..source() }, true),
        (Source { cluster: other(), ..source() }, false),
        (Source { authority: other(), ..source() }, false),
        (Source { path: "/other".to_owned(), ..source() }, false),
        (Source { name: other(), ..source() }, false),
    ];
    for (source, expected) in rows {
        let next = Feed::restored(source.clone(), &shared);
        assert_eq!(denies(&next, "10.1.1.1"), expected, "{source:?}");
        let asks = next.request().iter().any(|(name, _)| *name == "if-none-match");
        assert_eq!(asks, expected, "{source:?}");
    }
}
