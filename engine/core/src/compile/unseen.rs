//! Pass 5, continued: chains that nobody sees unless they are completed.
//!
//! CRS notes each header's name in a member of `TX`, and asks in a second link whether one of them is
//! restricted (920450). Of a name that is not restricted nothing remains but that member, which no other rule
//! looks at: whether to run the chain at all depends on each name alone, and that is recalled.
//!
//! The law: where such a chain is left out, it would not have been completed, and every other rule sees the
//! same. Where it is run, it is run for all of its values. Only the number of members of `TX` is less. Whether it
//! is left out does not depend on what is recalled: a name that is not known is looked at, with the same answer.
//!
//! What other rules see is a question to [`super::effects`].

use std::collections::BTreeSet;

use super::{
    effects::{self, Effect},
    fold::Known,
    settle::chain,
};
use crate::{
    expand::{Expression, Segment},
    id::{LaneId, RuleIndex, RuleSet, TxSlot},
    operator::{Capture, Operator, TextTest},
    pattern::{Found, Meter},
    program::{Change, MatchAction, Rule, Select, SetVar, Target, TxKey},
    transaction::selects,
    variable::Variable,
};

/// A chain of two links: the first sets a member of `TX` for each value, the second looks for one of them.
#[derive(Clone, Debug)]
pub(crate) struct Unseen {
    pub(crate) rule: RuleIndex,
    /// The member's name, and its value: texts, and what was captured.
    pub(crate) name: Expression,
    pub(crate) value: Expression,
    /// What the second link asks of the value.
    pub(crate) test: TextTest,
    pub(crate) parameter: Box<[u8]>,
    pub(crate) negated: bool,
}

/// The chains that nobody sees.
#[derive(Debug, Default)]
pub(crate) struct UnseenChains {
    chains: Vec<Unseen>,
    /// The rules that start them.
    pub(crate) rules: RuleSet,
    /// How other rules select members of `TX` by name: a member that one of them takes is seen.
    pub(crate) observers: Vec<Select>,
}

impl UnseenChains {
    /// The chain that a rule starts, if it is one of them.
    pub(crate) fn chain(&self, starter: RuleIndex) -> Option<&Unseen> {
        self.chains.iter().find(|chain| chain.rule == starter)
    }
}

/// What is asked about all rules that may run.
struct Live<'r> {
    rules: &'r [Rule],
    starters: Vec<RuleIndex>,
    captures: &'r [TxSlot; Capture::GROUPS],
    tx_names: &'r [Box<str>],
    constants: &'r Known,
}

/// Finds the chains of `rules` that nobody sees. `starters` are the rules that may run, `constants` the
/// members of `TX` that stay as they are.
pub(super) fn unseen(
    rules: &[Rule],
    starters: Vec<RuleIndex>,
    captures: &[TxSlot; Capture::GROUPS],
    tx_names: &[Box<str>],
    constants: &Known,
) -> UnseenChains {
    let live = Live { rules, starters, captures, tx_names, constants };
    if live.starters.iter().any(|&starter| live.sees_captures_of_others(starter)) {
        return UnseenChains::default();
    }
    let chains: Vec<Unseen> =
        live.starters.iter().filter_map(|&starter| live.unseen(starter)).collect();
    let own: BTreeSet<usize> = chains.iter().map(|chain| chain.rule.get() + 1).collect();
    let others = live.links().filter(|(index, _)| !own.contains(index));
    let observers = others.flat_map(|(_, rule)| rule.targets.iter()).filter(|target| names(target));
    let observers = observers.map(|target| target.select.clone()).collect();
    let mut found = RuleSet::default();
    chains.iter().for_each(|chain| found.insert(chain.rule));
    UnseenChains { observers, chains, rules: found }
}

/// Whether a target selects members of `TX` by something other than one known name.
fn names(target: &Target) -> bool {
    target.variable == Variable::Tx && !matches!(target.select, Select::Slot(_))
}

impl<'r> Live<'r> {
    /// All rules that may run, links included.
    fn links(&self) -> impl Iterator<Item = (usize, &'r Rule)> {
        let rules = self.rules;
        let range = move |&starter: &RuleIndex| {
            let first = starter.get();
            let links = rules.get(first).map_or(0, |rule| rule.links as usize);
            (first..=first + links).filter_map(move |at| Some((at, rules.get(at)?)))
        };
        let all: Vec<_> = self.starters.iter().flat_map(range).collect();
        all.into_iter()
    }

