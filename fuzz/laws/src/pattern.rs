//! A law of patterns. The input is a pattern up to a line end, and a value behind it. It is tried on that
//! value, on one that it was made to match, and on both together.

use std::sync::Arc;

use glacis_engine::{Input, Limits, NoFiles, Program, Transaction};

use crate::{
    generated::{with_parameter, with_selector},
    message::{split, start},
    sample::{Choices, sample},
};

/// Steps of back-tracking: few, since an input shall take milliseconds.
const STEPS_MAX: usize = 20_000;

/// What stands before the rules.
const HEAD: &str = "SecRuleEngine On\nSecDefaultAction \"phase:1,log,pass\"\n";

/// The rules that are given the pattern. A match of the first says what was found; it alone has a gate.
/// The second shows the same automaton without one, and the third has the pattern matched by
/// back-tracking.
const RULES: &str =
    "SecRule REQUEST_HEADERS:X \"@rx x\" \"id:1,phase:1,pass,capture,logdata:'%{TX.0}'\"
SecRule REQUEST_HEADERS:X \"!@rx x\" \"id:2,phase:1,pass\"
SecRule REQUEST_HEADERS:X \"@rx x\" \"id:3,phase:1,pass,capture,logdata:'%{TX.0}'\"
";

/// Any text is a pattern or refused; what an automaton finds, and what the fast path lets it find, is
/// what back-tracking finds, as far as that comes to an end. As a selector it takes the names in which it finds
/// something.
pub fn pattern(input: &[u8]) {
    let (pattern, value) = split(input, b"\n");
    let pattern = String::from_utf8_lossy(pattern);
    // An empty look-ahead changes nothing but who matches.
    let backtracking = format!("(?=){pattern}");
    let backtracks = [&*pattern, &*pattern, &*backtracking];
    let Some(program) = program(&backtracks).or_else(|| program(&backtracks[..2])) else { return };
    let program = Arc::new(program);
    let mut transaction = Transaction::new(Arc::clone(&program));
    let sample = sample(&pattern, &mut Choices::of(input));
    selectors(&pattern, &[value, &sample, &[value, &sample, value].concat()]);
    for value in [value, &sample, &[value, &sample, value].concat()] {
        let ([automaton, ungated, steps], gave_up) = find(&mut transaction, b"X", value);
        if gave_up {
            continue;
        }
        assert_ne!(automaton.is_some(), ungated.is_some(), "without a gate, and with it");
        if program.rule_count() == backtracks.len() {
            assert_eq!(automaton, steps, "by an automaton, and by back-tracking");
        }
    }
}

/// Rules that look for a name: by an operator, and by a selector, which has a literal gate of its own.
const NAME_RULES: [&str; 2] = [
    "SecRule REQUEST_HEADERS_NAMES \"@rx x\" \"id:1,phase:1,pass,logdata:'x'\"",
    "SecRule &REQUEST_HEADERS:/x/ \"@gt 0\" \"id:2,phase:1,pass,logdata:'x'\"",
];

/// A selector takes the names that the pattern finds as an operator.
fn selectors(pattern: &str, names: &[&[u8]]) {
    // Macros are expanded in operators only.
    if pattern.contains("%{") {
        return;
    }
    let [operator, selector] = NAME_RULES;
    let Some(operator) = with_parameter(operator, &format!("(?i){pattern}")) else { return };
    let Some(selector) = with_selector(selector, pattern) else { return };
    let Some(program) = built(&format!("{HEAD}{operator}{selector}")) else { return };
    let mut transaction = Transaction::new(Arc::new(program));
    for name in names {
        let ([operator, selector, _], gave_up) = find(&mut transaction, name, b"value");
        assert!(gave_up || operator == selector, "as an operator, and as a selector");
    }
}

/// `None` if a pattern is refused, or cannot be written in SecLang.
fn program(patterns: &[&str]) -> Option<Program> {
    let mut text = HEAD.to_owned();
    for (rule, pattern) in RULES.lines().zip(patterns) {
        text += &with_parameter(rule, pattern)?;
    }
    built(&text)
}

fn built(text: &str) -> Option<Program> {
    let input = Input::Text { name: "pattern".to_owned(), text: text.to_owned() };
    let limits = Limits { backtrack_steps_max: STEPS_MAX, ..Limits::default() };
    Program::build(&[input], &NoFiles, limits).ok()
}

/// What each rule found, and whether a search came to its limit.
fn find(transaction: &mut Transaction, name: &[u8], value: &[u8]) -> ([Option<String>; 3], bool) {
    start(transaction);
    transaction.request_header(name, value);
    transaction.evaluate_request_headers();
    let mut found = [None, None, None];
    for rule in transaction.matched_rules() {
        let place = found.get_mut(rule.id.0 as usize - 1).expect("one of the three rules");
        *place = Some(rule.logdata.into_owned());
    }
    let flags = transaction.flags();
    (found, flags.patterns_gave_up || flags.patterns_failed)
}
