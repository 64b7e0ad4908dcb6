//! Settings: the directives that are neither rules nor changes of rules.
//!
//! Source: ModSecurity v3 reference manual, "Configuration Directives".

mod graphql_path;

use core::time::Duration;
use std::sync::Arc;

use seclang::Text;

use crate::{
    api::ApiDescription,
    audit::AuditParts,
    body::protobuf::descriptor::DescriptorSet,
    limits::Limits,
    pattern::Pattern,
    program::{AuditEngine, RuleEngine},
    reference::{self, Support},
    unicode_map::UnicodeMap,
};

use graphql_path::GraphqlPaths;

/// What is done with a body that is longer than its limit, or a transaction that takes more steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitAction {
    /// The transaction is refused: 413 for a request, 500 for a response, 503 for too many steps.
    Reject,
    /// What fits is inspected, the rest passes.
    ProcessPartial,
}

/// Media types whose bodies are inspected where the rules name none, as the manual says.
const MIME_TYPES: [&str; 2] = ["text/plain", "text/html"];

/// The settings of a program.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) rule_engine: RuleEngine,
    pub(crate) request_body_access: bool,
    pub(crate) response_body_access: bool,
    /// Whether compressed request bodies are decoded; they are an error otherwise.
    pub(crate) request_body_decompression: bool,
    /// Whether compressed response bodies are inspected as what they decode to.
    pub(crate) response_body_decompression: bool,
    /// Whether base64, JSON and XML in arguments and cookies are looked into.
    pub(crate) nested_decoding: bool,
    pub(crate) request_body_limit_action: LimitAction,
    pub(crate) response_body_limit_action: LimitAction,
    /// What becomes of a transaction whose rules take too many steps.
    pub(crate) rule_steps_limit_action: LimitAction,
    /// What becomes of a request for which a pattern has given up.
    pub(crate) pattern_limit_action: LimitAction,
    /// Media types whose bodies are inspected, in lower case; [`MIME_TYPES`] when the rules do not say.
    response_body_mime_types: Option<Vec<String>>,
    pub(crate) argument_separator: u8,
    /// How long a persistent collection is kept after its last change.
    pub(crate) collection_timeout: Duration,
    /// The types of messages of gRPC.
    pub(crate) grpc_descriptors: Option<Box<DescriptorSet>>,
    /// The paths on which GraphQL is served.
    pub(crate) graphql_paths: GraphqlPaths,
    /// The description that requests are compared with.
    pub(crate) api: Option<Arc<dyn ApiDescription>>,
    /// What `urlDecodeUni` takes characters for.
    pub(crate) unicode_map: Option<Box<UnicodeMap>>,
    /// `None` when the rules do not say.
    pub(crate) audit_engine: Option<AuditEngine>,
    pub(crate) audit_log_parts: AuditParts,
    pub(crate) audit_log_relevant_status: Option<Pattern>,
    pub(crate) component_signatures: Vec<String>,
    /// `WEBAPPID`.
    pub(crate) web_app_id: Box<str>,
    /// What `SecRuleMoveSetvar` changes.
    pub(crate) moved_setvars: Vec<MovedSetvar>,
}

/// A rule that sets another variable than it says.
#[derive(Clone, Debug)]
pub(crate) struct MovedSetvar {
    /// The rule's id.
    pub(crate) rule: u32,
    /// The variable that it says, such as `tx.score`.
    pub(crate) from: String,
    /// The variable that it sets.
    pub(crate) to: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rule_engine: RuleEngine::default(),
            request_body_access: false,
            response_body_access: false,
            request_body_decompression: true,
            response_body_decompression: true,
            nested_decoding: false,
            request_body_limit_action: LimitAction::Reject,
            response_body_limit_action: LimitAction::ProcessPartial,
            rule_steps_limit_action: LimitAction::Reject,
            pattern_limit_action: LimitAction::Reject,
            response_body_mime_types: None,
            argument_separator: b'&',
            collection_timeout: Duration::from_secs(3_600),
            grpc_descriptors: None,
            graphql_paths: GraphqlPaths::default(),
            api: None,
            unicode_map: None,
            audit_engine: None,
            audit_log_parts: AuditParts::default(),
            audit_log_relevant_status: None,
            component_signatures: Vec::new(),
            web_app_id: Box::default(),
            moved_setvars: Vec::new(),
        }
    }
}

