//! Actions: name and value → what the rule does.
//!
//! Source: ModSecurity v3 reference manual, "Actions".

use seclang::{Action, Span, Target, Text};

use super::{Compiler, is, value_text};
use crate::{
    audit::PartsChange,
    body::Processor,
    expand::Expression,
    id::RuleSet,
    program::{AllowScope, Change, Ctl, Disruptive, Flow, MatchAction, Meta, SetVar, TxKey},
    reference::{self, Support},
    settings,
    suggestion::did_you_mean,
    transform::Transformation,
    variable::Variable,
};

/// Everything that a rule's actions say.
#[derive(Debug, Default)]
pub(super) struct Lowered {
    /// Which of the gathered rules it is.
    index: usize,
    pub(super) transformations: Vec<Transformation>,
    pub(super) multi_match: bool,
    pub(super) capture: bool,
    pub(super) on_match: Vec<MatchAction>,
    pub(super) disruptive: Disruptive,
    pub(super) flow: Flow,
    pub(super) log: bool,
    pub(super) audit_log: bool,
    pub(super) meta: Meta,
    status: Option<u16>,
}

/// Whether an action decides over the transaction.
pub(super) fn is_disruptive(action: &Action) -> bool {
    ["allow", "block", "deny", "drop", "pass", "redirect"].iter().any(|name| is(action, name))
}

/// What a chain has in its first rule, and has no effect in the others.
const OF_THE_CHAIN: [&str; 4] = ["id", "phase", "skip", "skipafter"];

