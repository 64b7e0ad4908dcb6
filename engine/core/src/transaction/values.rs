//! From a target to the values it means.

use super::{Transaction, request::decimal};
use crate::{
    body::BodyScratch,
    id::{RuleIndex, RuleSet},
    pattern::{Found, Meter},
    program::{Ctl, MatchAction, Program, Select, Target},
    store::{List, NO_ID, Pair, Slice, ValueId},
    variable::Variable,
};

/// A value to be looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct ValueRef {
    pub(super) variable: Variable,
    /// The member's name; empty for scalars.
    pub(super) name: Slice,
    pub(super) value: Slice,
    /// Present for values that stay the same for the whole transaction.
    pub(super) id: Option<ValueId>,
    /// Whether `value` is the number of values.
    pub(super) count: bool,
}

/// Which half of a member is the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Name,
    Value,
}

impl Part {
    /// The text, and its id if it has one.
    pub(crate) const fn of(self, pair: &Pair) -> (Slice, Option<ValueId>) {
        let (text, id) = match self {
            Self::Name => (pair.name, pair.id),
            Self::Value => (pair.value, pair.id.saturating_add(1)),
        };
        let has_id = pair.id != NO_ID;
        (text, if has_id { Some(ValueId(id)) } else { None })
    }
}

/// The collections that a variable reads, and which half of their members.
pub(crate) const fn lists(variable: Variable) -> Option<(&'static [List], Part)> {
    Some(match variable {
        Variable::Args => (
            &[List::ArgsGet, List::ArgsGetDecoded, List::ArgsPost, List::ArgsPostDecoded],
            Part::Value,
        ),
        Variable::ArgsNames => (&[List::ArgsGet, List::ArgsPost], Part::Name),
        Variable::ArgsGet => (&[List::ArgsGet, List::ArgsGetDecoded], Part::Value),
        Variable::ArgsGetNames => (&[List::ArgsGet], Part::Name),
        Variable::ArgsPost => (&[List::ArgsPost, List::ArgsPostDecoded], Part::Value),
        Variable::ArgsPostNames => (&[List::ArgsPost], Part::Name),
        Variable::RequestHeaders => (&[List::RequestHeaders], Part::Value),
        Variable::RequestHeadersNames => (&[List::RequestHeaders], Part::Name),
        Variable::ResponseHeaders => (&[List::ResponseHeaders], Part::Value),
        Variable::ResponseHeadersNames => (&[List::ResponseHeaders], Part::Name),
        Variable::RequestCookies => (&[List::Cookies, List::CookiesDecoded], Part::Value),
        Variable::RequestCookiesNames => (&[List::Cookies], Part::Name),
        Variable::Files => (&[List::Files], Part::Value),
        Variable::FilesNames => (&[List::Files], Part::Name),
        Variable::FilesSizes => (&[List::FilesSizes], Part::Value),
        Variable::FilesTmpContent => (&[List::FilesContent], Part::Value),
        Variable::Geo => (&[List::Geo], Part::Value),
        Variable::Graphql => (&[List::Graphql], Part::Value),
        Variable::Openapi => (&[List::Openapi], Part::Value),
        Variable::MultipartPartHeaders => (&[List::PartHeaders], Part::Value),
        Variable::MultipartFilename => (&[List::MultipartFileNames], Part::Value),
        Variable::MultipartName => (&[List::MultipartNames], Part::Value),
        Variable::Xml => (&[List::XmlText, List::XmlAttributes, List::XmlPaths], Part::Value),
        _ => return None,
    })
}

/// Whether a variable's values are known before the rules of a phase run and stay the same while they
/// run.
pub(crate) const fn is_stable(variable: Variable) -> bool {
    // GEO is filled by a rule, in the middle of a phase.
    if lists(variable).is_some() {
        return !matches!(variable, Variable::Geo);
    }
    matches!(
        variable,
        Variable::QueryString
            | Variable::RemoteAddr
            | Variable::RequestBasename
            | Variable::RequestBody
            | Variable::RequestBodyAsSent
            | Variable::RequestFilename
            | Variable::RequestLine
            | Variable::RequestMethod
            | Variable::RequestProtocol
            | Variable::RequestUri
            | Variable::RequestUriRaw
            | Variable::ResponseBody
            | Variable::ResponseProtocol
            | Variable::ResponseStatus
            | Variable::ServerName
            | Variable::StatusLine
            | Variable::UniqueId
    )
}