    fn unseen(&self, starter: RuleIndex) -> Option<Unseen> {
        let first = self.rules.get(starter.get()).filter(|rule| rule.links == 1)?;
        let second = self.rules.get(starter.get() + 1)?;
        let [MatchAction::SetVar(setvar)] = &*first.on_match else { return None };
        let SetVar {
            collection: Variable::Tx,
            key: TxKey::Expression(name),
            change: Change::Set(value),
        } = setvar
        else {
            return None;
        };
        let asks_the_value_alone =
            first.operator.as_ref().is_some_and(Operator::looks_at_the_value_alone);
        let is_captured = [name, value].into_iter().all(|text| self.is_captured(text));
        if !asks_the_value_alone || !first.capture || first.negated || !is_captured {
            return None;
        }
        let [target] = &*second.targets else { return None };
        let (Select::Prefix(prefix), Variable::Tx, false) =
            (&target.select, target.variable, target.count)
        else {
            return None;
        };
        let Some(Operator::Text(test, parameter)) = &second.operator else { return None };
        let plain = second.lane == LaneId::NONE && target.except.is_empty();
        let alone = !self.writes_elsewhere(starter, prefix) && !self.tells_captures(starter);
        (plain && alone && !second.capture && starts_with(name, prefix)).then_some(())?;
        Some(Unseen {
            rule: starter,
            name: name.clone(),
            value: value.clone(),
            test: *test,
            parameter: self.constants.evaluate(parameter)?.into(),
            negated: second.negated,
        })
    }

    /// Whether a text is made of nothing but texts and what the rule captured.
    fn is_captured(&self, text: &Expression) -> bool {
        text.segments().iter().all(|segment| match segment {
            Segment::Literal(_) => true,
            Segment::Tx(slot) => self.captures.contains(slot),
            Segment::Scalar(_) | Segment::Member(..) => false,
        })
    }

    /// Whether what is said of a chain that is completed has what was captured: that of the last value, then, or
    /// of all.
    fn tells_captures(&self, starter: RuleIndex) -> bool {
        let mut effects = Vec::new();
        effects::of_completion(chain(self.rules, starter), &mut effects);
        effects.into_iter().any(|effect| self.reads_captures(effect))
    }

    /// Whether a member whose name begins so is set, or looked at by its name, by another rule.
    fn writes_elsewhere(&self, starter: RuleIndex, prefix: &[u8]) -> bool {
        let named = self.tx_names.iter().any(|name| name.as_bytes().starts_with(prefix));
        let sets = |effect: Effect<'_>| match effect {
            Effect::WritesNamed(name) => may_start_with(name, prefix),
            // Of these `named` says it.
            Effect::Writes(_) | Effect::Captures => false,
            Effect::Reads(_) | Effect::ReadsSelected(_) => false,
            // A sum writes what it reads.
            Effect::ReadsNamed(_) | Effect::Controls(_) => false,
        };
        let mut others = self.starters.iter().filter(|&&other| other != starter);
        named
            || others
                .any(|&other| effects::of_chain(chain(self.rules, other)).into_iter().any(sets))
    }

    /// Whether a rule of the chain looks at what a rule before the chain has captured.
    fn sees_captures_of_others(&self, starter: RuleIndex) -> bool {
        for effect in effects::of_chain(chain(self.rules, starter)) {
            // From here on it is what the chain itself has captured: all ten are set together.
            if matches!(effect, Effect::Captures) {
                return false;
            }
            if self.reads_captures(effect) {
                return true;
            }
        }
        false
    }

    fn reads_captures(&self, effect: Effect<'_>) -> bool {
        match effect {
            Effect::Reads(slot) => self.captures.contains(&slot),
            Effect::ReadsSelected(select) => {
                let mut meter = Meter::at_compile_time();
                (b'0'..=b'9').any(|digit| selects(select, &[digit], &mut meter) != Found::No)
            }
            Effect::ReadsNamed(name) => (b'0'..=b'9').any(|digit| may_start_with(name, &[digit])),
            Effect::Captures | Effect::Writes(_) | Effect::WritesNamed(_) | Effect::Controls(_) => {
                false
            }
        }
    }
}

/// Whether every name that an expression gives begins so.
fn starts_with(name: &Expression, prefix: &[u8]) -> bool {
    matches!(name.segments().first(), Some(Segment::Literal(text))
        if text.to_ascii_lowercase().starts_with(prefix))
}

