//! Rules made from bytes, so that a changed byte is another rule and seldom a mistake:
//!
//! ```text
//! === rules
//! aa00a2 select.*from
//! bcA0B2 union
//! === request
//! GET /?a=select+1+from+b HTTP/1.1
//! ```
//!
//! Each rule is a line: a character each for targets, operator, two transformations, actions and phase, a
//! space, and the operator's parameter. A character chooses by its value; an upper-case one for the
//! actions chains the rule to the next, and one for the phase has it asked again in the next phase, with
//! all that is chained to it: what was there of a value the first time must not be taken for what is there
//! the second time.
//!
//! A line that begins with `+` adds whole chains, a character each: those that a rule made of six choices cannot be,
//! such as a chain that leaves nothing behind, and those that would see what it has left.

use std::sync::Arc;

use glacis_engine::{Input, Limits, NoFiles, Parts, Program, transform};
use seclang::{Directive, DirectiveKind, Selector, SourceId, parse};

use crate::{
    message::split,
    transactions::{BODIES, limits},
};

const RULES: &[u8] = b"=== rules\n";
const REQUEST: &[u8] = b"\n=== request\n";

/// Rules taken from one input.
const RULES_MAX: usize = 8;

/// The first id, behind those of `bodies.conf`.
const ID_FIRST: usize = 101;

/// What is added to the id of a rule that is asked again.
const ID_AGAIN: usize = 100;

const TARGETS: &[&str] = &[
    "ARGS",
    "ARGS|REQUEST_HEADERS",
    "REQUEST_HEADERS:User-Agent",
    "ARGS:a|ARGS:/^b/|!ARGS:bc",
    "REQUEST_COOKIES|!REQUEST_COOKIES:/^_/|REQUEST_COOKIES_NAMES|ARGS_NAMES|ARGS|XML:/*",
    "REQUEST_URI|REQUEST_URI_RAW",
    "REQUEST_BODY|FULL_REQUEST",
    "&ARGS",
    "TX:/./",
    "TX:a|ARGS",
    "MATCHED_VARS|MATCHED_VAR_NAME",
    "REQUEST_FILENAME|REQUEST_BASENAME|QUERY_STRING",
    "REQUEST_LINE|REQUEST_PROTOCOL|REQUEST_METHOD",
    "RESPONSE_BODY",
    "RESPONSE_HEADERS|RESPONSE_STATUS",
    "FILES|FILES_NAMES|MULTIPART_PART_HEADERS|FILES_TMP_CONTENT",
    "IP:a|GLOBAL:a|SESSION",
    "ARGS_COMBINED_SIZE|REQUEST_BODY_LENGTH",
    "ARGS_GET|ARGS_POST:a",
    "REQUEST_HEADERS|!REQUEST_HEADERS:Cookie|!REQUEST_HEADERS:/^X-/",
    "&TX:a|&REQUEST_HEADERS:Host",
    "REQUEST_HEADERS_NAMES|ARGS_GET_NAMES|ARGS_POST_NAMES",
    "REQBODY_ERROR|REQBODY_ERROR_MSG|MULTIPART_STRICT_ERROR|URLENCODED_ERROR",
    "XML://@*|XML:/*|XML:/a/b",
];

const OPERATORS: &[&str] = &[
    "@rx",
    "@rx",
    "@rx",
    "!@rx",
    "@pm",
    "!@pm",
    "@contains",
    "!@contains",
    "@streq",
    "@beginsWith",
    "@endsWith",
    "@within",
    "!@within",
    "@containsWord",
    "@eq",
    "!@ge",
    "@lt",
    "@rxGlobal",
    "@detectSQLi",
    "@detectXSS",
    "@validateByteRange",
    "@strmatch",
    "@verifyCC",
    "@unconditionalMatch",
];

/// What a rule of a chain may do, and its starter besides.
const ACTIONS: &[&str] = &[
    "capture",
    "multiMatch",
    "capture,multiMatch,setvar:tx.%{TX.0}=%{MATCHED_VAR}",
    "setvar:tx.a=%{MATCHED_VAR}",
    "setvar:tx.s=+1",
    "setvar:!tx.a",
    "setvar:global.a=%{MATCHED_VAR_NAME},setvar:ip.a=+2",
    "ctl:ruleRemoveTargetById=102;ARGS:a",
    "ctl:ruleRemoveById=103-104",
    "ctl:ruleRemoveTargetByTag=t;REQUEST_HEADERS",
    "sanitiseMatched",
];

