//! What is examined.

use crate::{
    envoy::Envoy,
    rules::{LoadedRules, Refused},
    service::Service,
    settings::Settings,
};

/// What is known of an installation. What is missing leaves its checks out.
#[derive(Clone, Debug, Default)]
pub struct Evidence<'a> {
    /// Seconds since 1970.
    pub now: u64,
    /// The configuration of ext-proc.
    pub settings: Option<&'a Settings>,
    /// The rules of each profile.
    pub rules: &'a [LoadedRules],
    /// The release of CRS that this version is tested with.
    pub crs_tested: Option<&'a str>,
    /// Rules that do not load.
    pub refused: Option<&'a Refused>,
    /// Envoy's configuration.
    pub envoy: Option<&'a Envoy>,
    /// Running services: replicas of one.
    pub services: &'a [Service],
}
