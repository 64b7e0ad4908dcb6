//! The trace of a transaction: what it tells, that it is bounded, and that it is off unless asked for.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail loudly")]

use std::{fmt::Write as _, net::Ipv4Addr, sync::Arc, time::Duration};

use glacis_engine::{
    Endpoint, Excerpt, Input, Limits, NoFiles, Program, Start, TraceEvent, Transaction,
};

fn transaction(rules: &str, limits: Limits) -> Transaction {
    let input =
        Input::Text { name: "rules".to_owned(), text: format!("SecRuleEngine On\n{rules}") };
    Transaction::new(Arc::new(Program::build(&[input], &NoFiles, limits).unwrap()))
}

fn run(transaction: &mut Transaction, uri: &str) {
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    let start = Start { unique_id: "1", time: Duration::ZERO, client: endpoint, server: endpoint };
    transaction.start(&start);
    transaction.request_line(b"GET", uri.as_bytes(), b"HTTP/1.1");
    transaction.evaluate_request_headers();
    transaction.evaluate_request_body();
    transaction.finish(Duration::ZERO);
}

fn text(excerpt: &Excerpt) -> String {
    let cut = if excerpt.is_cut() { format!("…{}", excerpt.length) } else { String::new() };
    format!("{}{cut}", excerpt.bytes.escape_ascii())
}

/// One line a step.
fn story(transaction: &Transaction) -> String {
    let mut out = String::new();
    for step in transaction.trace() {
        let rule = &step.rule;
        let _ = write!(out, "{}/{} {}:{} ", rule.id, rule.link, rule.phase.number(), rule.line);
        match step.event {
            TraceEvent::Match(found) | TraceEvent::Miss(found) => {
                if matches!(step.event, TraceEvent::Miss(_)) {
                    out.push_str("miss ");
                }
                let negated = if rule.negated { "!" } else { "" };
                let name = found.variable.escape_ascii();
                let _ = write!(out, "{name}={} {negated}@{}", text(&found.value), rule.operator);
                if let Some(parameter) = &found.parameter {
                    let _ = write!(out, " {}", text(parameter));
                }
                for stage in &found.stages {
                    let _ = write!(out, " t:{}={}", stage.transformation, text(&stage.value));
                }
                for part in &found.found {
                    let _ = write!(out, " {}@{:?}={}", part.group, part.range, text(&part.text));
                }
                let _ = write!(out, " {}", found.fingerprint.escape_ascii());
            }
            TraceEvent::Change(change) => {
                let side =
                    |side: &Option<Excerpt>| side.as_ref().map_or_else(|| "-".to_owned(), text);
                let name = change.member.escape_ascii();
                let _ = write!(out, "{name}: {} -> {}", side(&change.before), side(&change.after));
            }
            TraceEvent::Rule(said) => {
                let _ = write!(out, "{} {:?}", rule.disruptive, rule.status);
                let _ = write!(out, " [{}] [{}]", text(&said.msg), text(&said.logdata));
            }
        }
        out.truncate(out.trim_end().len());
        out.push('\n');
    }
    out
}

#[track_caller]
fn check(rules: &str, uri: &str, expected: &[&str]) {
    let mut transaction = transaction(rules, Limits::default()).with_trace();
    // What an earlier request left behind is gone.
    run(&mut transaction, "/?other=%41&n=1");
    run(&mut transaction, uri);
    let seen = story(&transaction);
    assert_eq!(seen.lines().collect::<Vec<_>>(), expected, "{seen}");
    assert!(!transaction.flags().trace_cut);
}

