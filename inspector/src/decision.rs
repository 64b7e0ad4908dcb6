//! What a host has to do, and what it leaves behind.

use glacis_engine::{Flags, Phase, RuleEngine, RuleId, Scores};

use crate::{message::MessageName, rejection::Rejection};

/// What the host has to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Let the message pass. The verdict on this half of the exchange is reached.
    Continue,
    /// Hold the message and bring the (rest of the) body.
    NeedBody,
    /// Answer the client with this instead.
    Reply(Box<Reply>),
}

/// The answer to a refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// `deny`, `redirect`, `drop` or [`REJECT`]. A host that can close the connection does so for `drop`.
    pub action: &'static str,
    /// Headers, names in lower case.
    pub headers: Vec<(&'static str, String)>,
    /// The body. It names the request and nothing of the rules.
    pub body: String,
    /// The code of gRPC, if the client has made a call of gRPC: the host answers with trailers only, and
    /// `body` is the message in them.
    pub grpc_status: Option<u32>,
    /// The rule that refused; `None` when a limit did.
    pub rule: Option<RuleId>,
    /// For the host's own log: letters, digits and underscores, such as `glacis_deny_rule_942100` or
    /// `glacis_reject_late`.
    pub details: String,
}

/// Whether rules may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// They may.
    Blocking,
    /// They run and may not.
    DetectionOnly,
    /// They do not run.
    Off,
}

impl Mode {
    /// `blocking`, `detection_only` or `off`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocking => "blocking",
            Self::DetectionOnly => "detection_only",
            Self::Off => "off",
        }
    }
}

impl From<RuleEngine> for Mode {
    fn from(engine: RuleEngine) -> Self {
        match engine {
            RuleEngine::On => Self::Blocking,
            RuleEngine::DetectionOnly => Self::DetectionOnly,
            RuleEngine::Off => Self::Off,
        }
    }
}

/// Why something passed that rules have not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Uninspected {
    /// Rules do not run at all (`SecRuleEngine Off`, or `ctl:ruleEngine=Off`).
    EngineOff,
    /// The profile's rules run for a sample of requests, and this one is not in it.
    NotSampled,
    /// There is a body, and the rules do not ask for it.
    BodyNotWanted,
    /// The body is a stream of gRPC messages.
    GrpcBody,
    /// What follows the headers are WebSocket frames.
    WebSocket,
    /// The response is a stream of server-sent events, and they are not inspected one by one.
    EventStream,
    /// What follows the headers is a tunnel (`CONNECT`).
    Tunnel,
    /// The body is larger than what is inspected, and such are passed without a look at them.
    BodyTooLarge,
    /// There was no room for the body, as too many others were held.
    BodyOverflow,
    /// Only the beginning of the body was seen.
    BodyTruncated,
    /// The host was asked for the body and did not bring it (all of it).
    BodyNotSent,
    /// Only the beginning of the response's body was seen.
    ResponseTruncated,
    /// The response's body is compressed: rules have seen it as it is.
    ResponseEncoded,
    /// The verdict did not come in time, and rules may not block.
    Late,
    /// Rules took more steps than they may (`SecRuleStepsLimit`): the rest of them did not run.
    RulesCutOff,
    /// It was to be evaluated after it had been answered, and there was no room for that.
    NotEvaluated,
    /// The service was overloaded, and rules may not block.
    Overload,
    /// Trailers came after the verdict on the request. Where rules may block they are taken out of the request.
    RequestTrailers,
    /// Trailers came after the verdict on the response.
    ResponseTrailers,
}

impl Uninspected {
    /// Every reason.
    pub const ALL: [Self; 19] = [
        Self::EngineOff,
        Self::NotSampled,
        Self::BodyNotWanted,
        Self::GrpcBody,
        Self::WebSocket,
        Self::EventStream,
        Self::Tunnel,
        Self::BodyTooLarge,
        Self::BodyOverflow,
        Self::BodyTruncated,
        Self::BodyNotSent,
        Self::ResponseTruncated,
        Self::ResponseEncoded,
        Self::Late,
        Self::RulesCutOff,
        Self::NotEvaluated,
        Self::Overload,
        Self::RequestTrailers,
        Self::ResponseTrailers,
    ];

