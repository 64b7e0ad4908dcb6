//! Opinions on requests that rules have matched on, and the file of weights.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};
use glacis_second_opinion::{
    Evidence, FORMAT, Opinion, RULES_MAX, WEIGHTS_BYTES_MAX, Weights,
    training::{Example, Label, threshold, train},
};

const RULES: &str = r#"
SecRuleEngine On
SecRule ARGS "@contains select" "id:942001,phase:2,pass,log"
SecRule ARGS "@contains '" "id:942002,phase:2,pass,log"
SecRule ARGS_NAMES|REQUEST_COOKIES|ARGS "@contains zz" "id:941001,phase:2,pass,log"
SecRule REQUEST_URI "@contains /etc/" "id:930001,phase:1,pass,log"
SecRule ARGS "@contains tool" "id:913001,phase:2,pass,log"
SecRule ARGS "@contains own" "id:1001,phase:2,pass,log"
SecRule ARGS "@contains quiet" "id:942003,phase:2,pass,nolog,noauditlog"
"#;

const WEIGHTS: [(u32, i32); 5] =
    [(942_001, 2_100), (942_002, 1_300), (941_001, 900), (930_001, 500), (942_003, 9_000)];

fn weights() -> Weights {
    Weights::new("test".to_owned(), 4, 3_000, WEIGHTS.to_vec()).unwrap()
}

