//! Laws of transactions. The input is a message, see the module `message`; for [`chunking`] behind a
//! line with the sizes of pieces, one a byte; for [`fast_path`] perhaps behind rules, see the module
//! `generated`, and with values added that are made to match some of the rules.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use glacis_engine::{
    Input, Limits, NoFiles, Program, Source as _, Transaction, Variable, transform,
};
use glacis_rules::FileSource;

use crate::{
    generated::{self, parameters_in},
    message::{Message, describe, fresh, split, start, story, with_empty_store, with_values},
    sample::{Choices, encoded_sample},
};

/// A request like any other, to see what a transaction has kept of those before.
const REQUEST: &[u8] = b"POST /a?b=c HTTP/1.1\nCookie: d=e\nX-Shift: 1\n\
Content-Type: application/x-www-form-urlencoded\n\nf=union+select\n\
=== response\nHTTP/1.1 200\nContent-Type: text/html\n\n<p>g</p>";

/// Every way to read a body.
pub(crate) const BODIES: &str = include_str!("bodies.conf");
/// Rules as CRS has them.
const GATED: &str = include_str!("gated.conf");

/// Small, so that inputs of a few hundred bytes reach them.
pub(crate) fn limits() -> Limits {
    Limits {
        arguments_max: 24,
        query_arguments_max: 16,
        kept_members_max: 6,
        headers_max: 24,
        cookies_max: 12,
        nested_bytes_max: 256,
        transform_bytes_max: 4_096,
        expansion_bytes_max: 512,
        tx_members_max: 24,
        matches_per_rule_max: 100,
        match_value_bytes_max: 256,
        matched_rules_max: 400,
        expanded_patterns_max: 4,
        backtrack_steps_max: 500,
        ..Limits::default()
    }
}

pub(crate) fn build(text: String, limits: Limits) -> Program {
    let input = Input::Text { name: "laws.conf".to_owned(), text };
    match Program::build(&[input], &NoFiles, limits) {
        Ok(program) => program,
        Err(errors) => panic!("the rules of the laws do not compile: {errors}"),
    }
}

/// The bodies of request and response may come in any pieces, and the memory may have been used before:
/// verdict, matches, the values of all variables and the steps taken are the same. A trace changes nothing.
pub fn chunking(input: &[u8]) {
    static PROGRAMS: OnceLock<[Arc<Program>; 2]> = OnceLock::new();
    let programs = PROGRAMS.get_or_init(|| {
        [
            "SecRuleEngine DetectionOnly\nSecRequestBodyLimitAction ProcessPartial\n",
            "SecRuleEngine On\nSecRequestBodyLimitAction Reject\n\
             SecResponseBodyLimitAction Reject\n",
        ]
        .map(|settings| Arc::new(build(format!("{settings}{}", observing()), limits())))
    });
    let (pieces, message) = split(input, b"\n");
    let message = Message::parse(message);
    for program in programs {
        let mut transaction = fresh(program);
        let whole = message.outcome(&mut transaction, &[]);
        let steps = transaction.rule_steps();
        for pieces in [pieces, &[1]] {
            transaction = with_empty_store(transaction).with_trace();
            let again = message.outcome(&mut transaction, pieces);
            assert_eq!(again, whole, "in pieces of {pieces:?}");
            assert_eq!(transaction.rule_steps(), steps, "in pieces of {pieces:?}");
        }
    }
}

/// Rules that show every variable, and every way to read a body.
fn observing() -> String {
    let mut text = BODIES.to_owned();
    for (index, variable) in Variable::ALL.iter().enumerate() {
        let target = match variable.name() {
            "XML" => "XML:/*|XML://@*",
            name => name,
        };
        let id = 1_000 + index;
        text += &format!("SecRule {target} \"@unconditionalMatch\" \"id:{id},phase:5,pass,log\"\n");
    }
    text
}

/// Where CRS is, if the law [`fast_path`] is to be tried on it instead of on rules of ours.
const CRS_DIR: &str = "GLACIS_FUZZ_CRS_DIR";

/// Values that are made to match some rule of many.
const SAMPLES: usize = 3;

/// Rules with their fast path and without, and the parameters of their operators.
#[derive(Debug)]
pub struct Judges {
    programs: [Arc<Program>; 2],
    parameters: Vec<String>,
}

impl Judges {
    fn new(build: impl Fn() -> Program, parameters: Vec<String>) -> Self {
        Self { programs: [build(), build().without_gates()].map(Arc::new), parameters }
    }

