//! The section `canary_envoy`.

use core::net::{IpAddr, SocketAddr};

use glacis_inspector::canary::CRS_CANARY;
use serde::Deserialize;

/// Where a known attack is sent to, to see whether Envoy has it inspected.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct EnvoyCanary {
    pub address: SocketAddr,
    #[serde(default = "host")]
    pub host: String,
    #[serde(default = "uri")]
    pub uri: String,
    #[serde(default)]
    pub allowed_addresses: Vec<IpAddr>,
}

fn host() -> String {
    "glacis.invalid".to_owned()
}

fn uri() -> String {
    CRS_CANARY.to_owned()
}

impl EnvoyCanary {
    /// Whether it is of this machine, or somebody has said twice that it is meant.
    pub(super) fn is_allowed(&self) -> bool {
        self.address.ip().is_loopback() || self.allowed_addresses.contains(&self.address.ip())
    }

    /// Whether host and path stay where they are put in a request.
    pub(super) fn is_well_formed(&self) -> bool {
        let plain =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
        plain(&self.host) && plain(&self.uri) && self.uri.starts_with('/')
    }
}
