//! The SecLang engine: syntax tree → program → transaction → verdict.
//!
//! ```
//! use std::{net::Ipv4Addr, sync::Arc, time::Duration};
//! use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction, Verdict};
//!
//! let rules = Input::Text {
//!     name: "example.conf".into(),
//!     text: r#"SecRuleEngine On
//!              SecRule ARGS "@rx (?i)union\s+select" "id:1,phase:2,deny,t:urlDecodeUni""#.into(),
//! };
//! let program = Program::build(&[rules], &NoFiles, Limits::default()).expect("the rules compile");
//! let mut transaction = Transaction::new(Arc::new(program));
//! let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
//! transaction.start(&Start { unique_id: "1", time: Duration::ZERO, client: endpoint, server: endpoint });
//! transaction.request_line(b"GET", b"/?q=1+UNION+SELECT+2", b"HTTP/1.1");
//! transaction.evaluate_request_headers();
//! assert!(matches!(transaction.evaluate_request_body(), Verdict::Deny(_)));
//! ```
//!
//! Invariants: no I/O, no clock, no environment, no logging; a [`Program`] is immutable and shared;
//! whatever the bytes of a request, evaluation does not panic and its time and memory are bounded by
//! [`Limits`]; the verdict does not depend on how a body was chunked.

mod api;
mod ascii;
mod audit;
pub mod body;
mod civil;
mod collection;
mod compile;
mod cookie;
mod error;
mod expand;
mod id;
mod limits;
mod loaded;
mod lookup;
mod operator;
mod parts;
mod pattern;
mod plan;
mod program;
mod recall;
mod reference;
mod scan;
mod settings;
mod source;
mod store;
mod suggestion;
mod transaction;
pub mod transform;
mod unicode_map;
mod variable;
mod verdict;
#[cfg(test)]
mod xorshift;
mod xpath;

pub use api::{ApiBody, ApiDescription, ApiPart, ApiRequest, NoApiDescription};
pub use audit::{AuditPart, AuditParts};
pub use civil::{CivilDate, civil_date};
pub use collection::{
    Change, Collection, CollectionLimits, CollectionStore, Member, MemoryStore, Step,
};
pub use error::{BuildError, BuildErrors};
pub use id::{Phase, RuleId};
pub use limits::Limits;
pub use loaded::LoadedRule;
pub use lookup::{Geo, Lookup, NoLookup};
pub use parts::Parts;
pub use program::{AuditEngine, GateKind, GatedRule, Program, RuleEngine};
pub use reference::reference;
pub use source::{Input, NoFiles, Source, SourceError, SourceFile};
pub use transaction::{
    BodyRoom, Deadline, Endpoint, Excerpt, Flags, GrpcMessages, Hidden, LaneCost, Match,
    MatchedRule, PhaseCost, Profile, ProfiledLane, ProfiledRule, RuleCost, ScanCost, Scores, Start,
    TraceEvent, TraceStep, TracedCapture, TracedChange, TracedMatch, TracedOutcome, TracedRule,
    TracedStage, Transaction, Upload,
};
pub use unicode_map::UnicodeMap;
pub use variable::{Kind, Variable};
pub use verdict::{Refusal, Verdict};
