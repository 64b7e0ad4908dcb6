//! The narrowest exclusion that lets a request pass, found by trying.
//!
//! A rule that refuses for a score is left alone: the rules that raised the score lose the targets that
//! matched, those that gave most first, as few as bring the score below the threshold. A rule that
//! refuses by itself loses its own. Then the rules are built again with that, and the request evaluated
//! again; what refuses it now is treated in the same way, within `ROUNDS_MAX`. A rule that still
//! matches without the targets, or has none that could be taken away, is removed as a whole. In the end
//! whatever turns out not to be needed is put back.

use core::time::Duration;
use std::{collections::BTreeSet, fmt::Write as _, sync::Arc};

use glacis_engine::{Input, Limits, NoFiles, Program, TraceEvent, Transaction};
use serde::Serialize;

use crate::{
    Rebuild,
    inspect::{Occasion, inspect},
    request::Request,
    story::{Refused, Story, is_score, refusal},
};

/// Rulesets that are built to find an exclusion.
const ROUNDS_MAX: usize = 12;

/// Rulesets that are built to see what can be put back.
const TRIES_MAX: usize = 32;

/// Rules that an exclusion may name: one that needs more is no exclusion but another policy.
const RULES_MAX: usize = 32;

/// Ids for the rule that excludes on one path; the first that is free is taken.
const IDS: [u32; 4] = [10_000, 10_001, 99_990, 99_991];

/// What was found.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Exclusion {
    pub(crate) remarks: Vec<String>,
    /// For all requests.
    pub(crate) everywhere: Option<Way>,
    /// For requests of this path.
    pub(crate) on_this_path: Option<Way>,
    /// What both take away.
    #[serde(skip)]
    pub(crate) removals: Vec<Removal>,
    /// The path, as rules see it; empty where it is not text.
    #[serde(skip)]
    pub(crate) path: String,
}

/// One way to write it, and whether it was seen to work.
#[derive(Debug, Serialize)]
pub(crate) struct Way {
    pub(crate) place: &'static str,
    pub(crate) directives: String,
    pub(crate) passes: bool,
    pub(crate) fault: Option<String>,
}

/// What an exclusion takes away from one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// The id of the rule.
    pub rule: u32,
    /// Targets as in SecLang, such as `ARGS:comment`; none for the rule as a whole.
    pub targets: Vec<String>,
}

/// A rule that could be excluded.
#[derive(Debug, Default)]
struct Culprit {
    rule: u32,
    /// How much it raised the scores in question.
    amount: i64,
    /// What it matched on, as targets to take away; `None` when one of them cannot be.
    targets: Option<Vec<String>>,
}

/// The search for an exclusion.
pub(crate) struct Search<'s, R> {
    pub(crate) rules: &'s mut R,
    pub(crate) request: &'s Request,
    pub(crate) occasion: &'s Occasion,
}

