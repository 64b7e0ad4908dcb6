//! What typed exclusions let pass, and what not.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};
use glacis_rules::{EXCLUSIONS_MAX, Exclusion, exclusion_rules};

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
