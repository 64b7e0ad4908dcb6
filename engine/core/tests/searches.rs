//! One meter for all that is matched by a pattern: operators, selectors, exclusions and captures charge it, and what
//! gives up blocks the request where rules may block. Each request runs with the fast path and without, with texts
//! recalled and without, and eight times in a row.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may fail loudly")]

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};

/// A pattern that gives up on a few dozen `a` with a `b` behind them.
const EXPLODES: &str = r"^(?!x)(a|aa)+\1\1c?$";

const RUNS: usize = 8;

/// Sends a request. Gives the verdict, with its status, and the limits that were hit.
fn send(transaction: &mut Transaction, uri: &str, body: &str) -> (String, u64) {
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 80 };
    let time = Duration::ZERO;
    transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
    transaction.request_line(b"POST", uri.as_bytes(), b"HTTP/1.1");
    transaction.request_header(b"Content-Type", b"application/x-www-form-urlencoded");
    transaction.evaluate_request_headers();
    transaction.request_body(body.as_bytes());
    transaction.evaluate_request_body();
    transaction.response_line(200, b"HTTP/1.1");
    transaction.response_header(b"Content-Type", b"text/html");
    transaction.evaluate_response_headers();
    transaction.response_body(body.as_bytes());
    transaction.evaluate_response_body();
    transaction.finish(time);
    let verdict = transaction.verdict();
    let status = verdict.refusal().map_or(String::new(), |refusal| format!(" {}", refusal.status));
    let flags: Vec<&str> = transaction.flags().names().collect();
    let logged = transaction.matched_rules().filter(|rule| rule.id.0 == 900).count();
    let logged = if logged == 0 { "" } else { ", logged" };
    let told = format!("{}{status} [{}]{logged}", verdict.name(), flags.join(" "));
    (told, transaction.rule_steps())
}

/// What comes of a request, the same in every way to run it.
#[track_caller]
fn outcome(rules: &str, uri: &str, body: &str) -> (String, u64) {
    let text = format!(
        "SecRuleEngine On\nSecRequestBodyAccess On\nSecResponseBodyAccess On\n\
         SecResponseBodyLimit 2000000\n{rules}\n\
         SecRule MSC_PCRE_LIMITS_EXCEEDED \"@eq 1\" \"id:900,phase:5,pass,log\""
    );
    let build = || {
        let input = Input::Text { name: "rules".to_owned(), text: text.clone() };
        Program::build(&[input], &NoFiles, Limits::default()).unwrap_or_else(|why| panic!("{why}"))
    };
    let mut used = Transaction::new(Arc::new(build()));
    let first = send(&mut used, uri, body);
    for run in 1..RUNS {
        assert_eq!(send(&mut used, uri, body), first, "run {run}: {rules}");
    }
    let unknown = send(&mut Transaction::new(Arc::new(build().without_recall())), uri, body);
    assert_eq!(unknown, first, "with nothing recalled: {rules}");
    let (slow, _) = send(&mut Transaction::new(Arc::new(build().without_gates())), uri, body);
    assert_eq!(slow, first.0, "without gates: {rules}");
    first
}

#[track_caller]
fn check(rules: &str, uri: &str, body: &str, expected: &str) {
    assert_eq!(outcome(rules, uri, body).0, expected, "{rules}");
}

/// So many bytes of a text.
fn padding(text: &str, bytes: usize) -> String {
    text.repeat(bytes / text.len())
}

#[test]
fn padding_hides_nothing_from_look_around() {
    let select = r#"SecRule ARGS "@rx (?<!\w)select\b(?!ed)" "id:1,phase:2,deny,t:lowercase""#;
    let card = r#"SecRule ARGS "@verifyCC (?<!\d)\d{16}(?!\d)" "id:1,phase:2,deny""#;
    let response = r#"SecRule RESPONSE_BODY "@verifyCC (?<!\d)\d{16}(?!\d)" "id:1,phase:4,deny""#;
    for bytes in [0, 24_000, 33_000, 60_000, 900_000] {
        for (rules, evil, clean) in [
            (select, "SELECT+*", "selected"),
            (card, "4111111111111111", "41111111111111111"),
            (response, "4111111111111111", "4111111111111112"),
        ] {
            let before = padding("x+", bytes);
            // A long value is cut in the record of its match; no other limit is reached.
            let (found, _) = outcome(rules, "/", &format!("a={before}+{evil}"));
            let expected = if bytes == 0 { "deny 403 []" } else { "deny 403 [matches]" };
            assert_eq!(found, expected, "{rules} behind {bytes} bytes");
            check(rules, "/", &format!("a={before}+{clean}"), "allow []");
        }
    }
}