#[test]
fn values_that_do_not_match_where_they_are_asked_for() {
    let rules = r#"SecRule ARGS:a|ARGS:b "@rx ^b" "id:1,phase:2,pass,nolog,t:lowercase""#;
    let input =
        Input::Text { name: "rules".to_owned(), text: format!("SecRuleEngine On\n{rules}") };
    let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
    let program = Arc::new(program.without_gates());
    for (mut transaction, expected) in [
        (
            Transaction::new(Arc::clone(&program)).with_misses(),
            "1/0 2:2 miss ARGS:a=A @rx t:lowercase=a\n\
             1/0 2:2 ARGS:b=B @rx t:lowercase=b 0@0..1=b\n1/0 2:2 pass None [] []\n",
        ),
        (
            Transaction::new(Arc::clone(&program)).with_trace(),
            "1/0 2:2 ARGS:b=B @rx t:lowercase=b 0@0..1=b\n1/0 2:2 pass None [] []\n",
        ),
    ] {
        run(&mut transaction, "/?a=A&b=B");
        assert_eq!(story(&transaction), expected);
    }
}

#[test]
fn transformations_and_captures() {
    check(
        r#"SecRule ARGS "@rx b(.)d" "id:1,phase:2,pass,nolog,t:none,t:lowercase,t:trim,t:hexDecode""#,
        "/?a=614243640A",
        &[],
    );
    check(
        r#"SecRule ARGS "@rx b(.)d" "id:1,phase:2,deny,status:406,t:none,t:trim,t:lowercase,msg:'%{MATCHED_VAR}'""#,
        "/?a=+aBcD",
        &[
            "1/0 2:2 ARGS:a= aBcD @rx t:trim=aBcD t:lowercase=abcd 0@1..4=bcd 1@2..3=c",
            "1/0 2:2 deny Some(406) [abcd] []",
        ],
    );
}

#[test]
fn all_stages_are_looked_at_up_to_the_one_that_matched() {
    check(
        r#"SecRule ARGS "@streq x y" "id:1,phase:2,pass,multiMatch,t:trim,t:removeWhitespace""#,
        "/?a=+x+y",
        &["1/0 2:2 ARGS:a= x y @streq x y t:trim=x y 0@0..3=x y", "1/0 2:2 pass None [] []"],
    );
}

#[test]
fn chains_and_changes() {
    check(
        r#"SecAction "id:1,phase:1,pass,nolog,setvar:tx.score=0,setvar:tx.max=5"
        SecRule ARGS:n "@gt 1" "id:2,phase:1,pass,setvar:tx.score=+%{ARGS.n},chain"
        SecRule TX:SCORE "!@lt %{tx.max}" "logdata:'%{MATCHED_VAR}',setvar:!tx.score,setvar:tx.%{MATCHED_VAR_NAME}=1""#,
        "/?n=7",
        &[
            "1/0 1:2 score: - -> 0",
            "1/0 1:2 max: - -> 5",
            "1/0 1:2 pass None [] []",
            "2/0 1:3 ARGS:n=7 @gt 1",
            "2/0 1:3 score: 0 -> 7",
            "2/1 1:4 TX:score=7 !@lt 5",
            "2/1 1:4 score: 7 -> -",
            "2/1 1:4 tx:score: - -> 1",
            "2/0 1:3 pass None [] [7]",
        ],
    );
}

#[test]
fn members_in_texts() {
    check(
        r#"SecRule ARGS "@rx 7" "id:1,phase:1,deny,status:403,msg:'%{MATCHED_VARS_NAMES.ARGS:n} %{MATCHED_VARS.ARGS:n}'""#,
        "/?n=7",
        &["1/0 1:2 ARGS:n=7 @rx 0@0..1=7", "1/0 1:2 deny Some(403) [ARGS:n 7] []"],
    );
}