/// Whether a variable's value is made when it is asked for: see [`Transaction::write_scalar`].
pub(super) const fn is_computed(variable: Variable) -> bool {
    matches!(
        variable,
        Variable::FullRequest
            | Variable::FullRequestLength
            | Variable::HighestSeverity
            | Variable::MatchedVar
            | Variable::MatchedVarName
            | Variable::ModsecBuild
            | Variable::MscPcreError
            | Variable::MscPcreLimitsExceeded
            | Variable::MscStepsLimitExceeded
            | Variable::RemoteUser
            | Variable::Sessionid
            | Variable::Userid
            | Variable::Webappid
    )
}

/// Whether a variable has one value, and that a short one: a number or a name.
pub(crate) const fn is_short(variable: Variable) -> bool {
    matches!(
        variable,
        Variable::ArgsCombinedSize
            | Variable::FilesCombinedSize
            | Variable::InboundDataError
            | Variable::MultipartStrictError
            | Variable::MultipartUnmatchedBoundary
            | Variable::OutboundDataError
            | Variable::ReqbodyError
            | Variable::ReqbodyProcessor
            | Variable::ReqbodyProcessorError
            | Variable::RequestBodyLength
            | Variable::ResponseStatus
    )
}

/// Whether a selection takes the member of that name. A pattern charges `meter` for what it reads.
pub(crate) fn selects(select: &Select, name: &[u8], meter: &mut Meter) -> Found {
    Found::from(match select {
        Select::All => true,
        Select::Key(key) => name.eq_ignore_ascii_case(key),
        Select::Pattern(pattern) => return pattern.search(name, meter),
        Select::Prefix(prefix) => {
            name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        }
        Select::XmlText => name == b"/*",
        Select::XmlAttributes => name == b"//@*",
        Select::XPath(expression) => name == &**expression,
        // A slot is resolved before names are compared.
        Select::Slot(_) => false,
    })
}

/// Whether a target looks at the member of that name, if its selection is not asked again. A selection that gives up
/// takes the member, an exclusion that gives up does not take it away: nothing passes because a search was too long.
#[inline]
pub(super) fn selected(select: &Select, name: &[u8], meter: &mut Meter) -> bool {
    matches!(select, Select::All) || selects(select, name, meter) != Found::No
}

/// Whether one of the exclusions takes the member of that name away.
#[inline]
pub(super) fn excluded(excepts: &[Select], name: &[u8], meter: &mut Meter) -> bool {
    excepts.iter().any(|except| selects(except, name, meter) == Found::Yes)
}

/// Whether a target takes the member of that name.
#[inline]
pub(super) fn takes(target: &Target, name: &[u8], meter: &mut Meter) -> bool {
    // Of a scalar there is one value.
    (selected(&target.select, name, meter) || lists(target.variable).is_none())
        && !excluded(&target.except, name, meter)
}

/// What actions took away: from which rules, and members of which variable.
fn removals<'p>(
    removed: &[(RuleIndex, usize)],
    program: &'p Program,
) -> impl Iterator<Item = (&'p RuleSet, Variable, &'p Select)> {
    removed.iter().filter_map(move |&(by, at)| {
        match program.rules.get(by.get())?.on_match.get(at)? {
            MatchAction::Ctl(Ctl::RemoveTargets(rules, variable, select)) => {
                Some((rules, *variable, select))
            }
            MatchAction::Ctl(_)
            | MatchAction::SetVar(_)
            | MatchAction::InitCol(..)
            | MatchAction::Sanitise(..)
            | MatchAction::SanitiseMatched => None,
        }
    })
}