impl Compiler<'_> {
    /// Lowers the actions of the rule at `index` over the defaults of its phase.
    pub(super) fn lower_actions(
        &mut self,
        index: usize,
        defaults: &[Action],
        own: &[Action],
        link: bool,
    ) -> Lowered {
        let mut lowered = Lowered { index, log: true, audit_log: true, ..Lowered::default() };
        for action in defaults {
            self.lower_action(action, &mut lowered);
        }
        let by_default = core::mem::take(&mut lowered.disruptive);
        let default_status = lowered.status.take();
        let mut blocks = false;
        for action in own {
            if link && is_disruptive(action) && !is(action, "pass") && !is(action, "block") {
                self.error(
                    action.span,
                    "a disruptive action stands in the first rule of a chain only",
                );
            }
            if is(action, "block") {
                blocks = true;
                lowered.disruptive = by_default.clone();
            } else if link && OF_THE_CHAIN.iter().any(|name| is(action, name)) {
                let name = &action.name.text;
                let message =
                    format!("{name} has no effect here: write it in the first rule of the chain");
                self.warn(action.span, &message);
            } else {
                blocks &= !is_disruptive(action);
                self.lower_action(action, &mut lowered);
            }
        }
        if !own.iter().any(is_disruptive) && !link {
            blocks = true;
            lowered.disruptive = by_default;
        }
        let inherits = blocks || matches!(lowered.disruptive, Disruptive::Deny(_));
        let status = lowered.status.or(if inherits { default_status } else { None });
        with_status(&mut lowered.disruptive, status);
        lowered
    }

    fn lower_action(&mut self, action: &Action, into: &mut Lowered) {
        if let Err(message) = self.action(action, into) {
            self.error(action.span, &message);
        }
    }

    fn action(&mut self, action: &Action, into: &mut Lowered) -> Result<(), String> {
        let value = value_text(action);
        match action.name.text.to_ascii_lowercase().as_str() {
            // Read when the rule was gathered.
            "id" | "phase" | "chain" | "block" => {}
            "t" => transformation(value, &mut into.transformations)?,
            "multimatch" => into.multi_match = true,
            "capture" => into.capture = true,
            // Names in XPath are compared without their prefixes.
            "xmlns" => {
                self.warn(action.span, "xmlns has no effect: prefixes are not looked at in XPath");
            }
            "log" => (into.log, into.audit_log) = (true, true),
            "nolog" => (into.log, into.audit_log) = (false, false),
            "auditlog" => into.audit_log = true,
            "noauditlog" => into.audit_log = false,
            "pass" => into.disruptive = Disruptive::Pass,
            "deny" => into.disruptive = Disruptive::Deny(403),
            "drop" => into.disruptive = Disruptive::Drop,
            "redirect" => into.disruptive = Disruptive::Redirect(302, self.expression(value)?),
            "allow" => into.disruptive = Disruptive::Allow(allow_scope(value)?),
            "status" => into.status = Some(status(value)?),
            "skip" => into.flow = Flow::Skip(number(value, "skip", u32::MAX)?),
            "skipafter" => into.flow = self.skip_after(action, into.index),
            "setvar" => into.on_match.push(MatchAction::SetVar(self.setvar(value)?)),
            "initcol" => into.on_match.push(self.initcol(value)?),
            "setenv" => into.on_match.push(MatchAction::SetVar(self.setenv(value)?)),
            "sanitisearg" | "sanitizearg" => {
                into.on_match.push(self.sanitise(action, Variable::Args, value)?);
            }
            "sanitiserequestheader" | "sanitizerequestheader" => {
                into.on_match.push(self.sanitise(action, Variable::RequestHeaders, value)?);
            }
            "sanitiseresponseheader" | "sanitizeresponseheader" => {
                into.on_match.push(self.sanitise(action, Variable::ResponseHeaders, value)?);
            }
            "sanitisematched" | "sanitizematched" => {
                into.on_match.push(MatchAction::SanitiseMatched);
            }
            "sanitisematchedbytes" | "sanitizematchedbytes" => {
                self.warn(action.span, "the whole value is masked, not some of its bytes");
                into.on_match.push(MatchAction::SanitiseMatched);
            }
            "setrsc" => into.on_match.push(self.open(Variable::Resource, value)?),
            "setsid" => into.on_match.push(self.open(Variable::Session, value)?),
            "setuid" => into.on_match.push(self.open(Variable::User, value)?),
            "expirevar" => into.on_match.push(MatchAction::SetVar(self.expirevar(action, value)?)),
            "deprecatevar" => {
                into.on_match.push(MatchAction::SetVar(self.deprecatevar(action, value)?));
            }
            "ctl" => into.on_match.push(MatchAction::Ctl(self.ctl(action, value)?)),
            _ => self.metadata(action, value, &mut into.meta)?,
        }
        Ok(())
    }

    fn metadata(&mut self, action: &Action, value: &str, meta: &mut Meta) -> Result<(), String> {
        match action.name.text.to_ascii_lowercase().as_str() {
            "msg" => {
                meta.msg = Some(self.expression(value)?);
                meta.msg_text = self.parts.text(value);
            }
            "logdata" => meta.logdata = Some(self.expression(value)?),
            "tag" => meta.tags.push(self.parts.text(value)),
            "severity" => meta.severity = Some(severity(value)?),
            "rev" => meta.rev = self.parts.text(value),
            "ver" => meta.ver = self.parts.text(value),
            "maturity" => meta.maturity = Some(small_number(value, "maturity")?),
            "accuracy" => meta.accuracy = Some(small_number(value, "accuracy")?),
            _ => return Err(unknown(&action.name.text)),
        }
        Ok(())
    }

    fn expression(&mut self, text: &str) -> Result<Expression, String> {
        Expression::parse(text, &mut |name| self.slot(name))
    }

    /// Of several markers of one name, the next one behind the rule is meant.
    fn skip_after(&mut self, action: &Action, index: usize) -> Flow {
        let name = value_text(action);
        let mut markers = self.markers.iter();
        let next = markers.position(|(marker, before)| marker == name && *before > index);
        if let Some(marker) = next.and_then(|at| u32::try_from(at).ok()) {
            return Flow::SkipAfter(marker);
        }
        let message = match self.markers.iter().any(|(marker, _)| marker == name) {
            true => format!(
                "SecMarker {name} stands before the rule only; the rest of the phase will be skipped"
            ),
            false => format!("no SecMarker is named {name}; the rest of the phase will be skipped"),
        };
        self.warn(action.span, &message);
        Flow::SkipPhase
    }

    /// `setvar:tx.name=value`, `=+n`, `=-n`, `setvar:tx.name` and `setvar:!tx.name`.
    fn setvar(&mut self, value: &str) -> Result<SetVar, String> {
        let (unset, rest) = match value.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, value),
        };
        let (name, assigned) = match rest.split_once('=') {
            Some((name, assigned)) => (name.trim(), Some(assigned.trim())),
            None => (rest.trim(), None),
        };
        let Some((collection, key)) = name.split_once(['.', ':']) else {
            return Err(format!("setvar needs a collection and a name, such as tx.{name}"));
        };
        let Some(collection) = writable(collection) else {
            return Err(format!(
                "setvar cannot change {collection}: write tx, or ip, global, session, user or resource"
            ));
        };
        if key.is_empty() {
            return Err("setvar needs a name after the dot".to_owned());
        }
        let key = match collection {
            Variable::Tx if !key.contains("%{") => TxKey::Slot(self.slot(key)?),
            _ => TxKey::Expression(self.expression(key)?),
        };
        let change = match (unset, assigned) {
            (true, None) => Change::Unset,
            (true, Some(_)) => return Err("setvar:! takes no value".to_owned()),
            (false, None) => Change::Set(self.expression("1")?),
            (false, Some(text)) => match text.as_bytes().first() {
                Some(b'+') => Change::Add(self.expression(text.get(1..).unwrap_or_default())?),
                Some(b'-') => Change::Subtract(self.expression(text.get(1..).unwrap_or_default())?),
                _ => Change::Set(self.expression(text)?),
            },
        };
        Ok(SetVar { collection, key, change })
    }

    /// `setenv:NAME=value` and `setenv:!NAME`.
    fn setenv(&mut self, value: &str) -> Result<SetVar, String> {
        let (name, change) = match (value.strip_prefix('!'), value.split_once('=')) {
            (Some(name), None) => (name, Change::Unset),
            (None, Some((name, text))) => (name, Change::Set(self.expression(text.trim())?)),
            _ => return Err("setenv is written setenv:NAME=value or setenv:!NAME".to_owned()),
        };
        if name.trim().is_empty() {
            return Err("setenv needs a name".to_owned());
        }
        let key = TxKey::Expression(self.expression(name.trim())?);
        Ok(SetVar { collection: Variable::Env, key, change })
    }

    fn sanitise(
        &mut self,
        action: &Action,
        collection: Variable,
        name: &str,
    ) -> Result<MatchAction, String> {
        if name.is_empty() {
            return Err(format!("{} needs a name", action.name.text));
        }
        Ok(MatchAction::Sanitise(collection, self.expression(name)?))
    }

    /// `initcol:ip=%{REMOTE_ADDR}`.
    fn initcol(&mut self, value: &str) -> Result<MatchAction, String> {
        let opened =
            value.split_once('=').and_then(|(name, key)| Some((writable(name.trim())?, key)));
        let Some((collection, key)) = opened.filter(|(collection, _)| *collection != Variable::Tx)
        else {
            return Err(
                "initcol opens ip, global, session, user or resource: initcol:ip=KEY".to_owned()
            );
        };
        self.open(collection, key.trim())
    }

    fn open(&mut self, collection: Variable, key: &str) -> Result<MatchAction, String> {
        Ok(MatchAction::InitCol(collection, self.expression(key)?))
    }

    /// `expirevar:ip.name=SECONDS`.
    fn expirevar(&mut self, action: &Action, value: &str) -> Result<SetVar, String> {
        let (collection, key, seconds) = self.aging(action, value, "ip.name=SECONDS")?;
        Ok(SetVar { collection, key, change: Change::ExpireAfter(self.expression(seconds)?) })
    }

    /// `deprecatevar:session.score=AMOUNT/SECONDS`.
    fn deprecatevar(&mut self, action: &Action, value: &str) -> Result<SetVar, String> {
        const FORM: &str = "session.score=AMOUNT/SECONDS";
        let (collection, key, speed) = self.aging(action, value, FORM)?;
        let parts = speed.split_once('/').and_then(|(amount, seconds)| {
            Some((amount.trim().parse::<u32>().ok()?, seconds.trim().parse::<u32>().ok()?))
        });
        match parts {
            Some((amount, seconds)) if seconds > 0 => {
                let period = core::time::Duration::from_secs(u64::from(seconds));
                Ok(SetVar {
                    collection,
                    key,
                    change: Change::Decay { amount: i64::from(amount), period },
                })
            }
            _ => Err(format!("deprecatevar is written deprecatevar:{FORM}")),
        }
    }

    /// What `expirevar` and `deprecatevar` have in common: `collection.name=HOW`.
    fn aging<'v>(
        &mut self,
        action: &Action,
        value: &'v str,
        form: &str,
    ) -> Result<(Variable, TxKey, &'v str), String> {
        let name = &action.name.text;
        let parts = value.split_once('=').and_then(|(member, how)| {
            let (collection, key) = member.trim().split_once(['.', ':'])?;
            Some((writable(collection)?, key, how.trim()))
        });
        let Some((collection, key, how)) = parts.filter(|(_, key, _)| !key.is_empty()) else {
            return Err(format!("{name} is written {name}:{form}"));
        };
        if collection == Variable::Tx {
            self.warn(action.span, &format!("{name} has no effect: TX ends with its transaction"));
        }
        Ok((collection, TxKey::Expression(self.expression(key)?), how))
    }

    fn ctl(&mut self, action: &Action, value: &str) -> Result<Ctl, String> {
        let Some((name, argument)) = value.split_once('=') else {
            return Err("ctl needs a setting and a value, such as ctl:ruleEngine=Off".to_owned());
        };
        let argument = argument.trim();
        let span = action.value.as_ref().map_or(action.span, |value| value.span);
        let text = Text { text: argument.to_owned(), span };
        let why = |(_, message): (Option<usize>, String)| message;
        Ok(match name.trim().to_ascii_lowercase().as_str() {
            "ruleengine" => Ctl::RuleEngine(settings::rule_engine(&text).map_err(why)?),
            "auditengine" => Ctl::AuditEngine(settings::audit_engine(&text).map_err(why)?),
            "auditlogparts" => Ctl::AuditParts(PartsChange::parse(argument)?),
            "requestbodyaccess" => Ctl::RequestBodyAccess(settings::on_off(&text).map_err(why)?),
            "responsebodyaccess" => Ctl::ResponseBodyAccess(settings::on_off(&text).map_err(why)?),
            "forcerequestbodyvariable" => {
                Ctl::ForceRequestBodyVariable(settings::on_off(&text).map_err(why)?)
            }
            "requestbodyprocessor" => Ctl::RequestBodyProcessor(processor(argument)?),
            "requestbodylimit" => Ctl::RequestBodyLimit(size(argument, "requestBodyLimit")?),
            "responsebodylimit" => Ctl::ResponseBodyLimit(size(argument, "responseBodyLimit")?),
            "ruleremovebyid" => Ctl::RemoveRules(self.rules_by_ids(argument)?),
            "ruleremovebytag" => Ctl::RemoveRules(self.rules_by_tag(argument)?),
            "ruleremovebymsg" => Ctl::RemoveRules(self.rules_by_msg(argument)?),
            "ruleremovetargetbyid" => self.ctl_target(action, argument, Self::rules_by_ids)?,
            "ruleremovetargetbytag" => self.ctl_target(action, argument, Self::rules_by_tag)?,
            "ruleremovetargetbymsg" => self.ctl_target(action, argument, Self::rules_by_msg)?,
            other => match reference::find(reference::CTLS, other).map(|entry| entry.support) {
                Some(Support::NoEffect(why)) => {
                    self.warn(action.span, &format!("ctl:{} has no effect: {why}", name.trim()));
                    Ctl::NoEffect
                }
                _ => return Err(unknown_ctl(name.trim())),
            },
        })
    }

    /// `…=RULES;TARGET`.
    fn ctl_target(
        &mut self,
        action: &Action,
        argument: &str,
        rules: fn(&mut Self, &str) -> Result<RuleSet, String>,
    ) -> Result<Ctl, String> {
        // The first semicolon, as in ModSecurity and Coraza: another one may stand in the target's pattern.
        let Some((which, target)) = argument.split_once(';') else {
            return Err(
                "write RULES;TARGET, such as ctl:ruleRemoveTargetById=942100;ARGS:q".to_owned()
            );
        };
        let rules = rules(self, which.trim())?;
        // The target is what the value ends with.
        let value = action.value.as_ref().map_or(action.span, |value| value.span);
        let length = u32::try_from(target.len()).unwrap_or(u32::MAX);
        let start = value.end.saturating_sub(length).max(value.start);
        let targets = seclang::parse_targets(target, Span { start, ..value })?;
        let [target] = targets.as_slice() else {
            return Err("write one target after the semicolon, such as ARGS:q".to_owned());
        };
        if target.count {
            return Err("write the target without &: a count cannot be taken away".to_owned());
        }
        let target = Target { exclude: false, ..target.clone() };
        match self.lower_target(&target, true) {
            Some((variable, select)) => Ok(Ctl::RemoveTargets(rules, variable, select)),
            // Why is reported, and the ruleset refused.
            None => Ok(Ctl::NoEffect),
        }
    }
}