/// What only a starter may do.
const STARTER_ACTIONS: &[&str] = &[
    "pass,log",
    "pass,log,logdata:'%{TX.0} %{MATCHED_VAR}',tag:t",
    "pass,nolog",
    "pass,log,skip:1",
    "pass,log,skipAfter:END",
    "deny,log",
    "allow:phase,log",
];

/// Whole chains. Some of the first leave nothing behind, the others look for it.
const WHOLE: &[&str] = &[
    "SecAction \"id:301,phase:1,pass,nolog,setvar:'tx.restricted=/proxy/ /b/'\"\n\
     SecRule REQUEST_HEADERS_NAMES \"@rx ^.*$\" \"id:302,phase:1,pass,log,capture,t:lowercase,\
     logdata:'%{MATCHED_VAR}',setvar:'tx.name_%{tx.0}=/%{tx.0}/',chain\"\n\
     SecRule TX:/^name_/ \"@within %{tx.restricted}\" \"setvar:tx.b=+1\"\n",
    "SecRule ARGS_NAMES \"@rx ^(.)(.?)\" \"id:303,phase:2,pass,log,capture,setvar:'tx.arg_%{tx.1}=%{tx.0}',\
     chain\"\nSecRule TX:/^arg_/ \"!@beginsWith a\" \"t:none\"\n",
    "SecAction \"id:304,phase:1,pass,log,capture,setvar:tx.last=%{tx.0}\"\n",
    "SecRule REQUEST_METHOD \"@rx ^[A-H]\" \"id:305,phase:2,redirect:'/?h=%{tx.0}',log\"\n",
    "SecAction \"id:306,phase:2,redirect:'/%{tx.1}',nolog\"\n",
    "SecRule RULE:logdata \"@rx [a-m]\" \"id:307,phase:2,pass,log,capture,logdata:'%{tx.0}'\"\n",
    "SecRule ARGS_NAMES \"@rx (.)\" \"id:308,phase:2,pass,log,capture,setvar:'tx.%{tx.1}_x=%{tx.2}'\"\n",
    "SecRule TX:/^name_[a-h]/|TX:/^arg_/ \"@rx .\" \"id:309,phase:3,pass,log\"\n",
    "SecRule &TX:/_/ \"@ge 3\" \"id:310,phase:2,pass,log,setvar:'tx.%{MATCHED_VAR}=+1'\"\n",
    "SecRule REQUEST_METHOD \"@rx ^[A-F]\" \"id:311,phase:1,deny,nolog\"\n\
     SecAction \"id:312,phase:1,pass,nolog,setvar:tx.level=2\"\n\
     SecRule TX:level \"@ge 2\" \"id:313,phase:5,pass,log\"\n",
    "SecRule REQUEST_METHOD \"@rx ^[H-Z]\" \"id:314,phase:1,pass,nolog,skip:2\"\n\
     SecAction \"id:315,phase:1,pass,nolog,setvar:tx.skipped=2\"\n\
     SecRule TX:level \"@lt 2\" \"id:316,phase:1,pass,nolog,skipAfter:END\"\n\
     SecAction \"id:317,phase:1,allow:phase,log,setvar:tx.level=1\"\n",
    "SecRule ARGS \"@contains %{rule.logdata}\" \"id:318,phase:2,pass,log,logdata:'%{tx.0}',\
     initcol:ip=%{tx.1}\"\n",
    "SecRule REQUEST_HEADERS \"@rx .\" \"id:319,phase:1,pass,nolog,ctl:ruleRemoveById=301-303,\
     ctl:ruleRemoveTargetById=313;TX:level\"\n",
    "SecPatternLimitAction ProcessPartial\nSecRule ARGS_NAMES|REQUEST_HEADERS \"@rx (?<!b)(.)\\1\" \
     \"id:320,phase:1,pass,log,capture,t:lowercase,setvar:'tx.%{tx.1}_y=1'\"\n",
    "SecRule ARGS:/(?!a)./|REQUEST_HEADERS:/^(?!x)(.)\\1?/|!REQUEST_HEADERS:/(?<=e)r/ \
     \"@rx (?=[a-m])\\w++\" \"id:321,phase:2,pass,log,capture\"\n",
    "SecAction \"id:322,phase:1,pass,nolog,ctl:ruleRemoveTargetById=320-321;ARGS_NAMES:/(?!a).(.)\\1/\"\n\
     SecRule REQUEST_HEADERS_NAMES|ARGS_NAMES \"!@rx ^(?!accept)(a|aa|[^a]+)+\\1?$\" \
     \"id:323,phase:2,pass,log,t:lowercase\"\n",
];