/// The transaction of a request with this path and query, and cookie.
fn transaction(uri: &str, cookie: &str) -> Transaction {
    let inputs = [Input::Text { name: "own.conf".into(), text: RULES.into() }];
    let program = Program::build(&inputs, &NoFiles, Limits::default()).unwrap();
    let mut transaction = Transaction::new(Arc::new(program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    let time = Duration::from_secs(1_790_000_000);
    transaction.start(&Start { unique_id: "1", time, client: endpoint, server: endpoint });
    transaction.request_line(b"GET", uri.as_bytes(), b"HTTP/1.1");
    if !cookie.is_empty() {
        transaction.request_header(b"Cookie", cookie.as_bytes());
    }
    transaction.evaluate_request_headers();
    transaction.evaluate_request_body();
    transaction
}

fn opinion(uri: &str, cookie: &str) -> Opinion {
    weights().opinion(&Evidence::of(&transaction(uri, cookie)))
}

#[test]
fn the_worst_value_decides() {
    for (uri, cookie, score, value, sum) in [
        ("/?a=tea", "", 0, "", ""),
        ("/?a=select", "", 2_100, "ARGS:a", "942001 +2.1"),
        // Each rule once, however often it matches.
        ("/?a=select+select&a=select", "", 2_100, "ARGS:a", "942001 +2.1"),
        ("/?a=select'", "", 3_400, "ARGS:a", "942001 +2.1, 942002 +1.3"),
        // Two values are two sums.
        ("/?a=select&b='", "", 2_100, "ARGS:a", "942001 +2.1"),
        ("/?a='&b=select", "", 2_100, "ARGS:b", "942001 +2.1"),
        // The name of an argument belongs to its value.
        ("/?zz=select", "", 3_000, "ARGS:zz", "942001 +2.1, 941001 +0.9"),
        ("/?a='", "a=zz", 1_300, "ARGS:a", "942002 +1.3"),
        ("/", "a=zz", 900, "REQUEST_COOKIES:a", "941001 +0.9"),
        // What matched on the whole belongs to all values.
        ("/etc/?a=x", "", 500, "", "930001 +0.5"),
        ("/etc/?a=select&b='", "", 2_600, "ARGS:a", "942001 +2.1, 930001 +0.5"),
        // Rules about tools, rules of others, and rules that do not log have no part.
        ("/?a=tool+own+quiet", "", 0, "", ""),
    ] {
        let opinion = opinion(uri, cookie);
        let found = (opinion.score, opinion.value.as_str(), opinion.sum());
        assert_eq!(found, (score, value, sum.to_owned()), "{uri} {cookie}");
        assert_eq!(opinion.is_attack(), score >= 3_000, "{uri} {cookie}");
        let parts: i32 = opinion.reasons.iter().map(|reason| reason.weight).sum();
        assert_eq!(parts, score, "the reasons are the score");
    }
}

/// Of a rule that matched on as many values as are recorded, it is not known that it did not match on the worst one.
#[test]
fn values_beyond_the_limit_are_all_values() {
    let others = |count: usize| (0..count).map(|at| format!("&x{at}=select")).collect::<String>();
    let limit = Limits::default().matches_per_rule_max;
    let below = opinion(&format!("/?a='{}", others(limit - 1)), "");
    assert_eq!((below.score, below.value.as_str()), (2_100, "ARGS:x0"));
    let at = opinion(&format!("/?a='{}", others(limit)), "");
    assert_eq!((at.score, at.value.as_str()), (3_400, "ARGS:a"));
}

/// Whatever a client adds to a request, its score does not fall.
#[test]
fn more_values_never_lower_a_score() {
    let attack = "/?a=select'";
    let plain = opinion(attack, "").score;
    let many = (0..40).map(|at| format!("&x{at}='&y{at}=select")).collect::<String>();
    for more in ["&b=tea", "&b='", "&b=select", "&b=zz", "&own=tool", &many] {
        for cookie in ["", "a=zz", "b=tea"] {
            assert!(opinion(&format!("{attack}{more}"), cookie).score >= plain, "{more} {cookie}");
        }
    }
}

#[test]
fn a_file_is_read_as_it_was_written() {
    let text = weights().text();
    let read = Weights::parse(&text).unwrap();
    assert_eq!((&read, read.text()), (&weights(), text));
}

#[test]
fn files_are_checked() {
    let file = |format: u32, level: u8, threshold: &str, rules: &str| {
        format!(
            r#"{{"format": {format}, "name": "n", "paranoia_level": {level}, "threshold": {threshold},
            "rules": {{{rules}}},
            "provenance": {{"date": "", "ruleset": "", "sources": [], "held_out": []}}}}"#
        )
    };
    let many = |count: usize| {
        let rules: Vec<String> = (0..count).map(|at| format!("\"{}\": 1", 930_000 + at)).collect();
        rules.join(",")
    };
    for (text, problem) in [
        (file(FORMAT, 4, "1", r#""942100": 2.5"#), ""),
        (file(FORMAT, 4, "100", r#""942100": 100, "942101": 0"#), ""),
        (file(FORMAT + 1, 4, "1", ""), "format"),
        (file(FORMAT, 0, "1", ""), "paranoia_level"),
        (file(FORMAT, 5, "1", ""), "paranoia_level"),
        (file(FORMAT, 4, "0", ""), "threshold"),
        (file(FORMAT, 4, "100.1", ""), "threshold"),
        (file(FORMAT, 4, "1", r#""942100": -0.1"#), "rule 942100"),
        (file(FORMAT, 4, "1", r#""942100": 100.1"#), "rule 942100"),
        (file(FORMAT, 4, "1", r#""942100": 1e999"#), "number out of range"),
        (file(FORMAT, 4, "1", r#""920350": 1"#), "rule 920350 may not"),
        (file(FORMAT, 4, "1", r#""949110": 1"#), "rule 949110 may not"),
        (file(FORMAT, 4, "1", &many(RULES_MAX)), ""),
        (file(FORMAT, 4, "1", &many(RULES_MAX + 1)), "more than 4096 rules"),
        ("{}".to_owned(), "missing field"),
        ("x".repeat(WEIGHTS_BYTES_MAX), "expected value"),
        ("x".repeat(WEIGHTS_BYTES_MAX + 1), "longer than"),
    ] {
        let read = Weights::parse(&text).map(|_| String::new());
        let said = read.unwrap_or_else(|error| error.to_string());
        assert_eq!(said.is_empty(), problem.is_empty(), "{said}");
        assert!(said.contains(problem), "{said}: {problem}");
    }
}

fn example(source: usize, label: Label, sets: &[&[u32]]) -> Example {
    Example { source, label, sets: sets.iter().map(|set| set.to_vec()).collect() }
}

/// What attacks match and others do not gets weight; what both match gets none, and nothing less than none.
#[test]
fn weights_are_learned() {
    let mut examples = Vec::new();
    for _ in 0..100 {
        // The attack is in one of two values.
        examples.push(example(0, Label::Attack, &[&[942_100, 942_432], &[942_432]]));
        examples.push(example(1, Label::Benign, &[&[942_432, 932_200]]));
        examples.push(example(1, Label::Technical, &[&[]]));
        examples.push(example(2, Label::Attack, &[&[920_100, 942_432]]));
    }
    let model = train(&examples, 1e-3, |example| example.source != 2);
    let rules: Vec<(u32, i32)> = model.rules().collect();
    assert!(
        matches!(rules.as_slice(), [(942_100, weight), ..] | [_, (942_100, weight), ..] if *weight > 2_000),
        "{rules:?}"
    );
    assert!(rules.iter().all(|(rule, weight)| *weight > 0 && *rule != 932_200 && *rule != 920_100));
    assert_eq!(train(&examples, 1e-3, |example| example.source != 2), model);
    assert!(model.score(&examples[0]) > model.score(&examples[1]));
}

/// What matches attacks of one source says what that source is like.
#[test]
fn a_rule_of_one_source_has_no_weight() {
    let mut examples = Vec::new();
    for source in 0..3 {
        for _ in 0..20 {
            let rules: &[u32] = if source == 0 { &[942_100, 932_270] } else { &[942_100] };
            examples.push(example(source, Label::Attack, &[rules]));
            examples.push(example(3, Label::Benign, &[&[]]));
        }
    }
    let rules: Vec<u32> = train(&examples, 0.001, |_| true).rules().map(|(rule, _)| rule).collect();
    assert_eq!(rules, [942_100]);
    // The only source of attacks is enough.
    let alone = train(&examples, 0.001, |example| matches!(example.source, 0 | 3));
    assert_eq!(alone.rules().map(|(rule, _)| rule).collect::<Vec<u32>>(), [932_270, 942_100]);
}

#[test]
fn a_threshold_lets_a_share_be_alarms() {
    let scores = |count: u32| (0..count).map(f64::from).collect::<Vec<_>>();
    for (count, share, alarms) in
        [(1_000, 0.001, 1), (1_000, 0.01, 10), (999, 0.001, 0), (0, 0.1, 0)]
    {
        let bar = threshold(scores(count), share);
        let found = scores(count).iter().filter(|score| **score >= bar).count();
        assert_eq!(found, alarms, "{count} {share} {bar}");
        assert!(bar > 0.0);
    }
}