fn unknown(name: &str) -> String {
    match reference::find(reference::ACTIONS, name).map(|entry| entry.support) {
        Some(Support::Refused(why)) => format!("the action {name} is refused: {why}"),
        _ => {
            let meant = reference::did_you_mean(reference::ACTIONS, "", name);
            format!("there is no action {name}{meant}")
        }
    }
}

fn unknown_ctl(name: &str) -> String {
    match reference::find(reference::CTLS, name).map(|entry| entry.support) {
        Some(Support::Refused(why)) => format!("ctl:{name} is refused: {why}"),
        _ => {
            let meant = reference::did_you_mean(reference::CTLS, "ctl:", name);
            format!("there is no ctl:{name}, or it is not supported{meant}")
        }
    }
}

fn transformation(name: &str, chain: &mut Vec<Transformation>) -> Result<(), String> {
    if name.eq_ignore_ascii_case("none") {
        chain.clear();
        return Ok(());
    }
    let found = Transformation::from_name(name);
    chain.push(found.ok_or_else(|| {
        let meant = did_you_mean(name, "t:", Transformation::names());
        format!("there is no transformation {name}{meant}")
    })?);
    Ok(())
}

/// The status that an action names.
pub(super) fn status_of(action: &Action) -> Option<u16> {
    is(action, "status").then(|| status(value_text(action)).ok()).flatten()
}