impl Transaction {
    /// Appends the values that `target` means to the scratch list.
    pub(super) fn collect(&mut self, program: &Program, target: &Target) {
        let first = self.scratch.values.len();
        match target.variable {
            Variable::Tx => self.collect_tx(program, target),
            Variable::MatchedVars | Variable::MatchedVarsNames => self.collect_matched(target),
            Variable::Rule => self.collect_rule(program, target),
            Variable::Env => self.collect_env(target),
            variable if super::PERSISTENT.contains(&variable) => self.collect_persistent(target),
            variable => match lists(variable) {
                Some((lists, part)) => self.collect_lists(target, lists, part),
                None => self.collect_scalar(variable),
            },
        }
        if target.count {
            self.count(target.variable, first);
        }
    }

    /// Replaces the values from `first` on by their number.
    fn count(&mut self, variable: Variable, first: usize) {
        let mut digits = [0; 20];
        let number = decimal((self.scratch.values.len() - first) as u64, &mut digits);
        let value = self.store.push_temporary(number);
        self.scratch.values.truncate(first);
        self.push_value(ValueRef { variable, name: Slice::EMPTY, value, id: None, count: true });
    }

    fn push_value(&mut self, value: ValueRef) {
        self.scratch.values.push(value);
    }

    fn collect_lists(&mut self, target: &Target, lists: &[List], part: Part) {
        let (store, values) = (&self.store, &mut self.scratch.values);
        let meter = self.budget.meter();
        let taken = lists.iter().filter(|list| !(target.count && list.is_decoded()));
        for pair in taken.flat_map(|&list| store.list(list)) {
            if takes(target, store.bytes(pair.name), meter) {
                let (value, id) = part.of(pair);
                let variable = target.variable;
                values.push(ValueRef { variable, name: pair.name, value, id, count: false });
            }
        }
    }

    fn collect_scalar(&mut self, variable: Variable) {
        let (value, id) = if is_computed(variable) {
            (self.computed(variable), None)
        } else {
            // What transformations make of a value that may change from phase to phase is not kept.
            let id = ValueId(variable as u32);
            (self.scalar(variable), is_stable(variable).then_some(id))
        };
        self.push_value(ValueRef { variable, name: Slice::EMPTY, value, id, count: false });
    }

    /// A value that is made when it is asked for. It is as long as what it is made of: a macro may be cut, and
    /// then says less; a rule that looked at a part only could be led past the rest.
    fn computed(&mut self, variable: Variable) -> Slice {
        let mut text = core::mem::take(&mut self.scratch.name);
        text.clear();
        self.write_scalar(variable, &mut text);
        let value = self.store.push_temporary(&text);
        text.clear();
        text.shrink_to(BodyScratch::RETAINED_BYTES_MAX);
        self.scratch.name = text;
        value
    }

    fn collect_tx(&mut self, program: &Program, target: &Target) {
        if let Select::Slot(slot) = target.select {
            if let Some(value) = self.tx.slot(slot) {
                let value = self.store.push_temporary(value);
                let name = program.tx_names.get(slot.get()).map_or(&[][..], |name| name.as_bytes());
                let name = self.store.push_temporary(name);
                let variable = Variable::Tx;
                self.push_value(ValueRef { variable, name, value, id: None, count: false });
            }
            return;
        }
        let (tx, store, values) = (&self.tx, &mut self.store, &mut self.scratch.values);
        let meter = self.budget.meter();
        for (name, value) in tx.members(&program.tx_names) {
            let is_slot = |except: &Select| {
                matches!(except, Select::Slot(slot) if program.tx_names.get(slot.get())
                    .is_some_and(|known| known.as_bytes() == name))
            };
            if selected(&target.select, name, meter)
                && !target.except.iter().any(is_slot)
                && !excluded(&target.except, name, meter)
            {
                let name = store.push_temporary(name);
                let value = store.push_temporary(value);
                let variable = Variable::Tx;
                values.push(ValueRef { variable, name, value, id: None, count: false });
            }
        }
    }