    /// The reason as it stands in metrics and receipts.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::EngineOff => "engine_off",
            Self::NotSampled => "not_sampled",
            Self::BodyNotWanted => "body_not_wanted",
            Self::GrpcBody => "grpc_body",
            Self::WebSocket => "websocket",
            Self::EventStream => "event_stream",
            Self::Tunnel => "tunnel",
            Self::BodyTooLarge => "body_too_large",
            Self::BodyOverflow => "body_overflow",
            Self::BodyTruncated => "body_truncated",
            Self::BodyNotSent => "body_not_sent",
            Self::ResponseTruncated => "response_truncated",
            Self::ResponseEncoded => "response_encoded",
            Self::Late => "late",
            Self::RulesCutOff => "rules_cut_off",
            Self::NotEvaluated => "not_evaluated",
            Self::Overload => "overload",
            Self::RequestTrailers => "request_trailers",
            Self::ResponseTrailers => "response_trailers",
        }
    }
}

/// The verdict on a request that is evaluated after it has been answered.
pub const OBSERVED: &str = "observed";

/// The verdict on a request that has reached a limit ([`Rejection`]): no rule has found anything in it.
pub const REJECT: &str = "reject";

/// What a receipt holds of a second opinion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opined {
    /// The score, in thousandths.
    pub score: i32,
    /// Whether it reaches the threshold.
    pub attack: bool,
    /// Whether the rules refuse the request, whatever the opinion.
    pub refused_by_rules: bool,
}

impl Opined {
    /// What rules do beside the opinion: `refused` or `passed`.
    #[must_use]
    pub const fn rules(self) -> &'static str {
        if self.refused_by_rules { "refused" } else { "passed" }
    }

    /// `attack` or `ordinary`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        if self.attack { "attack" } else { "ordinary" }
    }
}

/// The refusal that there would be if rules might block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WouldDeny {
    /// The phase that would refuse.
    pub phase: Phase,
    /// The first rule that would refuse.
    pub rule: RuleId,
}

/// The proof that a request was looked at, for whoever comes after the host in the chain.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt<'a> {
    /// `pending` while a request's body is awaited; then `allow`, `deny`, `redirect`, `drop` or [`REJECT`]; or
    /// [`OBSERVED`].
    pub verdict: &'static str,
    /// The limit for which it was rejected.
    pub reason: Option<Rejection>,
    /// Whether rules may block.
    pub mode: Mode,
    /// The phase that refused.
    pub phase: Option<Phase>,
    /// What rules have seen of the request: `none`, `headers`, `body`, or `partial` for the beginning
    /// of a body; `later` for what is evaluated after the answer. A request without a body that was looked at is
    /// `headers`.
    pub inspected: &'static str,
    /// Why something was left out, if it was.
    pub uninspected: Option<Uninspected>,
    /// Anomaly scores.
    pub scores: Scores,
    /// The second opinion, where there is one.
    pub opinion: Option<Opined>,
    /// The refusal that detection mode withheld from a request that passes.
    pub would_deny: Option<WouldDeny>,
    /// The ids of rules that matched and log, at most [`Self::RULES_MAX`].
    pub rules: Vec<RuleId>,
    /// The name of the profile.
    pub profile: &'a str,
    /// The hash of the ruleset.
    pub ruleset: &'a str,
    /// The name of the request.
    pub request_id: &'a str,
    /// The message of a WebSocket that it is about.
    pub message: Option<MessageName>,
}

impl<'a> Receipt<'a> {
    /// Rules named in a receipt: it travels with each request.
    pub const RULES_MAX: usize = 32;

    /// The receipt of a request that is evaluated after it has been answered.
    #[must_use]
    pub fn observed(profile: &'a str, ruleset: &'a str, request_id: &'a str) -> Self {
        Self {
            verdict: OBSERVED,
            reason: None,
            mode: Mode::DetectionOnly,
            phase: None,
            inspected: "later",
            uninspected: None,
            scores: Scores::default(),
            opinion: None,
            would_deny: None,
            rules: Vec::new(),
            profile,
            ruleset,
            request_id,
            message: None,
        }
    }
}

/// What is left of an exchange when it is over.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<'a> {
    /// The final receipt. Its verdict is `pending` when the host never brought the body.
    pub receipt: Receipt<'a>,
    /// The audit record, one line of JSON without its end, if one is due.
    pub audit: Option<String>,
    /// A record of a refused request for the host itself, in our own shape, if [`Settings`] ask for one.
    ///
    /// [`Settings`]: crate::Settings
    pub refused: Option<String>,
    /// Such a record of an exchange that would have been refused, where rules may not block
    /// ([`Receipt::would_deny`]).
    pub detected: Option<String>,
    /// The limits that were hit, record or not.
    pub limits: Flags,
}
