//! Keys whose value is one of a few words.

use glacis_inspector::{
    AuditFormat, GrpcBodies, LatePolicy, ResponseInspection, TruncatedBody, UnknownProfilePolicy,
};
use glacis_rules::Defaults;
use serde::{Deserialize, Deserializer};

use crate::words::word;

/// Whose defaults the settings of CRS have.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum CrsDefaults {
    Glacis,
    Crs,
}

impl From<CrsDefaults> for Defaults {
    fn from(defaults: CrsDefaults) -> Self {
        match defaults {
            CrsDefaults::Glacis => Self::Glacis,
            CrsDefaults::Crs => Self::Crs,
        }
    }
}

/// What becomes of exclusions whose last day is over.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum ExpiredExclusions {
    Drop,
    Apply,
}

/// What becomes of requests that name a profile which is not there.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum UnknownProfile {
    Default,
    Refuse,
}

impl From<UnknownProfile> for UnknownProfilePolicy {
    fn from(policy: UnknownProfile) -> Self {
        match policy {
            UnknownProfile::Default => Self::Default,
            UnknownProfile::Refuse => Self::Refuse,
        }
    }
}

/// What becomes of requests whose body is larger than what is inspected.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum OversizedBody {
    Reject,
    Partial,
    Pass,
}

impl From<OversizedBody> for TruncatedBody {
    fn from(body: OversizedBody) -> Self {
        match body {
            OversizedBody::Reject => Self::Reject,
            OversizedBody::Partial => Self::Inspect,
            OversizedBody::Pass => Self::Pass,
        }
    }
}

/// What becomes of requests for whose body there is no room.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum BodyOverflow {
    Reject,
    Pass,
}

impl From<BodyOverflow> for glacis_inspector::BodyOverflow {
    fn from(overflow: BodyOverflow) -> Self {
        match overflow {
            BodyOverflow::Reject => Self::Reject,
            BodyOverflow::Pass => Self::Pass,
        }
    }
}

/// What becomes of requests that are not evaluated in time, or for whose evaluation there is no place.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Late {
    Reject,
    Fail,
}

impl From<Late> for LatePolicy {
    fn from(late: Late) -> Self {
        match late {
            Late::Reject => Self::Reject,
            Late::Fail => Self::Fail,
        }
    }
}

/// What becomes of the messages of calls of gRPC.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Grpc {
    Inspect,
    Pass,
}

impl From<Grpc> for GrpcBodies {
    fn from(grpc: Grpc) -> Self {
        match grpc {
            Grpc::Inspect => Self::Inspect,
            Grpc::Pass => Self::Pass,
        }
    }
}

/// How much of responses is inspected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Response {
    Off,
    Headers,
    Full,
}

impl<'de> Deserialize<'de> for Response {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, &[("off", Self::Off), ("headers", Self::Headers), ("full", Self::Full)])
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Response {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Response".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "enum": ["off", "headers", "full", false] })
    }
}

impl From<Response> for ResponseInspection {
    fn from(response: Response) -> Self {
        match response {
            Response::Off => Self::Off,
            Response::Headers => Self::Headers,
            Response::Full => Self::Full,
        }
    }
}

/// The shape of audit records.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Format {
    Native,
    ModSecurity,
    Ocsf,
}

impl From<Format> for AuditFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Native => Self::Native,
            Format::ModSecurity => Self::ModSecurity,
            Format::Ocsf => Self::Ocsf,
        }
    }
}