    fn collect_persistent(&mut self, target: &Target) {
        let variable = target.variable;
        let Some(at) = super::PERSISTENT.iter().position(|&known| known == variable) else {
            return;
        };
        let Some(opened) = self.persistent.get(at) else { return };
        let (store, values) = (&mut self.store, &mut self.scratch.values);
        let meter = self.budget.meter();
        for member in opened.collection.members() {
            let (name, value) = (&member.name, &member.value);
            let taken =
                selected(&target.select, name, meter) && !excluded(&target.except, name, meter);
            if taken {
                let name = store.push_temporary(name);
                let value = store.push_temporary(value);
                values.push(ValueRef { variable, name, value, id: None, count: false });
            }
        }
    }

    fn collect_env(&mut self, target: &Target) {
        let (store, values) = (&mut self.store, &mut self.scratch.values);
        let meter = self.budget.meter();
        for (name, value) in self.env.members(&[]) {
            let taken =
                selected(&target.select, name, meter) && !excluded(&target.except, name, meter);
            if taken {
                let name = store.push_temporary(name);
                let value = store.push_temporary(value);
                let variable = Variable::Env;
                values.push(ValueRef { variable, name, value, id: None, count: false });
            }
        }
    }

    fn collect_matched(&mut self, target: &Target) {
        let (matches, store, values) = (&self.matches, &mut self.store, &mut self.scratch.values);
        let meter = self.budget.meter();
        for var in matches.vars() {
            let taken = selected(&target.select, &var.name, meter)
                && !excluded(&target.except, &var.name, meter);
            if taken {
                let name = store.push_temporary(&var.name);
                let value = match target.variable {
                    Variable::MatchedVars => store.push_temporary(&var.value),
                    _ => name,
                };
                let variable = target.variable;
                values.push(ValueRef { variable, name, value, id: None, count: false });
            }
        }
    }

    fn collect_rule(&mut self, program: &Program, target: &Target) {
        for key in ["id", "rev", "msg", "severity", "logdata"] {
            if selected(&target.select, key.as_bytes(), self.budget.meter()) {
                let expression = crate::expand::Expression::member(Variable::Rule, key);
                let mut text = Vec::new();
                self.expand(program, &expression, &mut text);
                let name = self.store.push_temporary(key.as_bytes());
                let value = self.store.push_temporary(&text);
                let variable = Variable::Rule;
                self.push_value(ValueRef { variable, name, value, id: None, count: false });
            }
        }
    }

    /// Whether a `ctl:ruleRemoveTarget…` took the value away from the rule.
    pub(super) fn target_removed(
        &mut self,
        program: &Program,
        rule: RuleIndex,
        value: &ValueRef,
    ) -> bool {
        let name = self.store.bytes(value.name);
        let meter = self.budget.meter();
        removals(&self.removed_targets, program).any(|(rules, variable, select)| {
            variable == value.variable.named()
                && rules.contains(rule)
                && match select {
                    Select::Slot(slot) => {
                        program.tx_names.get(slot.get()).is_some_and(|slot| slot.as_bytes() == name)
                    }
                    // One that gives up takes nothing away.
                    _ => selects(select, name, meter) == Found::Yes,
                }
        })
    }

    /// Whether one took any value away from the rule.
    pub(super) fn loses_targets(&self, program: &Program, rule: RuleIndex) -> bool {
        removals(&self.removed_targets, program).any(|(rules, ..)| rules.contains(rule))
    }

    /// Writes `VARIABLE:name`, `VARIABLE` or `&VARIABLE`.
    pub(super) fn write_value_name(&self, value: &ValueRef, out: &mut Vec<u8>) {
        out.clear();
        if value.count {
            out.push(b'&');
        }
        let matched = matches!(value.variable, Variable::MatchedVars | Variable::MatchedVarsNames);
        out.extend_from_slice(value.variable.name().as_bytes());
        let name = self.store.bytes(value.name);
        if !name.is_empty() || (!matched && lists(value.variable).is_some() && !value.count) {
            out.push(b':');
            out.extend_from_slice(name);
        }
    }
}
