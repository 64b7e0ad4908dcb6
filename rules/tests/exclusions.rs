//! What typed exclusions let pass, and what not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};
use glacis_rules::{
    EXCLUSIONS_MAX, Exclusion, ExclusionEvidence, ExclusionList, exclusion_rules, write_exclusions,
};

const RULES: &str = r#"
    SecRuleEngine On
    SecRule ARGS "@contains attack" "id:10,phase:2,deny,status:410,log,tag:'a/one'"
    SecRule ARGS "@contains attack" "id:20,phase:2,deny,status:420,log,tag:'a/two'"
    SecRule REQUEST_HEADERS:X-A "@streq attack" "id:30,phase:1,deny,status:430,log"
"#;

fn exclusion(rules: &[&str], tags: &[&str], targets: &[&str], path: Option<&str>) -> Exclusion {
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    Exclusion {
        rules: texts(rules),
        tags: texts(tags),
        targets: texts(targets),
        path: path.map(str::to_owned),
        hosts: Vec::new(),
        values: None,
        owner: "shop".to_owned(),
        reason: "a test".to_owned(),
        expires: None,
    }
}

/// The status of a request.
fn status(exclusions: &[Exclusion], uri: &[u8]) -> u16 {
    let text = |text: String| Input::Text { name: "test".to_owned(), text };
    let rules = exclusion_rules(exclusions).unwrap();
    let inputs = [text(rules.before), text(RULES.to_owned()), text(rules.after)];
    let program = Program::build(&inputs, &NoFiles, Limits::default());
    let program = program.unwrap_or_else(|errors| panic!("{errors}\n{inputs:?}"));
    let mut transaction = Transaction::new(Arc::new(program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
    transaction.start(&Start {
        unique_id: "1",
        time: Duration::ZERO,
        client: endpoint,
        server: endpoint,
    });
    transaction.request_line(b"GET", uri, b"HTTP/1.1");
    transaction.request_header(b"host", b"Shop.Example:8080");
    transaction.request_header(b"x-a", if uri.ends_with(b"&h") { b"attack" } else { b"" });
    transaction.evaluate_request_headers();
    transaction.evaluate_request_body();
    transaction.verdict().refusal().map_or(200, |refusal| refusal.status)
}

#[test]
fn what_is_excluded_passes_and_nothing_else() {
    let everywhere = None;
    let wiki = Some("/wiki/");
    for (exclusions, uri, expected) in [
        (vec![], "/?q=attack", 410),
        (vec![exclusion(&["10"], &[], &[], everywhere)], "/?q=attack", 420),
        (vec![exclusion(&["10-20"], &[], &[], everywhere)], "/?q=attack", 200),
        (vec![exclusion(&["10-20"], &[], &[], everywhere)], "/?q=attack&h", 430),
        (vec![exclusion(&[], &["a/one"], &[], everywhere)], "/?q=attack", 420),
        (vec![exclusion(&["10", "20"], &[], &["ARGS:q"], everywhere)], "/?q=attack", 200),
        (vec![exclusion(&["10", "20"], &[], &["ARGS:q"], everywhere)], "/?r=attack", 410),
        (vec![exclusion(&[], &["a/one", "a/two"], &["ARGS:q"], everywhere)], "/?q=attack", 200),
        (vec![exclusion(&["10"], &["a/two"], &[], wiki)], "/wiki/?q=attack", 200),
        (vec![exclusion(&["10"], &["a/two"], &[], wiki)], "/wiki/a/b?q=attack", 200),
        (vec![exclusion(&["10"], &["a/two"], &[], wiki)], "/wiki?q=attack", 410),
        (vec![exclusion(&["10"], &["a/two"], &[], wiki)], "/wikileaks?q=attack", 410),
        (vec![exclusion(&["10-20"], &[], &["ARGS:q"], wiki)], "/wiki/a?q=attack", 200),
        (vec![exclusion(&["10-20"], &[], &["ARGS:q"], wiki)], "/wiki/a?r=attack", 410),
        (vec![exclusion(&["30"], &[], &[], Some("/a"))], "/a?q=fine&h", 200),
        (vec![exclusion(&["30"], &[], &[], Some("/a"))], "/a/b?q=fine&h", 430),
        (vec![exclusion(&["30"], &[], &[], Some("/a"))], "/a#/b&h", 430),
        // The second one counts as well, with an id of its own.
        (
            vec![exclusion(&["10"], &[], &[], wiki), exclusion(&["20"], &[], &[], wiki)],
            "/wiki/?q=attack",
            200,
        ),
    ] {
        assert_eq!(status(&exclusions, uri.as_bytes()), expected, "{uri}, {exclusions:?}");
    }
}

/// An exclusion of the rules about arguments for one target, with conditions.
fn narrowed(target: &str, path: Option<&str>, hosts: &[&str], values: Option<&str>) -> Exclusion {
    Exclusion {
        hosts: hosts.iter().map(ToString::to_string).collect(),
        values: values.map(str::to_owned),
        ..exclusion(&["10-20"], &[], &[target], path)
    }
}

#[test]
fn conditions_hold_together() {
    let everywhere = None;
    for (target, path, hosts, values, uri, expected) in [
        ("ARGS:q", everywhere, &["shop.example"][..], None, "/?q=attack", 200),
        ("ARGS:q", everywhere, &["a.example", "shop.example"], None, "/?q=attack", 200),
        ("ARGS:q", everywhere, &["shop.example"], None, "/?r=attack", 410),
        ("ARGS:q", everywhere, &["a.example"], None, "/?q=attack", 410),
        ("ARGS:q", everywhere, &["shopxexample"], None, "/?q=attack", 410),
        ("ARGS:q", everywhere, &["*.example"], None, "/?q=attack", 200),
        ("ARGS:q", everywhere, &["*.shop.example"], None, "/?q=attack", 410),
        ("ARGS:q", Some("/a"), &["shop.example"], None, "/a?q=attack", 200),
        ("ARGS:q", Some("/a"), &["shop.example"], None, "/b?q=attack", 410),
        ("ARGS:q", Some("/a"), &["a.example"], None, "/a?q=attack", 410),
        ("ARGS:q", Some("/a/{number}"), &[], None, "/a/12?q=attack", 200),
        ("ARGS:q", Some("/a/{number}"), &[], None, "/a/x?q=attack", 410),
        ("ARGS:q", Some("/a/{number}"), &[], None, "/a/12/b?q=attack", 410),
        ("ARGS:q", Some("/a/{number}/"), &[], None, "/a/12/b?q=attack", 200),
        ("ARGS:q", Some("/a/{segment}/b"), &[], None, "/a/x/../b?q=attack", 410),
        ("ARGS:q", Some("/a.b/{hex}"), &[], None, "/axb/1f?q=attack", 410),
        ("ARGS:a[{number}].b", everywhere, &[], None, "/?a[12].b=attack", 200),
        ("ARGS:a[{number}].b", everywhere, &[], None, "/?a[x].b=attack", 410),
        ("ARGS:$a", everywhere, &[], None, "/?$a=attack", 200),
        ("ARGS:$a", everywhere, &[], None, "/?xa=attack", 410),
        ("ARGS:q", everywhere, &[], Some("[a-z ]*"), "/?q=an%20attack", 200),
        ("ARGS:q", everywhere, &[], Some("[a-z ]*"), "/?q=an%20attack;", 410),
        // One value that does not match is enough, wherever it is.
        ("ARGS:q", everywhere, &[], Some("[a-z ]*"), "/?q=attack&q=;", 410),
        ("ARGS:q", everywhere, &[], Some("[a-z ]*"), "/?q=;&q=attack", 410),
        ("ARGS:q", everywhere, &[], Some("a|attack"), "/?q=attack", 200),
        ("ARGS:q", everywhere, &[], Some("a|attack"), "/?q=attacks", 410),
        ("ARGS:q", everywhere, &[], Some("[a-z]*"), "/?q=attack%0a", 410),
        ("ARGS:q", Some("/a"), &["shop.example"], Some("[a-z]*"), "/a?q=attack", 200),
        ("ARGS:q", Some("/a"), &["shop.example"], Some("[a-z]*"), "/a?q=attack1", 410),
        ("ARGS:q", Some("/a"), &["shop.example"], Some("[a-z]*"), "/b?q=attack", 410),
    ] {
        let exclusions = [narrowed(target, path, hosts, values)];
        assert_eq!(status(&exclusions, uri.as_bytes()), expected, "{uri}, {exclusions:?}");
        // Others beside it change nothing.
        let all = [narrowed("ARGS:z", None, &[], Some("z")), exclusions[0].clone()];
        assert_eq!(status(&all, uri.as_bytes()), expected, "{uri}, {all:?}");
    }
    let header = Exclusion {
        values: Some("att[a-z]*".to_owned()),
        ..exclusion(&["30"], &[], &["REQUEST_HEADERS:X-A"], None)
    };
    assert_eq!(status(&[header], b"/?a=b&h"), 200);
}

#[test]
fn what_is_written_is_read_again() {
    let evidence = ExclusionEvidence { requests: 7, clients: 3, days: 2 };
    let exclusions = [
        Exclusion {
            reason: "a \"quote\", a \\ and \u{e4}\n".to_owned(),
            expires: "2027-01-31".parse().ok(),
            ..narrowed("ARGS:a b", Some("/x/{uuid}"), &["a.example"], Some("\\x22a\\d"))
        },
        exclusion(&["10", "20-30"], &["a/one"], &[], None),
    ];
    let text = write_exclusions(exclusions.iter().zip([Some(evidence), None]));
    let list: ExclusionList = serde_saphyr::from_str(&text).unwrap();
    let read: Vec<Exclusion> = list.exclusions.iter().map(Exclusion::from).collect();
    assert_eq!(read, exclusions, "{text}");
    assert_eq!(list.exclusions[0].evidence, Some(evidence));
    let none: ExclusionList = serde_saphyr::from_str(&write_exclusions([])).unwrap();
    assert_eq!(none, ExclusionList::default());
}

#[test]
fn a_path_that_may_mean_another_one_is_not_excluded() {
    let exclusions = [exclusion(&["10-20"], &[], &[], Some("/wiki/"))];
    for path in [
        "/wiki/../pay",
        "/wiki/..%2fpay",
        "/wiki/%2e%2e/pay",
        "/wiki/.%2E/pay",
        "/wiki//pay",
        "/wiki/./pay",
        "/wiki/.",
        "/wiki/%252e%252e/pay",
        "/wiki/..;/pay",
        "/wiki/a;b",
        "/wiki/a%3Bb",
        "/wiki/\\..\\pay",
        "/wiki/%5cpay",
        "/wiki/%c0%ae%c0%ae/pay",
        "/wiki/%e0%80%ae%e0%80%ae/pay",
        "/wiki/%E0%80%AFpay",
        "/wiki/%e0%81%9cpay",
        "/wiki/%f0%80%80%ae/pay",
        "/wiki/%f8%80%80%80%afpay",
        "/wiki/%fc%80%80%80%80%afpay",
        "/wiki/%u002e%u002E/pay",
        "/wiki/%U2215pay",
        "/wiki/%00",
        "/wiki/%7F",
        "/wiki/\u{1}",
        "/wiki/\u{7f}",
        "/wiki%2fpay",
    ] {
        assert_eq!(status(&exclusions, format!("{path}?q=attack").as_bytes()), 410, "{path}");
    }
    // Overlong UTF-8 as it is, and with some of it escaped.
    for path in [
        &b"/wiki/\xc0\xae\xc0\xae/pay"[..],
        b"/wiki/\xe0\x80\xafpay",
        b"/wiki/%e0\x80\xafpay",
        b"/wiki/\xf0%80\x80\xafpay",
    ] {
        let uri = [path, b"?q=attack"].concat();
        assert_eq!(status(&exclusions, &uri), 410, "{path:x?}");
    }
    for path in [
        "/wiki/M%C3%BCller",
        "/wiki/M\u{fc}ller",
        "/wiki/M%FCller",
        "/wiki/%e0%a4%95",
        "/wiki/%f0%9f%98%80",
        "/wiki/a.b",
        "/wiki/%41",
    ] {
        let uri = format!("{path}?q=attack&r=../..//");
        assert_eq!(status(&exclusions, uri.as_bytes()), 200, "{path}");
    }
}

#[test]
fn what_cannot_be_written_is_refused() {
    let refused = |exclusion: Exclusion, words: &str| {
        let good = self::exclusion(&["1"], &[], &[], None);
        let error = exclusion_rules(&[good, exclusion.clone()]).unwrap_err().to_string();
        assert!(error.contains("number 2") && error.contains(words), "{exclusion:?}: {error}");
    };
    refused(exclusion(&[], &[], &["ARGS"], None), "no `rules` and no `tags`");
    for rule in ["", "a", "1-", "-1", "2-1", "1,2", "1\"", "99999999999"] {
        refused(exclusion(&[rule], &[], &[], None), "no id");
    }
    for tag in ["", "a b", "a\"", "a.*", "%{a}"] {
        refused(exclusion(&[], &[tag], &[], None), "no tag");
    }
    for target in
        ["", "args", "ARGS:", "ARGS:/a/", "ARGS:a|ARGS:b", "!ARGS", "&ARGS", "ARGS:a,deny"]
    {
        refused(exclusion(&["1"], &[], &[target], None), "no target");
    }
    for path in ["", "a", "/a b", "/a\"", "/a?b", "/%61", "/a//b", "/a/../b", "/a\\", "/\u{e4}"] {
        refused(exclusion(&["1"], &[], &[], Some(path)), "no path");
    }
    for path in ["/a{", "/{any}", "/{number", "/{segment}/../b"] {
        refused(exclusion(&["1"], &[], &[], Some(path)), "no path");
    }
    for host in ["", "a b", "a/b", "*.", "*", "a:80", "[::1", "a\"", "\u{e4}.example"] {
        let one = Exclusion { hosts: vec![host.to_owned()], ..exclusion(&["1"], &[], &[], None) };
        refused(one, "no host");
    }
    for values in ["", "a\"b", "a\n", "%{tx.a}", "\u{e4}"] {
        refused(narrowed("ARGS:q", None, &[], Some(values)), "no pattern");
    }
    let values = |length: usize| narrowed("ARGS:q", None, &[], Some(&"a".repeat(length)));
    refused(values(2_049), "longer than 2048");
    assert!(exclusion_rules(&[values(2_048)]).is_ok());
    refused(
        Exclusion { values: Some("a".to_owned()), ..exclusion(&["1"], &[], &[], None) },
        "needs",
    );
    let hosts = |count: usize| narrowed("ARGS:q", None, &vec!["a.example"; count], None);
    refused(hosts(257), "256 at most");
    assert!(exclusion_rules(&[hosts(256)]).is_ok());
    refused(Exclusion { owner: " ".to_owned(), ..exclusion(&["1"], &[], &[], None) }, "owner");
    refused(Exclusion { reason: String::new(), ..exclusion(&["1"], &[], &[], None) }, "reason");
    let many = vec![exclusion(&["1"], &[], &[], None); EXCLUSIONS_MAX + 1];
    assert!(exclusion_rules(&many[1..]).is_ok());
    assert!(exclusion_rules(&many).unwrap_err().to_string().contains("at most"));
}

#[test]
fn an_exclusion_holds_up_to_its_last_day() {
    let on = |expires: Option<&str>, today: &str| {
        let expires = expires.map(|day| day.parse().unwrap());
        let exclusion = Exclusion { expires, ..exclusion(&["1"], &[], &[], None) };
        exclusion.holds_on(today.parse().unwrap())
    };
    assert!(on(Some("2026-12-31"), "2026-12-31"));
    assert!(!on(Some("2026-12-31"), "2027-01-01"));
    assert!(on(None, "2099-01-01"));
}