/// How a directive is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// It is done.
    Done,
    /// It is accepted and has no effect here, for this reason.
    NoEffect(&'static str),
}

/// What was wrong: the argument's position (`None` for the directive as a whole) and why.
pub(crate) type Fault = (Option<usize>, String);

impl Settings {
    /// Applies the directive `name` with `arguments`.
    ///
    /// # Errors
    /// When the directive is unknown or refused, or an argument is not of its form.
    pub(crate) fn apply(
        &mut self,
        limits: &mut Limits,
        name: &str,
        arguments: &[Text],
    ) -> Result<Treatment, Fault> {
        let lower = name.to_ascii_lowercase();
        match lower.as_str() {
            "secruleengine" => self.rule_engine = rule_engine(one(name, arguments)?)?,
            "secrequestbodyaccess" => self.request_body_access = on_off(one(name, arguments)?)?,
            "secrequestbodydecompression" => {
                self.request_body_decompression = on_off(one(name, arguments)?)?;
            }
            "secresponsebodydecompression" => {
                self.response_body_decompression = on_off(one(name, arguments)?)?;
            }
            "secnesteddecoding" => self.nested_decoding = on_off(one(name, arguments)?)?,
            "secresponsebodyaccess" => self.response_body_access = on_off(one(name, arguments)?)?,
            "secrequestbodylimit" => limits.request_body_bytes_max = size(one(name, arguments)?)?,
            "secrequestbodynofileslimit" => {
                limits.request_body_no_files_bytes_max = size(one(name, arguments)?)?;
            }
            "secresponsebodylimit" => limits.response_body_bytes_max = size(one(name, arguments)?)?,
            "secargumentslimit" => limits.arguments_max = size(one(name, arguments)?)?,
            "secrequestbodyjsondepthlimit" => limits.json_depth_max = size(one(name, arguments)?)?,
            "secuploadfilelimit" => limits.upload_files_max = size(one(name, arguments)?)?,
            "secrequestbodylimitaction" => {
                self.request_body_limit_action = limit_action(one(name, arguments)?)?;
            }
            "secresponsebodylimitaction" => {
                self.response_body_limit_action = limit_action(one(name, arguments)?)?;
            }
            "secrulestepslimit" => limits.rule_steps_max = size(one(name, arguments)?)?,
            "secrulestepslimitaction" => {
                self.rule_steps_limit_action = limit_action(one(name, arguments)?)?;
            }
            "secpatternlimitaction" => {
                self.pattern_limit_action = limit_action(one(name, arguments)?)?;
            }
            "secresponsebodymimetype" => self.add_mime_types(name, arguments)?,
            "secresponsebodymimetypesclear" => self.response_body_mime_types = Some(Vec::new()),
            "secargumentseparator" => self.argument_separator = separator(one(name, arguments)?)?,
            "seccollectiontimeout" => {
                let seconds = size(one(name, arguments)?)?;
                self.collection_timeout = Duration::from_secs(seconds as u64);
            }
            "secgraphqlpath" => self.graphql_paths.add(name, arguments)?,
            "secauditengine" => {
                self.audit_engine = Some(audit_engine(one(name, arguments)?)?);
            }
            "secauditlogparts" => {
                let parts = AuditParts::parse(&one(name, arguments)?.text);
                self.audit_log_parts = parts.map_err(|why| (Some(0), why))?;
            }
            "secauditlogrelevantstatus" => {
                let pattern = Pattern::new(&one(name, arguments)?.text);
                self.audit_log_relevant_status = Some(pattern.map_err(|why| (Some(0), why))?);
            }
            "secrulemovesetvar" => self.moved_setvars.push(moved_setvar(name, arguments)?),
            "secwebappid" => self.web_app_id = one(name, arguments)?.text.as_str().into(),
            "seccomponentsignature" => {
                self.component_signatures.push(one(name, arguments)?.text.clone());
            }
            _ => return no_effect(name, arguments),
        }
        Ok(Treatment::Done)
    }

    fn add_mime_types(&mut self, name: &str, arguments: &[Text]) -> Result<(), Fault> {
        if arguments.is_empty() {
            return Err((None, format!("{name} needs at least one media type, such as text/html")));
        }
        // The first directive takes the place of the default, those behind it add.
        let wanted = self.response_body_mime_types.get_or_insert_default();
        for argument in arguments {
            wanted.extend(argument.text.split_ascii_whitespace().map(str::to_ascii_lowercase));
        }
        Ok(())
    }