#[test]
fn giving_up_blocks_in_every_phase_and_order() {
    let long = padding("a", 40) + "b";
    let (uri, body) = (format!("/?q={long}"), format!("a={long}"));
    for (phase, target, status) in [
        (1, "ARGS_GET", "400"),
        (2, "ARGS_POST", "400"),
        (3, "ARGS_GET", "500"),
        (4, "ARGS_POST", "500"),
    ] {
        let rule = format!("SecRule {target} \"@rx {EXPLODES}\" \"id:1,phase:{phase},pass\"");
        let blocked = format!("deny {status} [patterns], logged");
        check(&rule, &uri, &body, &blocked);
        let with = |more: &str| format!("{more}\n{rule}");
        check(&with("SecPatternLimitAction Reject"), &uri, &body, &blocked);
        // A rule behind it may block, too; nothing before it asks for the flag.
        check(
            &with("SecPatternLimitAction ProcessPartial"),
            &uri,
            &body,
            "allow [patterns], logged",
        );
        check(&with("SecRuleEngine DetectionOnly"), &uri, &body, "allow [patterns], logged");
        let allowed = with("SecAction \"id:2,phase:1,pass,ctl:ruleEngine=DetectionOnly\"");
        check(&allowed, &uri, &body, "allow [patterns], logged");
        let negated = rule.replace("@rx", "!@rx").replace("pass", "deny,status:406");
        let partial = format!("SecPatternLimitAction ProcessPartial\n{negated}");
        check(&partial, &uri, &body, "deny 406 [patterns], logged");
    }
    let last = format!("SecRule ARGS \"@rx {EXPLODES}\" \"id:1,phase:5,pass\"");
    assert!(outcome(&last, &uri, &body).0.starts_with("allow [patterns]"));
    // Captures are searched for again, and so is the number of a card.
    let verify = format!("SecRule ARGS \"@verifyCC {EXPLODES}\" \"id:1,phase:2,pass,capture\"");
    check(&verify, &uri, &body, "deny 400 [patterns], logged");
    let macros = format!(
        "SecAction \"id:2,phase:1,pass,setvar:'tx.end=c?$'\"\nSecRule ARGS \"@rx {}%{{tx.end}}\" \
         \"id:1,phase:2,pass\"",
        EXPLODES.trim_end_matches("c?$")
    );
    check(&macros, &uri, &body, "deny 400 [patterns], logged");
}

/// A selection that gives up takes the member, an exclusion that gives up does not take it away.
#[test]
fn selectors_that_give_up_hide_nothing() {
    let long = padding("a", 40) + "b";
    let (evil, clean) = (format!("{long}=attack"), format!("{long}=tea"));
    let attack = "\"@contains attack\" \"id:1,phase:2,deny\"";
    for rule in [
        format!("SecRule ARGS:/{EXPLODES}/ {attack}"),
        format!("SecRule ARGS|!ARGS:/{EXPLODES}/ {attack}"),
        format!("SecRule ARGS|!ARGS:/^x/ {attack}\nSecRuleUpdateTargetById 1 !ARGS:/{EXPLODES}/"),
        format!(
            "SecAction \"id:2,phase:1,pass,ctl:ruleRemoveTargetById=1;ARGS:/{EXPLODES}/\"\n\
             SecRule ARGS {attack}"
        ),
        format!(
            "SecRule ARGS_NAMES \"@rx ^(.*)$\" \"id:2,phase:2,pass,capture,setvar:tx.%{{tx.1}}=attack\"\n\
             SecRule TX:/{EXPLODES}/ {attack}"
        ),
    ] {
        let partial = format!("SecPatternLimitAction ProcessPartial\n{rule}");
        check(&partial, "/", &evil, "deny 403 [patterns], logged");
        let found = outcome(&rule, "/", &clean).0;
        assert!(found.starts_with("deny 40") && found.contains("[patterns]"), "{rule}: {found}");
    }
}

/// Selectors take steps of the request, and end with them.
#[test]
fn selectors_are_metered() {
    let names: Vec<String> = (0..900).map(|n| format!("{}b{n}=1", padding("a", 30))).collect();
    let body = names.join("&");
    let rules = |pattern: &str| -> String {
        let rule = |id| {
            format!("SecRule ARGS:/{pattern}/ \"@contains attack\" \"id:{id},phase:2,pass\"\n")
        };
        "SecPatternLimitAction ProcessPartial\nSecRuleStepsLimit 100000\n".to_owned()
            + &(1..21).map(rule).collect::<String>()
    };
    // Each of 20 rules looks at 900 names, of which none is what it looks for: bytes are charged, and instructions.
    let (regular, steps) = outcome(&rules("^a*c"), "/", &body);
    assert_eq!(regular, "allow []");
    assert!(steps > 1_000, "{steps}");
    let (explodes, steps) = outcome(&rules(EXPLODES), "/", &body);
    assert_eq!(explodes, "deny 503 [patterns rule_steps], logged");
    assert!((100_000..103_000).contains(&steps), "{steps}");
    let cut = format!("{}SecRuleStepsLimit 1000", rules("^a*c"));
    check(&cut, "/", &body, "deny 503 [rule_steps]");
}

#[test]
fn every_pattern_under_a_limit_is_named_in_a_warning() {
    let rules = r#"SecRule ARGS:/(?!a)b/ "@rx a" "id:1,phase:2,pass"
        SecRule ARGS|!ARGS:/(?<=a)b/ "@rx a" "id:2,phase:2,pass"
        SecRule ARGS "@verifyCC (?<!\d)\d{16}" "id:3,phase:2,pass"
        SecRule ARGS "!@rx a++" "id:4,phase:2,pass,chain"
        SecRule TX:/(.)\1/ "@rx a" "t:none"
        SecAction "id:5,phase:1,pass,ctl:ruleRemoveTargetById=1;ARGS:/(?=b)b/"
        SecRuleUpdateTargetById 2 "!ARGS:/(?>c)/""#;
    let input = Input::Text { name: "rules".to_owned(), text: rules.to_owned() };
    let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
    let named = program.warnings().iter().filter(|warning| warning.contains("needs back-tracking"));
    let lines: Vec<&str> = named.filter_map(|warning| warning.split(':').nth(1)).collect();
    assert_eq!(lines, ["1", "2", "7", "3", "4", "5", "6"], "{:?}", program.warnings());
}