    /// Rules as CRS has them.
    fn of_ours() -> Self {
        Self::new(|| build(gated(), limits()), parameters_in(&gated()))
    }

    /// The whole of CRS, in `folder`.
    pub fn of_crs(folder: &Path) -> Self {
        let inputs = crs(folder);
        let parameters = texts(&inputs).flat_map(|text| parameters_in(&text)).collect();
        Self::new(|| build_crs(&inputs), parameters)
    }

    /// Every rule with its gate says and does the same as every rule run, for a message with values that
    /// are made to match some of the rules.
    pub fn agree(&self, message: &[u8]) {
        let mut choices = Choices::of(message);
        let sample = |_| {
            let parameter = self.parameters.get(choices.below(self.parameters.len()))?;
            Some(encoded_sample(parameter, &mut choices))
        };
        let samples: Vec<Vec<u8>> = (0..SAMPLES).filter_map(sample).collect();
        gates_change_nothing(&self.programs, message, &samples);
    }

    /// The same for each rule: a message with what it is made to match. Says how many messages those were.
    pub fn agree_on_each_rule(&self, message: &[u8]) -> usize {
        let mut choices = Choices::of(message);
        let messages = self.parameters.chunks(SAMPLES);
        for parameters in messages.clone() {
            let sample = |text: &String| encoded_sample(text, &mut choices);
            let samples: Vec<Vec<u8>> = parameters.iter().map(sample).collect();
            gates_change_nothing(&self.programs, message, &samples);
        }
        messages.len()
    }
}

/// Every rule with its gate says and does the same as every rule run, and a program that shares parts with
/// another the same as one that was built alone.
pub fn fast_path(input: &[u8]) {
    static JUDGES: OnceLock<Judges> = OnceLock::new();
    if let Some((rules, message)) = generated::parts(input) {
        let mut choices = Choices::of(input);
        let parameters = generated::parameters(rules);
        let sample = |text: &String| encoded_sample(text, &mut choices);
        let samples: Vec<Vec<u8>> = parameters.iter().map(sample).collect();
        gates_change_nothing(&generated::programs(rules), message, &samples);
        let steps_max = 1 + choices.below(STEPS_OF_HISTORY);
        history_changes_nothing(&generated::within_steps(rules, steps_max), message, &samples);
        for programs in generated::sharing(rules) {
            sharing_changes_nothing(&programs, message, &samples);
        }
        return;
    }
    let judges = JUDGES.get_or_init(|| match std::env::var_os(CRS_DIR) {
        Some(folder) => Judges::of_crs(Path::new(&folder)),
        None => Judges::of_ours(),
    });
    judges.agree(input);
}

/// Transactions until most texts of a message are recalled.
const RECALL_PASSES: usize = 8;

fn gates_change_nothing(programs: &[Arc<Program>; 2], message: &[u8], samples: &[Vec<u8>]) {
    let message = with_values(message, samples);
    let message = Message::parse(&message);
    let [fast, slow] = programs.each_ref().map(|program| {
        let mut transaction = fresh(program).with_trace();
        let told = message.outcome(&mut transaction, &[]);
        (told, story(&transaction))
    });
    assert_eq!(fast.0, slow.0, "with gates, and without them");
    assert_eq!(fast.1, slow.1, "the story with gates, and without them");
    // Without a trace rules are left out that are settled when they are loaded, and texts that came before
    // are recalled.
    let mut used = programs.each_ref().map(fresh);
    for pass in 0..RECALL_PASSES {
        let [fast, slow] = used.each_mut().map(|used| message.outcome(used, &[]));
        assert_eq!(fast, slow, "without a trace, pass {pass}");
    }
    let [fast, slow] = &mut used;
    let rested = message.outcome_rested(fast);
    assert_eq!(rested, message.outcome(slow, &[]), "with its memory given back between phases");
}

/// A limit of steps that many generated rules reach.
const STEPS_OF_HISTORY: usize = 120;

/// A request comes out the same, and takes as many steps, whether it is the first or the eighth of its kind, and whether
/// anything is recalled at all.
fn history_changes_nothing(programs: &[Arc<Program>; 2], message: &[u8], samples: &[Vec<u8>]) {
    let message = with_values(message, samples);
    let message = Message::parse(&message);
    let [used, oracle] = programs;
    let mut oracle = fresh(oracle);
    let first = (message.outcome(&mut oracle, &[]), oracle.rule_steps());
    let mut used = fresh(used);
    for pass in 0..RECALL_PASSES {
        let again = (message.outcome(&mut used, &[]), used.rule_steps());
        assert_eq!(again, first, "cold in pass 0, warm later: pass {pass}");
    }
}