pub(super) fn with_status(disruptive: &mut Disruptive, status: Option<u16>) {
    // A client follows a redirect of the 300s only; of another status the default stays.
    if let (Disruptive::Deny(current), Some(status))
    | (Disruptive::Redirect(current, _), Some(status @ 300..=399)) = (disruptive, status)
    {
        *current = status;
    }
}

fn allow_scope(value: &str) -> Result<AllowScope, String> {
    match value.to_ascii_lowercase().as_str() {
        "" => Ok(AllowScope::All),
        "phase" => Ok(AllowScope::Phase),
        "request" => Ok(AllowScope::Request),
        _ => Err("write allow, allow:phase or allow:request".to_owned()),
    }
}

fn number(value: &str, what: &str, max: u32) -> Result<u32, String> {
    match value.parse::<u32>() {
        Ok(number) if number <= max => Ok(number),
        _ => Err(format!("{what} needs a number up to {max}, not `{value}`")),
    }
}

fn size(value: &str, what: &str) -> Result<usize, String> {
    number(value, what, u32::MAX).map(|number| number as usize)
}

fn small_number(value: &str, what: &str) -> Result<u8, String> {
    number(value, what, 9).map(|number| u8::try_from(number).unwrap_or(9))
}

fn status(value: &str) -> Result<u16, String> {
    match value.parse::<u16>() {
        Ok(status @ 100..=599) => Ok(status),
        _ => Err(format!("a status is a number from 100 to 599, not `{value}`")),
    }
}