    /// Whether response bodies of that type are inspected.
    pub(crate) fn inspects_media_type(&self, media_type: &[u8]) -> bool {
        let is = |wanted: &str| wanted.as_bytes().eq_ignore_ascii_case(media_type);
        match &self.response_body_mime_types {
            None => MIME_TYPES.iter().any(|wanted| is(wanted)),
            Some(types) => types.iter().any(|wanted| is(wanted)),
        }
    }
}

/// Directives that change nothing here, those that are harmless only with one value, and the unknown.
fn no_effect(name: &str, arguments: &[Text]) -> Result<Treatment, Fault> {
    match reference::find(reference::DIRECTIVES, name).map(|entry| entry.support) {
        Some(Support::NoEffect(reason)) => Ok(Treatment::NoEffect(reason)),
        Some(Support::Only(value, reason)) => only(name, arguments, value, reason),
        Some(Support::Refused(why)) => Err((None, format!("{name} is not supported: {why}"))),
        Some(Support::Full) | None => {
            let meant = reference::did_you_mean(reference::DIRECTIVES, "", name);
            Err((None, format!("there is no directive {name}, or it is not supported{meant}")))
        }
    }
}

fn moved_setvar(name: &str, arguments: &[Text]) -> Result<MovedSetvar, Fault> {
    let [rule, from, to] = arguments else {
        return Err((
            None,
            format!("{name} takes a rule's id and two variables, such as tx.score"),
        ));
    };
    let Ok(id) = rule.text.parse() else { return expected(rule, "the id of a rule") };
    Ok(MovedSetvar { rule: id, from: from.text.clone(), to: to.text.clone() })
}

fn one<'t>(name: &str, arguments: &'t [Text]) -> Result<&'t Text, Fault> {
    match arguments {
        [argument] => Ok(argument),
        _ => Err((None, format!("{name} takes one argument, not {}", arguments.len()))),
    }
}

fn only(
    name: &str,
    arguments: &[Text],
    accepted: &'static str,
    reason: &'static str,
) -> Result<Treatment, Fault> {
    if one(name, arguments)?.text.eq_ignore_ascii_case(accepted) {
        return Ok(Treatment::NoEffect(reason));
    }
    Err((Some(0), format!("{name} can only be {accepted}: {reason}")))
}

fn expected<T>(argument: &Text, what: &str) -> Result<T, Fault> {
    Err((Some(0), format!("expected {what}, not `{}`", argument.text)))
}

pub(crate) fn on_off(argument: &Text) -> Result<bool, Fault> {
    match argument.text.to_ascii_lowercase().as_str() {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => expected(argument, "On or Off"),
    }
}

pub(crate) fn rule_engine(argument: &Text) -> Result<RuleEngine, Fault> {
    match argument.text.to_ascii_lowercase().as_str() {
        "on" => Ok(RuleEngine::On),
        "off" => Ok(RuleEngine::Off),
        "detectiononly" => Ok(RuleEngine::DetectionOnly),
        _ => expected(argument, "On, Off or DetectionOnly"),
    }
}

pub(crate) fn audit_engine(argument: &Text) -> Result<AuditEngine, Fault> {
    match argument.text.to_ascii_lowercase().as_str() {
        "on" => Ok(AuditEngine::On),
        "off" => Ok(AuditEngine::Off),
        "relevantonly" => Ok(AuditEngine::RelevantOnly),
        _ => expected(argument, "On, Off or RelevantOnly"),
    }
}

fn limit_action(argument: &Text) -> Result<LimitAction, Fault> {
    match argument.text.to_ascii_lowercase().as_str() {
        "reject" => Ok(LimitAction::Reject),
        "processpartial" => Ok(LimitAction::ProcessPartial),
        _ => expected(argument, "Reject or ProcessPartial"),
    }
}

fn size(argument: &Text) -> Result<usize, Fault> {
    match argument.text.parse::<u32>() {
        Ok(size) if size > 0 => Ok(size as usize),
        _ => expected(argument, "a number from 1 to 4294967295"),
    }
}

fn separator(argument: &Text) -> Result<u8, Fault> {
    match argument.text.as_bytes() {
        [byte] => Ok(*byte),
        _ => expected(argument, "one character"),
    }
}