impl<R: Rebuild> Search<'_, R> {
    /// Looks for an exclusion; `transaction` has just refused the request.
    pub(crate) fn find(
        &mut self,
        transaction: &Transaction,
        refused: &Refused,
    ) -> Result<Exclusion, R::Fault> {
        let mut removals: Vec<Removal> = Vec::new();
        let mut seen = culprits(transaction, self.request, refused);
        for round in 0..ROUNDS_MAX {
            let grown = match &seen {
                Ok(culprits) => exclude(&mut removals, culprits),
                Err(why) => return Ok(nothing(why)),
            };
            if !grown || removals.len() > RULES_MAX {
                return Ok(nothing("no exclusion of a few targets or rules was found"));
            }
            let again = match self.evaluate(None, Some(&everywhere(&removals)))? {
                Ok(transaction) => transaction,
                Err(fault) => return Ok(nothing(&fault)),
            };
            match refusal(&again) {
                Some(refused) => seen = culprits(&again, self.request, &refused),
                None => {
                    // What adds up exactly needs no trying.
                    if round > 0 || removals.iter().any(|removal| removal.targets.len() > 1) {
                        self.put_back(&mut removals)?;
                    }
                    return self.written(&removals);
                }
            }
        }
        Ok(nothing("too many rules in a row refuse the request"))
    }

    /// Gives rules back what need not be taken away from them: whole rules first, then single targets.
    fn put_back(&mut self, removals: &mut Vec<Removal>) -> Result<(), R::Fault> {
        let mut tries = TRIES_MAX;
        let mut passes = |without: &[Removal]| -> Result<bool, R::Fault> {
            if without.is_empty() || tries == 0 {
                return Ok(false);
            }
            tries -= 1;
            let tried = self.evaluate(None, Some(&everywhere(without)))?;
            Ok(tried.is_ok_and(|transaction| refusal(&transaction).is_none()))
        };
        for removal in removals.clone() {
            let others = |other: &&Removal| other.rule != removal.rule;
            let without: Vec<Removal> = removals.iter().filter(others).cloned().collect();
            if passes(&without)? {
                *removals = without;
            }
        }
        for at in 0..removals.len() {
            let targets = removals.get(at).map_or_else(Vec::new, |removal| removal.targets.clone());
            for target in targets {
                let mut without = removals.clone();
                let Some(removal) = without.get_mut(at) else { break };
                removal.targets.retain(|other| *other != target);
                if !removal.targets.is_empty() && passes(&without)? {
                    *removals = without;
                }
            }
        }
        Ok(())
    }

    /// Both ways to write what was found, each tried.
    fn written(&mut self, removals: &[Removal]) -> Result<Exclusion, R::Fault> {
        let mut exclusion = Exclusion::default();
        for Removal { rule, targets } in removals {
            if targets.is_empty() {
                exclusion.remarks.push(format!(
                    "Rule {rule} has to go as a whole: it has no target that could be taken away."
                ));
            } else if targets.iter().any(|target| !target.contains(':')) {
                exclusion.remarks.push(format!(
                    "Rule {rule} loses a whole variable: nothing narrower matched. Prefer one path."
                ));
            }
        }
        exclusion.removals = removals.to_vec();
        let path = path_of(self.request);
        exclusion.everywhere = Some(Way {
            place: "For all requests, behind the rules.",
            directives: everywhere(removals),
            // It is what the search has just tried.
            passes: true,
            fault: None,
        });
        for id in IDS {
            let directives = on_this_path(id, &path, removals);
            let tried = self.evaluate(Some(&directives), None)?;
            let taken = matches!(&tried, Err(fault) if fault.contains(&id.to_string()));
            if taken && IDS.last() != Some(&id) {
                continue;
            }
            let passes = tried.as_ref().is_ok_and(|transaction| refusal(transaction).is_none());
            let place = "For this path, before the rules.";
            exclusion.on_this_path = Some(Way { place, directives, passes, fault: tried.err() });
            break;
        }
        exclusion.path = String::from_utf8(path).unwrap_or_default();
        Ok(exclusion)
    }

    /// Evaluates the request with more rules; the text of the error when they do not compile.
    fn evaluate(
        &mut self,
        before: Option<&str>,
        behind: Option<&str>,
    ) -> Result<Result<Transaction, String>, R::Fault> {
        let program = match self.rules.build(before, behind)? {
            Ok(program) => Arc::new(program),
            Err(errors) => return Ok(Err(errors.to_string())),
        };
        let mut transaction = Transaction::new(program).with_trace();
        inspect(&mut transaction, self.request, &self.request.id.text(), self.occasion);
        Ok(Ok(transaction))
    }
}

fn nothing(why: &str) -> Exclusion {
    Exclusion { remarks: vec![format!("Nothing was found: {why}.")], ..Exclusion::default() }
}