/// The whole chains that the lines of rules ask for, each once.
fn whole(rules: &[u8]) -> Vec<&'static str> {
    let lines = rules.split(|&byte| byte == b'\n').filter_map(|line| line.strip_prefix(b"+"));
    let mut found: Vec<&str> = Vec::new();
    for choice in lines.flatten() {
        let chain = pick(WHOLE, *choice);
        if !found.contains(&chain) {
            found.push(chain);
        }
    }
    found
}

/// The rules and the request of an input that has rules.
pub(crate) fn parts(input: &[u8]) -> Option<(&[u8], &[u8])> {
    input.strip_prefix(RULES).map(|rest| split(rest, REQUEST))
}

/// The program of these rules, with its fast path and without; those that do not compile are left out.
pub(crate) fn programs(rules: &[u8]) -> [Arc<Program>; 2] {
    let chains = compiling(rules);
    let program = || build(&chains, &mut Parts::default()).expect("each of them compiles");
    [program(), program().without_gates()].map(Arc::new)
}

/// The program of these rules between others.
pub(crate) fn between(others: [&str; 2], rules: &[u8]) -> Program {
    let [first, last] = others;
    of_text(&[first, &compiling(rules).concat(), last].concat())
}

/// The program of a text, without persistent collections of its own.
pub(crate) fn of_text(text: &str) -> Program {
    let bodies = BODIES.lines().filter(|line| !line.contains("initcol"));
    let bodies: String = bodies.flat_map(|line| [line, "\n"]).collect();
    let text = ["SecRuleEngine On\n", &bodies, text, "SecMarker END\n"].concat();
    let input = Input::Text { name: "generated.conf".to_owned(), text };
    Program::build(&[input], &NoFiles, limits()).expect("the text compiles")
}

/// The program of these rules under a limit of steps, with texts recalled and without.
pub(crate) fn within_steps(rules: &[u8], steps_max: usize) -> [Arc<Program>; 2] {
    let mut chains = compiling(rules);
    chains.insert(0, format!("SecRuleStepsLimit {steps_max}\n"));
    let program = || build(&chains, &mut Parts::default()).expect("each of them compiles");
    [program(), program().without_recall()].map(Arc::new)
}

/// The program of these rules, and that of the second half of them: each alone, and built with what the
/// other one is made of.
pub(crate) fn sharing(rules: &[u8]) -> [[Arc<Program>; 2]; 2] {
    let chains = compiling(rules);
    let half = &chains[chains.len() / 2..];
    let program = |chains: &[String], parts: &mut Parts| {
        Arc::new(build(chains, parts).expect("each of them compiles"))
    };
    let mut parts = Parts::default();
    let half_alone = program(half, &mut parts);
    let sharing = program(&chains, &mut parts);
    let half_sharing = program(half, &mut parts);
    let alone = program(&chains, &mut Parts::default());
    [[alone, sharing], [half_alone, half_sharing]]
}

/// The chains of these rules that compile.
fn compiling(rules: &[u8]) -> Vec<String> {
    let compiles = |chains: &[String]| build(chains, &mut Parts::default()).is_some();
    let mut chains = chains(rules);
    if !compiles(&chains) {
        chains.retain(|chain| compiles(std::slice::from_ref(chain)));
    }
    chains
}

