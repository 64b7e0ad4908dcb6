//! What a host says once, for all exchanges of a profile.

use std::sync::Arc;

use glacis_engine::{AuditParts, CollectionStore, Lookup, RuleEngine};
use glacis_second_opinion::Weights;

use crate::{
    audit::AuditFormat, block_page::BlockPage, event_stream::EventStreamSettings,
    redact::Redaction, sample::Sample, socket::SocketSettings,
};

/// How much of responses is inspected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResponseInspection {
    /// Nothing: phases 3 and 4 do not run.
    #[default]
    Off,
    /// Status and headers: phase 4 runs without a body.
    Headers,
    /// Bodies too, of the media types that the rules name.
    Full,
}

/// What does not change from one request to the next.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The name that receipts and audit records carry.
    pub profile: String,
    /// Whether rules run, and may block, instead of what the rules say (`SecRuleEngine`).
    pub rule_engine: Option<RuleEngine>,
    /// Of which requests the rules run.
    pub sample: Sample,
    /// How much of responses is inspected, if the rules look at responses at all.
    pub response: ResponseInspection,
    /// Proxies before the host that append to `x-forwarded-for`; 0 to use the source address.
    pub trusted_hops: usize,
    /// What becomes of requests whose body is larger than the host can hold.
    pub truncated_body: TruncatedBody,
    /// What becomes of requests for whose body the host has no room.
    pub body_overflow: BodyOverflow,
    /// What becomes of requests that the host cannot evaluate in time, or not at all as too much is under way.
    pub late: LatePolicy,
    /// Whether the messages of calls of gRPC are inspected.
    pub grpc: GrpcBodies,
    /// How the messages of WebSockets are inspected, if they are.
    pub socket: Option<SocketSettings>,
    /// How server-sent events are inspected, if they are: responses have to be inspected as well.
    pub event_stream: Option<EventStreamSettings>,
    /// What is masked in audit records.
    pub redaction: Redaction,
    /// The shape of audit records.
    pub audit_format: AuditFormat,
    /// The parts of a record that the host gets of each refused request besides the audit record, in our
    /// own shape and with the same things masked, whatever the rules say of audit records.
    pub refused_parts: Option<AuditParts>,
    /// Of which requests that pass there is a record, where one is due; refused ones always have theirs.
    pub audit_sample: Sample,
    /// The status of refusals instead of the rule's, redirections excepted.
    pub block_status: Option<u16>,
    /// What refused clients are shown.
    pub block_page: BlockPage,
    /// What answers `@geoLookup` and `@rbl`; without it neither ever matches.
    pub lookup: Option<Arc<dyn Lookup>>,
    /// Where persistent collections are kept; without it they end with their exchange.
    pub collections: Option<Arc<dyn CollectionStore>>,
    /// The second opinion on requests, if there is one.
    pub second_opinion: Option<SecondOpinion>,
    /// Whether the exchange has been answered by others, whatever comes of it here: the verdict of receipts
    /// and records is then [`OBSERVED`](crate::OBSERVED).
    pub out_of_band: bool,
}

/// A second opinion, and what it does.
#[derive(Clone, Debug)]
pub struct SecondOpinion {
    /// The weights.
    pub weights: Arc<Weights>,
    /// What it does when a request is an attack by them.
    pub action: OpinionAction,
}

/// What a second opinion does when its score reaches the threshold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OpinionAction {
    /// Nothing: it is recorded.
    #[default]
    Shadow,
    /// The request is refused, where rules may block. What rules refuse stays refused, whatever the opinion.
    Block,
}

/// What becomes of a request of whose body the host brings only the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TruncatedBody {
    /// It is refused with 413, unless rules may not block: what cannot be inspected must not pass.
    #[default]
    Reject,
    /// The beginning is inspected, and the request passes if nothing is found there.
    Inspect,
    /// Nothing of the body is inspected, and the request passes if nothing is found elsewhere in it.
    Pass,
}

/// What becomes of a request for whose body there is no room now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyOverflow {
    /// It is refused with 503, unless rules may not block.
    #[default]
    Reject,
    /// Nothing more of the body is inspected, and the request passes if nothing is found elsewhere in it.
    Pass,
}

/// What becomes of a request that is not evaluated in time, where rules may block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LatePolicy {
    /// It is rejected with 503. How long an evaluation takes is for the client to choose, and no failure.
    #[default]
    Reject,
    /// The host ends with an error, and whoever asked it decides: Envoy by `failure_mode_allow`.
    Fail,
}

/// What becomes of the messages of calls of gRPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrpcBodies {
    /// They are a body as any other: the host waits for their end, and streaming calls do not work.
    #[default]
    Inspect,
    /// They pass without a look at them. A call is a POST over HTTP/2 or HTTP/3 with `te: trailers` and the media
    /// type `application/grpc`; what merely has that media type is inspected.
    Pass,
}