/// Adds what the culprits lose; says whether that is more than before.
fn exclude(removals: &mut Vec<Removal>, culprits: &[Culprit]) -> bool {
    let before = removals.clone();
    for culprit in culprits {
        let known = removals.iter_mut().find(|removal| removal.rule == culprit.rule);
        match (known, &culprit.targets) {
            (None, targets) => removals
                .push(Removal { rule: culprit.rule, targets: targets.clone().unwrap_or_default() }),
            // Removed as a whole already.
            (Some(known), _) if known.targets.is_empty() => {}
            (Some(known), Some(targets)) => {
                let new = targets.iter().filter(|target| !known.targets.contains(target));
                let new: Vec<String> = new.cloned().collect();
                // It matches on what it has lost: the target cannot be taken away in this way.
                if new.is_empty() {
                    known.targets.clear();
                } else {
                    known.targets.extend(new);
                }
            }
            (Some(known), None) => known.targets.clear(),
        }
    }
    *removals != before
}

/// The rules to exclude, as few as will do; a sentence when there are none.
fn culprits(
    transaction: &Transaction,
    request: &Request,
    refused: &Refused,
) -> Result<Vec<Culprit>, String> {
    let Some(rule) = refused.rule else {
        return Err("the request is beyond a limit of the engine, not against a rule".to_owned());
    };
    let story = Story::of(transaction, request, true);
    let refusing = story.rules.iter().find(|story| story.id == rule && story.complete);
    let compared = refusing.into_iter().flat_map(|story| &story.matches);
    let mut compared = compared.filter_map(|found| {
        let member = found.variable.strip_prefix("TX:")?.to_ascii_lowercase();
        let score = found.value.text.trim().parse::<i64>().ok()?;
        let limit = found.parameter.as_ref()?.text.trim().parse::<i64>().ok()?;
        is_score(&member).then_some((member, score, limit))
    });
    let Some((member, score, limit)) = compared.next_back() else {
        let targets = targets(transaction, rule);
        return Ok(vec![Culprit { rule, amount: 0, targets }]);
    };
    // What has to go for the score to stay below the limit.
    let mut excess = score.saturating_sub(limit).saturating_add(1);
    let mut found = scoring(transaction, &story, rule, &member);
    found.sort_by_key(|culprit| {
        let targets = culprit.targets.as_ref();
        let wide = targets.map_or(usize::MAX, |targets| {
            targets.len() + targets.iter().filter(|target| !target.contains(':')).count()
        });
        (core::cmp::Reverse(culprit.amount.min(excess)), wide, culprit.rule)
    });
    let mut chosen = Vec::new();
    for culprit in found {
        if excess > 0 {
            excess = excess.saturating_sub(culprit.amount);
            chosen.push(culprit);
        }
    }
    if excess > 0 {
        return Err(format!(
            "the score tx.{member} is not one that rules with targets have raised far enough"
        ));
    }
    Ok(chosen)
}

/// The rules that raised a score, or one that was added to it, because of something in the request.
fn scoring(transaction: &Transaction, story: &Story, refusing: u32, member: &str) -> Vec<Culprit> {
    let mut found: Vec<Culprit> = Vec::new();
    // CRS adds up the scores of its paranoia levels: those are raised by the rules that matter.
    let side = if member.contains("outbound") { "outbound" } else { "inbound" };
    let direct = story.scores.iter().any(|change| {
        change.member.contains("_pl") && change.member.contains(side) && change.to > change.from
    });
    for rule in story.rules.iter().filter(|rule| rule.id != refusing) {
        let counts = |name: &str| {
            if direct { name.contains("_pl") && name.contains(side) } else { name == member }
        };
        let changes = rule.changes.iter().filter(|change| counts(&change.member));
        let amount: i64 = changes.map(|change| change.to.saturating_sub(change.from)).sum();
        if amount <= 0 {
            continue;
        }
        // A rule that looks at nothing of the request passes on what others have found.
        let own = BTreeSet::from([rule.id]);
        let finders = if rule.looks_at_members_only() { &rule.counts_for } else { &own };
        for &finder in finders.iter().filter(|&&finder| finder != refusing) {
            match found.iter_mut().find(|culprit| culprit.rule == finder) {
                Some(known) => known.amount = known.amount.saturating_add(amount),
                None => {
                    let targets = targets(transaction, finder);
                    found.push(Culprit { rule: finder, amount, targets });
                }
            }
        }
    }
    found
}