#[test]
fn what_operators_find() {
    for (operator, expected) in [
        ("@contains lo w", "0@3..7=lo w"),
        ("@beginsWith hello", "0@0..5=hello"),
        ("@endsWith world", "0@6..11=world"),
        ("@pm nothing world", "0@6..11=world"),
        ("@validateByteRange 97-122", r"0@5..6= "),
        ("@rx o", "0@4..5=o"),
        ("!@rx x", ""),
    ] {
        let rules = format!("SecRule ARGS \"{operator}\" \"id:1,phase:2,pass\"");
        let mut transaction = transaction(&rules, Limits::default()).with_trace();
        run(&mut transaction, "/?a=hello+world");
        let seen = story(&transaction);
        let first = seen.lines().next().unwrap_or_default();
        assert!(first.ends_with(expected.trim_end()), "{operator}: {seen}");
    }
    check(
        r#"SecRule ARGS "@detectSQLi" "id:1,phase:2,pass""#,
        "/?a=1'+or+1=1--",
        &["1/0 2:2 ARGS:a=1\\' or 1=1-- @detectSQLi s&1c", "1/0 2:2 pass None [] []"],
    );
}

#[test]
fn without_being_asked_nothing_is_recorded() {
    let mut transaction =
        transaction("SecRule ARGS \"@rx a\" \"id:1,phase:2,deny\"", Limits::default());
    run(&mut transaction, "/?a=a");
    assert_eq!(transaction.trace().count(), 0);
    assert!(transaction.verdict().refusal().is_some());
}

#[test]
fn traces_are_bounded() {
    const RULE: &str = "SecRule ARGS \"@rx a\" \"id:1,phase:2,pass,t:urlDecode,t:lowercase\"\n";
    let query: String = (0..900).map(|name| format!("n{name}=%2541A{}&", "b".repeat(90))).collect();
    for (steps, bytes) in [(100, usize::MAX), (usize::MAX, 10_000)] {
        let limits = Limits { trace_steps_max: steps, trace_bytes_max: bytes, ..Limits::default() };
        let mut transaction = transaction(RULE, limits).with_trace();
        run(&mut transaction, &format!("/?{query}"));
        let seen = transaction.trace().count();
        assert!(transaction.flags().trace_cut);
        assert!(seen > 0 && seen <= 100, "{seen}");
        // It is no mark that stays.
        run(&mut transaction, "/");
        assert!(!transaction.flags().trace_cut);
    }
    let limits = Limits { match_value_bytes_max: 4, ..Limits::default() };
    let mut transaction = transaction(RULE, limits).with_trace();
    run(&mut transaction, "/?q=xxxxxxxa");
    let seen = story(&transaction);
    assert!(seen.contains("ARGS=xxxx…8") || seen.contains("ARGS:q=xxxx…8"), "{seen}");
    assert!(seen.contains("0@7..8=a"), "{seen}");
}

/// A profile may be asked for in the middle of a transaction: what was before is not in it.
#[test]
fn a_profile_begins_when_it_is_asked_for() {
    let mut transaction = transaction(
        "SecRule ARGS \"@contains one\" \"id:1,phase:1,pass\"\n\
         SecRule ARGS \"@contains two\" \"id:2,phase:2,pass\"",
        Limits::default(),
    );
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
    let start = Start { unique_id: "1", time: Duration::ZERO, client: endpoint, server: endpoint };
    transaction.start(&start);
    transaction.request_line(b"GET", b"/?a=one+two", b"HTTP/1.1");
    transaction.evaluate_request_headers();
    assert!(transaction.profile().is_none() && transaction.profiled_rules().next().is_none());
    let mut transaction = transaction.with_profile(|| 0);
    transaction.evaluate_request_body();
    let counts = |transaction: &Transaction| {
        let profile = transaction.profile().unwrap();
        let named: Vec<u64> = transaction.profiled_rules().map(|rule| rule.cost.named).collect();
        (profile.transactions, profile.unnamed_transactions, named)
    };
    assert_eq!(counts(&transaction), (0, 0, vec![0, 1]));
    run(&mut transaction, "/?a=one");
    run(&mut transaction, "/?a=none");
    assert_eq!(counts(&transaction), (2, 0, vec![2, 1]));
    run(&mut transaction, "/?a=three");
    assert_eq!(counts(&transaction), (3, 1, vec![2, 1]));
}