/// Whether some name that an expression gives may begin so.
fn may_start_with(name: &Expression, prefix: &[u8]) -> bool {
    match name.segments().first() {
        Some(Segment::Literal(text)) => {
            let text = text.to_ascii_lowercase();
            text.starts_with(prefix) || prefix.starts_with(&text)
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::{Input, Limits, NoFiles, Program};

    const CHAIN: &str = r#"
        SecAction "id:1,phase:1,pass,nolog,setvar:'tx.restricted=/proxy/ /x-bad/'"
        SecRule REQUEST_HEADERS_NAMES "@rx ^.*$" "id:2,phase:1,deny,capture,t:lowercase,logdata:'%{MATCHED_VAR}',setvar:'tx.name_%{tx.0}=/%{tx.0}/',chain"
        SecRule TX:/^name_/ "@within %{tx.restricted}" "setvar:tx.score=+1"
    "#;

    #[track_caller]
    fn check(more: &str, from: &str, to: &str, unseen: &[u32]) {
        assert!(CHAIN.contains(from));
        let text = format!("{}\n{more}", CHAIN.replace(from, to));
        let input = Input::Text { name: "rules".to_owned(), text };
        let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
        let chains = &program.unseen.chains;
        let found = chains.iter().map(|chain| program.rules[chain.rule.get()].id.0);
        assert_eq!(found.collect::<Vec<_>>(), unseen, "{from} -> {to}, {more}");
    }

    #[test]
    fn a_chain_is_unseen_unless_somebody_looks() {
        let same = |more: &str, unseen: &[u32]| check(more, "id:2", "id:2", unseen);
        same("", &[2]);
        // What others capture, and look at, is their own.
        same(r#"SecRule ARGS "@rx (a)" "id:3,phase:2,pass,capture,setvar:tx.x=%{tx.1}""#, &[2]);
        same(r#"SecRule TX:/^other_/ "@rx a" "id:3,phase:2,pass""#, &[2]);
        // A sum reads the member of that name alone.
        same(r#"SecRule ARGS "@rx a" "id:3,phase:2,pass,setvar:'tx.n_%{MATCHED_VAR}=+1'""#, &[2]);
        // A name is looked at when it comes.
        same(r#"SecRule TX:/name_x/ "@rx a" "id:3,phase:2,pass""#, &[2]);
        for more in [
            r#"SecRule ARGS "@rx a" "id:3,phase:2,pass,setvar:tx.x=%{tx.0}""#,
            r#"SecRule ARGS "@rx a" "id:3,phase:2,pass,logdata:'%{tx.1}'""#,
            r#"SecRule ARGS "@rx a" "id:3,phase:2,redirect:'/%{tx.0}'""#,
            r#"SecAction "id:3,phase:2,pass,capture,setvar:'tx.x=%{tx.0}'""#,
            r#"SecRule RULE:logdata "@rx a" "id:3,phase:2,pass,capture,logdata:'%{tx.0}'""#,
            r#"SecRule ARGS "@streq %{rule.logdata}" "id:3,phase:2,pass,capture,logdata:'%{tx.0}'""#,
            r#"SecRule ARGS "!@rx (a)" "id:3,phase:2,pass,capture,setvar:tx.x=%{tx.1}""#,
            r#"SecRule ARGS "@rx a" "id:3,phase:2,pass,setvar:tx.0=+1""#,
            r#"SecRule ARGS "@rx a" "id:3,phase:2,pass,setvar:tx.%{MATCHED_VAR}=+1""#,
            r#"SecRule ARGS "@rx a" "id:3,phase:2,pass,setvar:'tx.1%{MATCHED_VAR}=+1'""#,
            r#"SecRule ARGS "@rx a" "id:3,phase:2,pass,setvar:'tx.name_%{MATCHED_VAR}=+1'""#,
            r#"SecRule ARGS "@rx a" "id:3,phase:2,pass,initcol:ip=%{tx.0}""#,
            r#"SecRule TX:0 "@rx a" "id:3,phase:2,pass""#,
            r#"SecRule TX:/^[0-3]/ "@rx a" "id:3,phase:2,pass""#,
            r#"SecRule TX "@rx a" "id:3,phase:2,pass""#,
            r#"SecRule TX:name_host "@rx a" "id:3,phase:2,pass""#,
            r#"SecRule ARGS "@rx (a)" "id:3,phase:2,pass,setvar:tx.name_%{MATCHED_VAR}=1""#,
            r#"SecRule ARGS "@rx (a)" "id:3,phase:2,pass,setvar:tx.%{MATCHED_VAR}=1""#,
            r#"SecRule ARGS "@rx (a)" "id:3,phase:2,pass,setvar:tx.restricted=a""#,
            r#"SecRule ARGS "@rx (a)" "id:3,phase:2,pass,ctl:auditLogParts=+K""#,
        ] {
            same(more, &[]);
        }
        for (from, to) in [
            ("capture,", ""),
            ("logdata:'%{MATCHED_VAR}'", "logdata:'%{tx.0}'"),
            ("setvar:'tx.name_", "setvar:tx.seen=1,setvar:'tx.name_"),
            ("=/%{tx.0}/", "=/%{MATCHED_VAR_NAME}/"),
            ("=/%{tx.0}/", "=+1"),
            ("\"@rx ^.*$\"", "\"!@rx ^.*$\""),
            ("TX:/^name_/", "TX:/name_/"),
            ("TX:/^name_/", "&TX:/^name_/"),
            ("TX:/^name_/", "TX:/^name_/|ARGS"),
            ("TX:/^name_/", "TX:/^nam_/"),
            ("@within %{tx.restricted}", "@within %{ARGS.a}"),
            ("@within %{tx.restricted}", "@rx proxy"),
        ] {
            check("", from, to, &[]);
        }
    }
}