/// What the starter of a rule matched on, as targets; `None` when one of them cannot be taken away.
fn targets(transaction: &Transaction, rule: u32) -> Option<Vec<String>> {
    let mut targets = Vec::new();
    for step in transaction.trace() {
        let TraceEvent::Match(found) = step.event else { continue };
        if step.rule.id.0 != rule || step.rule.link > 0 {
            continue;
        }
        let target = target(&found.variable)?;
        if !targets.contains(&target) {
            targets.push(target);
        }
    }
    Some(targets).filter(|targets| !targets.is_empty())
}

/// A variable as a target of SecLang. Numbers of values and members of `TX` are none.
fn target(variable: &[u8]) -> Option<String> {
    let mut parts = variable.splitn(2, |&byte| byte == b':');
    let collection = core::str::from_utf8(parts.next()?).ok()?;
    if collection.starts_with(['&', '!']) || ["TX", "MATCHED_VARS"].contains(&collection) {
        return None;
    }
    let Some(name) = parts.next() else { return Some(collection.to_owned()) };
    // XML has paths for names, which are written as they are.
    if collection == "XML" {
        return Some(format!("XML:{}", core::str::from_utf8(name).ok()?));
    }
    if !name.is_empty() && name.iter().all(|&byte| is_plain(byte)) {
        return Some(format!("{collection}:{}", core::str::from_utf8(name).ok()?));
    }
    Some(format!("{collection}:/^{}$/", pattern(name)))
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'[' | b']' | b'~')
}

/// A pattern for exactly this text, of characters that mean nothing else in SecLang.
fn pattern(text: &[u8]) -> String {
    let mut pattern = String::new();
    for &byte in text {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-') {
            pattern.push(char::from(byte));
        } else {
            // Writing to a `String` cannot fail.
            let _ = write!(pattern, "\\x{byte:02x}");
        }
    }
    pattern
}

fn everywhere(removals: &[Removal]) -> String {
    let mut text = String::new();
    for Removal { rule, targets } in removals {
        if targets.is_empty() {
            let _ = writeln!(text, "SecRuleRemoveById {rule}");
        } else {
            let targets: Vec<String> = targets.iter().map(|target| format!("!{target}")).collect();
            let _ = writeln!(text, "SecRuleUpdateTargetById {rule} \"{}\"", targets.join("|"));
        }
    }
    text
}

/// The path of the request as rules see it. A rule is asked for it, so that an absolute URI, a fragment or
/// what is no escape means the same here.
fn path_of(request: &Request) -> Vec<u8> {
    const RULES: &str = "SecRuleEngine On\n\
        SecRule REQUEST_FILENAME \"@unconditionalMatch\" \"id:1,phase:1,pass,log\"";
    let rules = [Input::Text { name: "path".to_owned(), text: RULES.to_owned() }];
    // However long it is, all of it is wanted.
    let limits = Limits { match_value_bytes_max: request.uri.0.len(), ..Limits::default() };
    let Ok(program) = Program::build(&rules, &NoFiles, limits) else { return Vec::new() };
    let mut transaction = Transaction::new(Arc::new(program));
    inspect(&mut transaction, request, "", &Occasion::at(Duration::ZERO));
    let found = transaction.matched_rules().next().and_then(|rule| rule.matches.first());
    found.map(|found| found.value.clone()).unwrap_or_default()
}

