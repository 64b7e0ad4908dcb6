//! From what a host of HTTP streams is told to what it has to do: the one place where the order of
//! phases, the question whether a body is needed, the answer to a refused request, the receipt, the
//! audit record and the masking of secrets are decided, for every host alike.
//!
//! A host owns one [`Inspector`] per HTTP stream, gives it headers and body pieces as they come, and
//! obeys the [`Decision`]s:
//!
//! ```text
//! request_headers → Continue | NeedBody | Reply
//! request_body…   → Continue (verdict reached) | NeedBody (more) | Reply
//! response_headers, response_body…   likewise, when `wants_response` says so
//! finish          → the Outcome: receipt and audit record
//! ```
//!
//! Invariants: no I/O, no clock, no randomness; nothing a client sends makes it panic; bytes are
//! borrowed from the host until the engine copies what it keeps. Calls out of order are ignored.

mod audit;
mod block_page;
mod body;
pub mod canary;
mod client;
mod decision;
mod event_stream;
mod first_verdict;
mod grpc;
mod inspector;
mod json;
mod message;
mod pool;
mod profile;
mod redact;
mod rejection;
mod request;
mod sample;
mod settings;
mod socket;
mod status;
mod time;
mod websocket;

pub use audit::AuditFormat;
pub use block_page::{BlockPage, Shown};
pub use client::{client_of, parse_endpoint};
pub use decision::{
    Decision, Mode, OBSERVED, Opined, Outcome, REJECT, Receipt, Reply, Uninspected, WouldDeny,
};
pub use event_stream::{
    EventBlock, EventJudge, EventReader, EventStream, EventStreamHead, EventStreamSettings, Passed,
    StreamEvent, StreamPart,
};
pub use first_verdict::{
    BundleError, FIRST_VERDICT_HEAD_BYTES_MAX, First, FirstVerdict, RuleBundle,
};
pub use grpc::code as grpc_code;
pub use inspector::{End, Inspector, SECOND_OPINION_RULE};
pub use message::{Channel, KeptHead, MessageName};
pub use pool::Pool;
pub use profile::{Choice, Hints, Profiles, UnknownProfile, UnknownProfilePolicy};
pub use redact::{Redaction, SECRET_NAMES, SECRET_WORDS};
pub use rejection::Rejection;
pub use request::{
    Header, RequestHead, ResponseHead, cookies, cookies_without, find, has_body, has_response_body,
    query, request_id,
};
pub use sample::Sample;
pub use settings::{
    BodyOverflow, GrpcBodies, LatePolicy, OpinionAction, ResponseInspection, SecondOpinion,
    Settings, TruncatedBody,
};
pub use socket::{
    CLOSE_GRACE, Closing, EXTENSIONS_HEADER, Judge, Socket, SocketMessage, SocketSettings, Switch,
    Unread, unclosed,
};
pub use websocket::{
    Event, Fault, HeaderChange, Kind, Message, Peer, Reader, ReaderLimits, close_frame,
};
