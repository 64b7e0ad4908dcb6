//! Limits that a request has reached, and for which it is rejected: not an attack that a rule has found.

use glacis_engine::{Flags, MatchedRule, Phase, Refusal};

/// The tag of a rule that refuses for as many arguments as are kept: there may have been more.
const TAG_ARGUMENTS: &str = "glacis/limit/arguments";

/// The tag of a rule that refuses for a body which could not be read, where that may be due to a limit.
const TAG_BODY: &str = "glacis/limit/body";

/// The limit for which a request is rejected where rules may block.
///
/// The verdict of such a request is [`REJECT`](crate::REJECT): it does not count as an attack, whatever it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rejection {
    /// The evaluation was not done at the deadline.
    Late,
    /// Too many evaluations waited.
    QueueFull,
    /// Too many requests were under inspection.
    MaxStreams,
    /// The client held its share of what all clients share: streams, body memory, places in the queue.
    ClientShare,
    /// There was no memory left for the body.
    BodyOverflow,
    /// The body is larger than what is inspected.
    BodyTooLarge,
    /// Rules took more steps than they may (`SecRuleStepsLimit`).
    RuleSteps,
    /// A pattern with look-around or back-references gave up (`SecPatternLimitAction`): whether it matches is not known.
    Patterns,
    /// There are more headers or cookies than are inspected.
    Headers,
    /// There are more arguments than are inspected.
    Arguments,
    /// The body reaches a limit of those who read it: parts, depth, elements, bytes without files, names of files.
    BodyLimits,
    /// The body of the response is larger than what is inspected.
    ResponseTooLarge,
    /// The request asks for a WebSocket and is no handshake (RFC 6455, 4.1): it has another method than GET, a body, or
    /// no `Sec-WebSocket-Key`. What follows its headers is neither a body with an end nor frames.
    MalformedUpgrade,
    /// The frames of a WebSocket cannot be read ([`Fault`](crate::Fault)).
    MalformedFrames,
    /// The server has accepted extensions with which the messages of a WebSocket cannot be inspected.
    UninspectableUpgrade,
    /// A server sends more events in a second than are inspected.
    EventRate,
}

impl Rejection {
    /// Every limit.
    pub const ALL: [Self; 16] = [
        Self::Late,
        Self::QueueFull,
        Self::MaxStreams,
        Self::ClientShare,
        Self::BodyOverflow,
        Self::BodyTooLarge,
        Self::RuleSteps,
        Self::Patterns,
        Self::Headers,
        Self::Arguments,
        Self::BodyLimits,
        Self::ResponseTooLarge,
        Self::MalformedUpgrade,
        Self::MalformedFrames,
        Self::UninspectableUpgrade,
        Self::EventRate,
    ];

    /// The limit's name in receipts, audit records and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::QueueFull => "queue_full",
            Self::MaxStreams => "max_streams",
            Self::ClientShare => "client_share",
            Self::BodyOverflow => "body_overflow",
            Self::BodyTooLarge => "body_too_large",
            Self::RuleSteps => "rule_steps",
            Self::Patterns => "patterns",
            Self::Headers => "headers",
            Self::Arguments => "arguments",
            Self::BodyLimits => "body_limits",
            Self::ResponseTooLarge => "response_too_large",
            Self::MalformedUpgrade => "malformed_upgrade",
            Self::MalformedFrames => "malformed_frames",
            Self::UninspectableUpgrade => "uninspectable_upgrade",
            Self::EventRate => "event_rate",
        }
    }

    /// The status of the answer: 503 where the same request may pass later, else one that says what is wrong with it.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Late
            | Self::QueueFull
            | Self::MaxStreams
            | Self::ClientShare
            | Self::BodyOverflow
            | Self::RuleSteps => 503,
            Self::BodyTooLarge => 413,
            Self::Headers => 431,
            Self::Patterns
            | Self::Arguments
            | Self::BodyLimits
            | Self::MalformedUpgrade
            | Self::MalformedFrames => 400,
            Self::ResponseTooLarge => 500,
            Self::UninspectableUpgrade | Self::EventRate => 502,
        }
    }

    /// Whether what others do has a part in it: the same request may pass later.
    #[must_use]
    pub const fn is_of_load(self) -> bool {
        match self {
            Self::Late
            | Self::QueueFull
            | Self::MaxStreams
            | Self::ClientShare
            | Self::BodyOverflow => true,
            Self::BodyTooLarge
            | Self::RuleSteps
            | Self::Patterns
            | Self::Headers
            | Self::Arguments
            | Self::BodyLimits
            | Self::ResponseTooLarge
            | Self::MalformedUpgrade
            | Self::MalformedFrames
            | Self::UninspectableUpgrade
            | Self::EventRate => false,
        }
    }

    /// The limit for which a rule has refused that says so by a tag: the base configuration leaves it to rules what
    /// becomes of a body that reaches a limit.
    pub(crate) fn by_rule(rule: &MatchedRule<'_>, flags: Flags) -> Option<Self> {
        let has = |tag: &str| rule.tags.iter().any(|own| **own == *tag);
        let of_body = flags.body_limit_reached && has(TAG_BODY);
        if has(TAG_ARGUMENTS) || of_body && flags.arguments_dropped {
            Some(Self::Arguments)
        } else {
            of_body.then_some(Self::BodyLimits)
        }
    }

    /// The limit for which the engine has refused without a rule.
    pub(crate) const fn of(refusal: &Refusal, flags: Flags) -> Self {
        match refusal {
            Refusal { status: 413, .. } => Self::BodyTooLarge,
            Refusal { status: 431, .. } => Self::Headers,
            Refusal { status: 400, .. } if flags.arguments_dropped => Self::Arguments,
            Refusal { status: 400, .. } => Self::Patterns,
            Refusal {
                phase: Phase::ResponseHeaders | Phase::ResponseBody, status: 500, ..
            } if flags.response_body_truncated => Self::ResponseTooLarge,
            Refusal { status: 500, .. } => Self::Patterns,
            _ if flags.deadline_passed => Self::Late,
            _ => Self::RuleSteps,
        }
    }
}