/// The rule that excludes on the path of the request.
fn on_this_path(id: u32, path: &[u8], removals: &[Removal]) -> String {
    let plain = |&byte: &u8| is_plain(byte) || byte == b'/';
    let operator = match core::str::from_utf8(path) {
        Ok(path) if path.bytes().all(|byte| plain(&byte)) => format!("@streq {path}"),
        _ => format!("@rx ^{}$", pattern(path)),
    };
    let mut text =
        format!("SecRule REQUEST_FILENAME \"{operator}\" \"id:{id},phase:1,pass,nolog,t:none");
    for Removal { rule, targets } in removals {
        if targets.is_empty() {
            let _ = write!(text, ",\\\n  ctl:ruleRemoveById={rule}");
        }
        for target in targets {
            let _ = write!(text, ",\\\n  ctl:ruleRemoveTargetById={rule};{target}");
        }
    }
    text.push_str("\"\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_those_of_rules() {
        let long = format!("/{}", "a".repeat(2_000));
        for (uri, expected) in [
            ("/a/b?c=d", "/a/b"),
            ("/a#b?c", "/a"),
            ("/a+b%20c%zz?d", "/a+b c%zz"),
            ("/a?b=http://c/d", "/a"),
            ("http://example.org/a?b", "/a"),
            ("http://example.org", ""),
            (&*long, &*long),
        ] {
            let line = serde_json::json!({
                "id": 1, "method": "GET", "uri": uri, "protocol": "HTTP/1.1",
            });
            let request = Request::parse(line.to_string().as_bytes()).unwrap();
            assert_eq!(String::from_utf8(path_of(&request)).unwrap(), expected, "{uri}");
        }
    }

    struct Own(&'static str);

    impl Rebuild for Own {
        type Fault = core::convert::Infallible;

        fn build(
            &mut self,
            before: Option<&str>,
            behind: Option<&str>,
        ) -> Result<Result<Program, glacis_engine::BuildErrors>, Self::Fault> {
            let text = [before.unwrap_or(""), self.0, behind.unwrap_or("")].join("\n");
            let input = Input::Text { name: "test".to_owned(), text };
            Ok(Program::build(&[input], &NoFiles, Limits::default()))
        }
    }

    /// A rule that finds a signal sets a member; others add up what such members say.
    #[test]
    fn what_is_counted_for_another_rule_is_excluded_there() {
        const RULES: &str = r#"
            SecRuleEngine On
            SecRule ARGS "@contains a" "id:1,phase:1,pass,log,setvar:tx.signal_1=1"
            SecRule ARGS "@contains b" "id:2,phase:1,pass,log,setvar:tx.signal_2=1"
            SecRule TX:signal_2 "@gt 0" "id:3,phase:1,pass,nolog,setvar:tx.notice_2=1"
            SecRule TX:signal_1 "@gt 0" "id:4,phase:1,pass,nolog,setvar:tx.blocking_inbound_anomaly_score=+3"
            SecRule TX:notice_2 "@gt 0" "id:5,phase:1,pass,nolog,setvar:tx.blocking_inbound_anomaly_score=+5"
            SecRule TX:blocking_inbound_anomaly_score "@ge 5" "id:6,phase:1,deny,log"
        "#;
        let line = r#"{"id": 1, "method": "GET", "uri": "/?q=ab", "protocol": "HTTP/1.1"}"#;
        let request = Request::parse(line.as_bytes()).unwrap();
        let mut rules = Own(RULES);
        let program = rules.build(None, None).unwrap().unwrap();
        let mut transaction = Transaction::new(Arc::new(program)).with_trace();
        let occasion = Occasion::at(Duration::ZERO);
        let told = crate::explain(
            Some(&mut rules),
            &mut transaction,
            request,
            None,
            &occasion,
            crate::Show::default(),
        );
        let told = told.unwrap();
        let targets = vec!["ARGS:q".to_owned()];
        assert_eq!(told.removals(), [Removal { rule: 2, targets }], "{}", told.text());
        let everywhere = told.exclusion.unwrap().everywhere.unwrap();
        assert!(everywhere.passes, "{everywhere:?}");
    }
}