fn build(chains: &[String], parts: &mut Parts) -> Option<Program> {
    let text = ["SecRuleEngine On\n", BODIES, &chains.concat(), "SecMarker END\n"].concat();
    let input = Input::Text { name: "generated.conf".to_owned(), text };
    let has_whole = chains.iter().any(|chain| WHOLE.contains(&chain.as_str()));
    // Of a chain that leaves nothing behind the members are not there: their limit is for the others.
    let tx_members_max = if has_whole { 1_000 } else { limits().tx_members_max };
    Program::build_with(&[input], &NoFiles, Limits { tx_members_max, ..limits() }, parts).ok()
}

/// The parameters of the rules.
pub(crate) fn parameters(rules: &[u8]) -> Vec<String> {
    lines(rules).map(|(_, parameter)| parameter).collect()
}

/// The choices of each rule, and its parameter.
fn lines(rules: &[u8]) -> impl Iterator<Item = (&[u8; 6], String)> {
    let lines = rules.split(|&byte| byte == b'\n').filter(|line| !line.starts_with(b"+"));
    lines.take(RULES_MAX).filter_map(|line| {
        let (choices, parameter) = line.split_first_chunk()?;
        let parameter = parameter.strip_prefix(b" ").unwrap_or(parameter);
        Some((choices, String::from_utf8_lossy(parameter).into_owned()))
    })
}

/// The text of each rule with the rules that are chained to it.
fn chains(rules: &[u8]) -> Vec<String> {
    let mut chains: Vec<String> = whole(rules).into_iter().map(str::to_owned).collect();
    // The last chains, to which the next rule belongs.
    let mut open = 0;
    for (index, (choices, parameter)) in lines(rules).enumerate() {
        let is_chained = choices[4].is_ascii_uppercase();
        let rule = |start| with_parameter(&template(choices, start, is_chained), &parameter);
        if open > 0 {
            let Some(link) = rule(None) else { continue };
            chains.iter_mut().rev().take(open).for_each(|chain| chain.push_str(&link));
        } else {
            let begun: Vec<String> =
                starts(index, choices[5]).filter_map(|start| rule(Some(start))).collect();
            open = begun.len();
            chains.extend(begun);
        }
        if !is_chained {
            open = 0;
        }
    }
    chains
}

/// What only the first rule of a chain has.
#[derive(Clone, Copy, Debug)]
struct Start {
    id: usize,
    phase: u8,
}

fn starts(index: usize, choice: u8) -> impl Iterator<Item = Start> {
    let id = ID_FIRST + index;
    let first = Start { id, phase: 1 + choice % 5 };
    let again = Start { id: id + ID_AGAIN, phase: 1 + first.phase % 5 };
    [Some(first), choice.is_ascii_uppercase().then_some(again)].into_iter().flatten()
}

fn template(choices: &[u8; 6], start: Option<Start>, is_chained: bool) -> String {
    let &[target, operator, first, second, action, _] = choices;
    let mut actions = pick(ACTIONS, action).to_owned();
    if let Some(Start { id, phase }) = start {
        let starter = pick(STARTER_ACTIONS, action);
        actions += &format!(",id:{id},phase:{phase},{starter}");
    }
    if is_chained {
        actions += ",chain";
    }
    for transformation in [first, second] {
        // A digit is none.
        if !transformation.is_ascii_digit() {
            let (name, _) = transform::TABLE[usize::from(transformation) % transform::TABLE.len()];
            actions += &format!(",t:{name}");
        }
    }
    let (target, operator) = (pick(TARGETS, target), pick(OPERATORS, operator));
    format!("SecRule {target} \"{operator} x\" \"{actions}\"")
}

fn pick<'t>(list: &[&'t str], choice: u8) -> &'t str {
    list[usize::from(choice) % list.len()]
}

/// The parameters of all rules in a text of SecLang.
pub(crate) fn parameters_in(text: &str) -> Vec<String> {
    let mut directives = parse(SourceId(0), text).directives;
    directives.iter_mut().filter_map(argument).map(core::mem::take).collect()
}