fn sharing_changes_nothing(programs: &[Arc<Program>; 2], message: &[u8], samples: &[Vec<u8>]) {
    let message = with_values(message, samples);
    let message = Message::parse(&message);
    let [alone, sharing] = programs.each_ref().map(|program| {
        let mut transaction = fresh(program).with_trace();
        let told = message.outcome(&mut transaction, &[]);
        [told, story(&transaction), message.outcome(&mut fresh(program), &[])]
    });
    assert_eq!(alone, sharing, "built alone, and with parts of another");
}

/// CRS with all its rules, none of which ends a request.
fn crs(folder: &Path) -> Vec<Input> {
    let text = |text: &str| Input::Text { name: "laws.conf".to_owned(), text: text.to_owned() };
    let mut inputs = glacis_rules::crs(folder).expect("a folder with CRS");
    inputs.insert(
        1,
        text(
            "SecAction \"id:1,phase:1,nolog,pass,setvar:tx.blocking_paranoia_level=4,\
             setvar:tx.detection_paranoia_level=4\"",
        ),
    );
    inputs.push(text("SecRuleEngine DetectionOnly"));
    inputs
}

fn build_crs(inputs: &[Input]) -> Program {
    Program::build(inputs, &FileSource::new(), limits()).expect("CRS compiles")
}

/// The text of each input.
fn texts(inputs: &[Input]) -> impl Iterator<Item = String> {
    let files = FileSource::new();
    inputs.iter().flat_map(move |input| match input {
        Input::Text { text, .. } => vec![text.clone()],
        Input::File(pattern) => {
            let paths = files.list(pattern, "").unwrap_or_default();
            let read = |path: &String| Some(files.read(path, "").ok()?.bytes);
            let bytes = paths.iter().filter_map(read);
            bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
        }
    })
}

/// Rules as CRS has them, and one pattern behind each transformation.
fn gated() -> String {
    let mut text = ["SecRuleEngine On\n", BODIES, GATED].concat();
    for (index, &(name, _)) in transform::TABLE.iter().enumerate() {
        text += &format!(
            "SecRule ARGS|REQUEST_HEADERS \"@rx (?i)select|<script|passwd|0a0b\" \
             \"id:{},phase:2,pass,log,t:none,t:{name}\"\n",
            2_000 + 2 * index
        );
        text += &format!(
            "SecRule ARGS|REQUEST_BODY \"@rx (?i)union.{{0,9}}all|\\.\\./|[a-c]lert\" \
             \"id:{},phase:2,pass,log,t:none,t:urlDecodeUni,t:{name},t:lowercase\"\n",
            2_001 + 2 * index
        );
    }
    text
}

/// Calls of one input that are made; more only repeat them.
const CALLS_MAX: usize = 400;

/// Steps that rules may take in [`transaction_calls`]: some inputs reach it.
const STEPS_MAX: usize = 2_000;

/// The most steps that one look at a value may take, which is paid behind it.
const STEPS_OF_A_LOOK: u64 = 1_000;

/// A host may call what it likes in any order: nothing panics, nothing grows beyond its limits, and the
/// next request is not touched by it. The input is a call a line: a letter, and what it is given.
pub fn transaction_calls(input: &[u8]) {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| {
        let settings = format!("SecRuleEngine DetectionOnly\nSecRuleStepsLimit {STEPS_MAX}\n");
        let limits = Limits { trace_steps_max: 40, trace_bytes_max: 4_096, ..limits() };
        Arc::new(build([&settings, BODIES, GATED].concat(), limits))
    });
    let mut transaction = fresh(program);
    for line in input.split(|&byte| byte == b'\n').take(CALLS_MAX) {
        if line.first() == Some(&b't') {
            transaction = transaction.with_trace();
        } else if let Some((call, argument)) = line.split_first() {
            make_call(&mut transaction, *call, argument);
        }
        check_limits(&transaction);
    }
    let request = Message::parse(REQUEST);
    let used = request.outcome(&mut with_empty_store(transaction), &[]);
    assert_eq!(used, request.outcome(&mut fresh(program), &[]), "used before, and new");
}

