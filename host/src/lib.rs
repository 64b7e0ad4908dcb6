//! What the hosts of the inspector share, whatever Envoy calls them by: the configuration keys of profiles, the rulesets
//! that are made of these keys, and the budgets that requests take memory and places from.
//!
//! A host declares its configuration with [`declare_configuration!`]: the keys of a profile, which are the same in every
//! host, and keys of its own. [`ProfileKeys`] are those of one profile. [`Recipe`] and [`settings`] turn them into what
//! an inspector runs.

pub mod admission;
mod audit;
mod event_stream;
mod graphql;
mod keys;
mod large_bodies;
mod limits;
mod openapi;
mod out_of_band;
mod policies;
mod profile;
mod ruleset;
mod scoring;
mod websocket;
mod words;

pub use audit::Audit;
pub use event_stream::EventStreamConfig;
pub use glacis_rules::{ExclusionConfig, Expiry, RuleRange};
pub use graphql::{GraphqlConfig, Introspection, MalformedGraphql};
pub use keys::{Block, ProfileKeys, check_profiles};
pub use large_bodies::{EvaluationThreads, time_for_body};
pub use limits::{LimitsChange, LimitsConfig};
pub use openapi::{Conformance, OpenApiConfig};
pub use out_of_band::{Evaluation, ShadowConfig};
pub use policies::{
    BodyOverflow, CrsDefaults, ExpiredExclusions, Format, Grpc, Late, OversizedBody, Response,
    UnknownProfile,
};
pub use profile::{Given, Mode, ProfileConfig, resolve_rules};
pub use ruleset::{
    LoadedExclusion, Recipe, Records, RulesetError, RulesetErrorKind, canary_of, load_exclusions,
    recipe, settings,
};
pub use scoring::{OpinionAction, ScoringConfig, SecondOpinionConfig, second_opinion};
pub use websocket::WebsocketConfig;