/// The collections that rules can write.
fn writable(name: &str) -> Option<Variable> {
    let variable = Variable::from_name(name)?;
    let persistent = crate::transaction::PERSISTENT.contains(&variable);
    (persistent || variable == Variable::Tx).then_some(variable)
}

/// The eight severities of syslog, by name or number.
fn severity(value: &str) -> Result<u8, String> {
    let known = SEVERITIES.iter().position(|name| name.eq_ignore_ascii_case(value));
    let number = known.or_else(|| value.parse::<usize>().ok().filter(|&n| n < SEVERITIES.len()));
    number.and_then(|number| u8::try_from(number).ok()).ok_or_else(|| {
        format!("a severity is 0 to 7 or one of {}, not `{value}`", SEVERITIES.join(", "))
    })
}

/// Names of the severities, the gravest first.
pub(crate) const SEVERITIES: [&str; 8] =
    ["EMERGENCY", "ALERT", "CRITICAL", "ERROR", "WARNING", "NOTICE", "INFO", "DEBUG"];

fn processor(name: &str) -> Result<Processor, String> {
    Processor::from_name(name.as_bytes()).ok_or_else(|| {
        format!("a body processor is URLENCODED, MULTIPART, JSON, JSONLINES, XML, TEXT, GRPC, PROTOBUF or RAW, not `{name}`")
    })
}