fn make_call(transaction: &mut Transaction, call: u8, argument: &[u8]) {
    let (name, value) = split(argument, b"=");
    match call {
        b'l' => transaction.request_line(name, value, b"HTTP/1.1"),
        b'h' => transaction.request_header(name, value),
        b'1' => drop(transaction.evaluate_request_headers().clone()),
        b'b' => drop(transaction.request_body(argument)),
        b'c' => transaction.request_body_cut(),
        b'2' => drop(transaction.evaluate_request_body().clone()),
        b'L' => transaction.response_line(u16::from(*value.first().unwrap_or(&0)), name),
        b'H' => transaction.response_header(name, value),
        b'3' => drop(transaction.evaluate_response_headers().clone()),
        b'B' => drop(transaction.response_body(argument)),
        b'4' => drop(transaction.evaluate_response_body().clone()),
        b'5' => drop(transaction.finish(Duration::from_secs(argument.len() as u64)).clone()),
        b'e' => transaction.environment(name, value),
        b'w' => assert!(!(transaction.wants_request_body() && transaction.wants_response_body())),
        b'd' => drop((describe(transaction), story(transaction))),
        _ => start(transaction),
    }
}

fn check_limits(transaction: &Transaction) {
    let limits = transaction.program().limits();
    assert!(transaction.matched_rules().count() <= limits.matched_rules_max);
    assert!(transaction.matched_ids().count() <= limits.matched_rules_max);
    assert!(transaction.trace().count() <= limits.trace_steps_max);
    // The last phase may take as many once more.
    let steps_max = 2 * (limits.rule_steps_max as u64 + STEPS_OF_A_LOOK);
    assert!(transaction.rule_steps() <= steps_max, "{} steps", transaction.rule_steps());
    for rule in transaction.matched_rules() {
        assert!(rule.matches.len() <= limits.matches_per_rule_max);
        assert!(
            rule.logdata.len() <= 3 * limits.expansion_bytes_max,
            "bytes that are no UTF-8 grow"
        );
        for found in rule.matches {
            assert!(found.value.len() <= limits.match_value_bytes_max);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::sample;

    /// The rules of a law match something, and in each phase, or it would hold for nothing.
    #[test]
    fn rules_of_the_laws_match() {
        const ATTACK: &[u8] =
            b"PUT /a/../b?a=1'+union+all+select+1--&id=1&b=%3Cscript%3E HTTP/1.1\n\
            User-Agent: nikto\nX-Shift: 1\nContent-Type: application/x-www-form-urlencoded\n\n\
            id=2&p=select%0d\n=== response\nHTTP/1.1 500\nContent-Type: text/html\n\nstack trace";
        let program = Arc::new(build(gated(), limits()));
        let mut transaction = fresh(&program);
        Message::parse(ATTACK).send(&mut transaction, &[]);
        let matched: Vec<u32> = transaction.matched_rules().map(|rule| rule.id.0).collect();
        for id in [104, 107, 202, 203, 206, 301, 401, 502, 503, 2_047] {
            assert!(matched.contains(&id), "{id} is not in {matched:?}");
        }
        assert!(!matched.contains(&205), "taken away by rule 106: {matched:?}");
    }

    /// So do the values that are made to.
    #[test]
    fn samples_match() {
        let rules = b"aa00bb select.{3,5}from\naa00b0 <script[a-z]";
        let [fast, slow] = generated::programs(rules);
        for seed in 0_u8..20 {
            let mut choices = Choices::of(&[seed]);
            let samples: Vec<Vec<u8>> = generated::parameters(rules)
                .iter()
                .map(|parameter| sample(parameter, &mut choices))
                .collect();
            for program in [&fast, &slow] {
                let mut transaction = fresh(program);
                let message = with_values(b"GET / HTTP/1.1\n", &samples);
                Message::parse(&message).send(&mut transaction, &[]);
                assert!(transaction.matched_rules().count() == 2, "{}", describe(&transaction));
            }
        }
        assert!(Judges::of_ours().agree_on_each_rule(REQUEST) > 60 / SAMPLES);
    }

    #[test]
    fn every_variable_can_be_seen() {
        let program = Arc::new(build(format!("SecRuleEngine On\n{}", observing()), limits()));
        let mut transaction = fresh(&program);
        let seen = Message::parse(REQUEST).outcome(&mut transaction, &[]);
        for value in
            ["ARGS:b=c", "ARGS:f=union select", "REQUEST_COOKIES:d=e", "RESPONSE_BODY=<p>g</p>"]
        {
            assert!(seen.contains(value), "{value} is not in {seen}");
        }
    }
}