/// A line with a rule, as SecLang writes it with another parameter of its operator; `None` if it cannot.
pub(crate) fn with_parameter(rule: &str, parameter: &str) -> Option<String> {
    let mut directive = parse(SourceId(0), rule).directives.pop()?;
    argument(&mut directive)?.replace_range(.., parameter);
    let line = directive.to_string();
    let again = parse(SourceId(0), &line).directives.first_mut().and_then(argument).cloned();
    (again.as_deref() == Some(parameter)).then(|| format!("{line}\n"))
}

/// A line with a rule, as SecLang writes it with another pattern as the selector of its first target; `None` if it
/// cannot.
pub(crate) fn with_selector(rule: &str, pattern: &str) -> Option<String> {
    let mut directive = parse(SourceId(0), rule).directives.pop()?;
    selector(&mut directive)?.replace_range(.., pattern);
    let line = directive.to_string();
    let again = parse(SourceId(0), &line).directives.first_mut().and_then(selector).cloned();
    (again.as_deref() == Some(pattern)).then(|| format!("{line}\n"))
}

fn selector(directive: &mut Directive) -> Option<&mut String> {
    let DirectiveKind::Rule(rule) = &mut directive.kind else { return None };
    match rule.targets.first_mut()?.selector.as_mut()? {
        Selector::Pattern(pattern) => Some(&mut pattern.text),
        Selector::Key(_) => None,
    }
}

fn argument(directive: &mut Directive) -> Option<&mut String> {
    match &mut directive.kind {
        DirectiveKind::Rule(rule) => Some(&mut rule.operator.argument.text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each choice makes a rule that compiles with a parameter made for it.
    #[test]
    fn every_choice_is_a_rule() {
        for choice in 0..=u8::MAX {
            let parameter = match pick(OPERATORS, choice) {
                "@validateByteRange" => "32-126",
                _ => "1",
            };
            for choices in [[choice; 6], [choice, choice, b'0', b'0', b'a', choice]] {
                for start in starts(0, choice) {
                    let template = template(&choices, Some(start), false);
                    let rule = with_parameter(&template, parameter).expect("it is SecLang");
                    let program = build(std::slice::from_ref(&rule), &mut Parts::default());
                    assert!(program.is_some(), "{rule}");
                }
            }
        }
    }

    /// Each whole chain compiles, alone and beside the others.
    #[test]
    fn every_whole_chain_is_one() {
        let all: Vec<u8> = b"+".iter().copied().chain((b'a'..).take(WHOLE.len())).collect();
        let chains = chains(&all);
        assert_eq!(chains.len(), WHOLE.len());
        assert!(build(&chains, &mut Parts::default()).is_some());
    }

    #[test]
    fn rules_are_chained_and_bad_ones_left_out() {
        let (rules, request) =
            parts(b"=== rules\naa00a2 (\naa00B2 b\nac00a2 \"c\\\nx\n=== request\nGET").unwrap();
        assert_eq!(request, b"GET");
        let chains = chains(rules);
        assert_eq!(chains.len(), 2, "{chains:?}");
        assert_eq!(chains[1].matches("SecRule").count(), 2, "{chains:?}");
        assert!(build(&chains, &mut Parts::default()).is_none());
        let _ = programs(rules);
    }

    #[test]
    fn a_rule_is_asked_again_with_what_is_chained_to_it() {
        let rules = b"ma00BD a\nna00b0 b\nna00b0 c";
        let chains = chains(rules);
        let begins = ["id:101,phase:4,", "id:201,phase:5,", "id:103,phase:4,"];
        assert_eq!(chains.len(), begins.len(), "{chains:?}");
        for (chain, begin) in chains.iter().zip(begins) {
            assert!(chain.contains(begin), "{begin} is not in {chain}");
        }
        let rules: Vec<usize> =
            chains.iter().map(|chain| chain.matches("SecRule ").count()).collect();
        assert_eq!(rules, [2, 2, 1]);
    }

    #[test]
    fn programs_share_what_they_have_in_common() {
        let [whole, half] = sharing(b"xe00b3 a b c\nxe00b3 a b\nxa00b3 d\nxa00b3 e");
        let counts = [whole, half].map(|programs| programs.map(|program| program.rule_count()));
        let [[alone, sharing], [half_alone, half_sharing]] = counts;
        assert_eq!((alone, half_alone), (sharing, half_sharing));
        assert_eq!(alone, half_alone + 2);
    }
}
