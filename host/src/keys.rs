//! The configuration keys of a profile, once: they stand at the top of a host's file for its default profile, and below
//! `profiles` for others.

use std::{collections::BTreeMap, path::Path};

use glacis_service::config::ensure;
use serde::Deserialize;

use crate::{ProfileConfig, Response, SecondOpinionConfig, resolve_rules};

/// Profiles that one host may have: each keeps memory of its own.
const PROFILES_MAX: usize = 1_024;

/// The answer to refused requests.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub struct Block {
    pub status: Option<u16>,
    pub html: Option<String>,
    pub content_type: Option<String>,
    pub body: Option<String>,
}

/// Hands the keys of a profile, with their types and defaults, to the macro `$then`, after what it is given.
#[macro_export]
macro_rules! with_profile_keys {
    ($then:ident $($more:tt)*) => {
        $then! {
            $($more)*
            mode: Option<$crate::Mode> = None,
            sample_percent: u8 = 100,
            evaluation: $crate::Evaluation = $crate::Evaluation::InBand,
            out_of_band_profile: Option<String> = None,
            shadow: Option<$crate::ShadowConfig> = None,
            base: bool = true,
            setup: String = String::new(),
            crs: Option<std::path::PathBuf> = None,
            defaults: $crate::CrsDefaults = $crate::CrsDefaults::Glacis,
            rules: Vec<String> = Vec::new(),
            directives: String = String::new(),
            paranoia: Option<u8> = None,
            detection_paranoia: Option<u8> = None,
            inbound_threshold: Option<u32> = None,
            outbound_threshold: Option<u32> = None,
            scoring: $crate::ScoringConfig = $crate::ScoringConfig::default(),
            exclusions: Vec<$crate::ExclusionConfig> = Vec::new(),
            expired_exclusions: $crate::ExpiredExclusions = $crate::ExpiredExclusions::Drop,
            canary: Option<String> = None,
            limits: $crate::LimitsConfig = $crate::LimitsConfig::default(),
            request_body_bytes_max: Option<usize> = None,
            oversized_body: $crate::OversizedBody = $crate::OversizedBody::Reject,
            body_overflow: $crate::BodyOverflow = $crate::BodyOverflow::Reject,
            late: $crate::Late = $crate::Late::Reject,
            grpc: $crate::Grpc = $crate::Grpc::Inspect,
            grpc_descriptors: Option<std::path::PathBuf> = None,
            graphql: $crate::GraphqlConfig = $crate::GraphqlConfig::default(),
            websocket: $crate::WebsocketConfig = $crate::WebsocketConfig::default(),
            event_stream: $crate::EventStreamConfig = $crate::EventStreamConfig::default(),
            openapi: $crate::OpenApiConfig = $crate::OpenApiConfig::default(),
            response: $crate::Response = $crate::Response::Off,
            trusted_hops: usize = 0,
            block: $crate::Block = $crate::Block::default(),
        }
    };
}

/// Declares the configuration of a host: its own keys, with their types and defaults, beside those of profiles.
///
/// The type has, for the profiles, `keys`, `keys_of`, `set_keys` and `profile_names`.
#[macro_export]
macro_rules! declare_configuration {
    ($(#[$meta:meta])* pub struct $name:ident { $($own:ident: $own_type:ty = $own_default:expr,)* }) => {
        use $crate::declare_configuration_with_keys;
        $crate::with_profile_keys! {
            declare_configuration_with_keys
            { $(#[$meta])* pub struct $name { $($own: $own_type = $own_default,)* } }
        }
    };
}

/// The part of [`declare_configuration!`] that knows the keys of profiles.
#[doc(hidden)]
#[macro_export]
macro_rules! declare_configuration_with_keys {
    (
        { $(#[$meta:meta])* pub struct $name:ident { $($own:ident: $own_type:ty = $own_default:expr,)* } }
        $($key:ident: $type:ty = $default:expr,)*
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, ::serde::Deserialize, PartialEq)]
        #[serde(default, deny_unknown_fields)]
        #[expect(missing_docs, reason = "the documented file is the one place")]
        pub struct $name {
            pub profile: String,
            pub profiles: std::collections::BTreeMap<String, $crate::ProfileConfig>,
            pub routes: std::collections::BTreeMap<String, String>,
            pub unknown_profile: $crate::UnknownProfile,
            $(pub $key: $type,)*
            $(pub $own: $own_type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    profile: "default".to_owned(),
                    profiles: std::collections::BTreeMap::new(),
                    routes: std::collections::BTreeMap::new(),
                    unknown_profile: $crate::UnknownProfile::Default,
                    $($key: $default,)*
                    $($own: $own_default,)*
                }
            }
        }

        impl $name {
            /// The keys of the default profile: those at the top of the file.
            #[must_use]
            pub fn keys(&self) -> $crate::ProfileKeys {
                $crate::ProfileKeys {
                    profile: self.profile.clone(),
                    $($key: self.$key.clone(),)*
                }
            }

            /// The keys of one profile: those at the top of the file, with what the profile sets instead. The name of
            /// the default profile, or one that does not exist, returns the top of the file.
            #[must_use]
            pub fn keys_of(&self, name: &str) -> $crate::ProfileKeys {
                self.keys().of_profile(name, &self.profiles)
            }

            /// Sets the keys at the top of the file.
            pub fn set_keys(&mut self, keys: $crate::ProfileKeys) {
                self.profile = keys.profile;
                $(self.$key = keys.$key;)*
            }

            /// The names of all profiles, the default one first.
            pub fn profile_names(&self) -> impl Iterator<Item = &str> {
                [self.profile.as_str()].into_iter().chain(self.profiles.keys().map(String::as_str))
            }
        }
    };
}

/// Declares the keys of one profile.
macro_rules! declare_keys {
    ($($key:ident: $type:ty = $default:expr,)*) => {
        /// The keys of one profile.
        #[derive(Clone, Debug, PartialEq)]
        #[expect(missing_docs, reason = "the documented file is the one place")]
        pub struct ProfileKeys {
            pub profile: String,
            $(pub $key: $type,)*
        }
    };
}

with_profile_keys!(declare_keys);

impl ProfileKeys {
    /// These keys with what the profile `name` sets instead.
    #[must_use]
    pub fn of_profile(mut self, name: &str, profiles: &BTreeMap<String, ProfileConfig>) -> Self {
        if let Some(profile) = profiles.get(name) {
            name.clone_into(&mut self.profile);
            profile.apply(&mut self);
            profile.leave_out_itself(&mut self);
        }
        self
    }

    /// What every profile may have of its own and makes no sense, as key and message.
    ///
    /// # Errors
    /// The first such key.
    pub fn check(&self) -> Result<(), (&'static str, &'static str)> {
        ensure(
            self.crs.is_some() || !self.rules.is_empty() || !self.directives.trim().is_empty(),
            "rules",
            "there are no rules: name a folder in `crs` or files in `rules`, or write SecLang in \
             `directives`",
        )?;
        ensure(
            self.base || self.crs.is_none(),
            "base",
            "the Core Rule Set needs the base configuration: remove `base: false`",
        )?;
        ensure(self.sample_percent <= 100, "sample_percent", "write a number from 0 to 100")?;
        ensure(
            self.shadow.as_ref().is_none_or(|shadow| (1..=100).contains(&shadow.percent)),
            "shadow.percent",
            "write a number from 1 to 100",
        )?;
        let is_level = |level: Option<u8>| level.is_none_or(|level| (1..=4).contains(&level));
        ensure(is_level(self.paranoia), "paranoia", "write a level from 1 to 4, or null")?;
        ensure(
            is_level(self.detection_paranoia)
                && (self.detection_paranoia.is_none() || self.detection_paranoia >= self.paranoia),
            "detection_paranoia",
            "write a level from 1 to 4 that is not below `paranoia`, or null",
        )?;
        ensure(
            self.canary.as_ref().is_none_or(|uri| uri.starts_with('/')),
            "canary",
            "write a path with a query, such as /?q=attack, or null",
        )?;
        for (key, threshold) in [
            ("inbound_threshold", self.inbound_threshold),
            ("outbound_threshold", self.outbound_threshold),
        ] {
            ensure(threshold != Some(0), key, "everything would be refused: write 1 or more")?;
        }
        ensure(
            self.grpc_descriptors.as_deref().is_none_or(is_plain_path),
            "grpc_descriptors",
            "write a path without quotation marks, backslashes and line breaks",
        )?;
        if let Some(problem) = self.graphql.problem().or_else(|| self.websocket.problem()) {
            return Err(problem);
        }
        let inspects_responses = self.response != Response::Off;
        if let Some(problem) = self.event_stream.problem(inspects_responses) {
            return Err(problem);
        }
        if let Some(problem) = self.openapi.problem() {
            return Err(problem);
        }
        ensure(
            self.scoring.second_opinion.as_ref().is_none_or(SecondOpinionConfig::has_threshold),
            "scoring.second_opinion.threshold",
            "write a number above 0, at most 100, or null for that of the weights",
        )?;
        ensure(
            self.block.status.is_none_or(|status| (400..=599).contains(&status)),
            "block.status",
            "not a status for a refusal: write one from 400 to 599, or null for that of the rule",
        )?;
        ensure(
            self.block.body.is_some() || self.block.content_type.is_none(),
            "block.content_type",
            "there is no body of that type: write one in block.body",
        )
    }

    /// Makes paths relative to `folder`.
    pub fn resolve(&mut self, folder: &Path) {
        resolve_rules(folder, &mut self.rules);
        if let Some(crs) = &mut self.crs {
            *crs = folder.join(&*crs);
        }
        if let Some(descriptors) = &mut self.grpc_descriptors {
            *descriptors = folder.join(&*descriptors);
        }
        self.openapi.resolve(folder);
        self.scoring.resolve(folder);
    }
}

/// Whether a path can stand in SecLang as it is.
fn is_plain_path(path: &Path) -> bool {
    path.to_str().is_some_and(|path| !path.contains(['"', '\\', '\n', '\r']))
}

/// Checks the keys of all profiles, and the names by which they are used.
///
/// # Errors
/// The first key that makes no sense, with a message.
pub fn check_profiles(
    top: &ProfileKeys,
    profiles: &BTreeMap<String, ProfileConfig>,
    routes: &BTreeMap<String, String>,
) -> Result<(), (String, String)> {
    let own = |(key, message): (&str, &str)| (key.to_owned(), message.to_owned());
    ensure(
        profiles.len() < PROFILES_MAX,
        "profiles",
        "there are too many: at most 1,024, the default one included",
    )
    .map_err(own)?;
    top.check().map_err(own)?;
    let of_profile = |name: &str| top.clone().of_profile(name, profiles);
    for name in profiles.keys() {
        if *name == top.profile {
            let message = "the top of the file is the profile of this name: choose another";
            return Err((format!("profiles.{name}"), message.to_owned()));
        }
        let in_profile =
            |(key, message): (&str, &str)| (format!("profiles.{name}.{key}"), message.to_owned());
        of_profile(name).check().map_err(in_profile)?;
    }
    let known = |name: &String| *name == top.profile || profiles.contains_key(name);
    for name in [&top.profile].into_iter().chain(profiles.keys()) {
        let keys = of_profile(name);
        for (key, other) in [
            ("out_of_band_profile", keys.out_of_band_profile.as_ref()),
            ("shadow.profile", keys.shadow.as_ref().map(|shadow| &shadow.profile)),
        ] {
            let message = match other {
                Some(other) if other == name => "it is the profile itself: name another",
                Some(other) if !known(other) => "there is no profile of this name",
                _ => continue,
            };
            let place = if *name == top.profile { "" } else { &format!("profiles.{name}.") };
            return Err((format!("{place}{key}"), message.to_owned()));
        }
    }
    match routes.iter().find(|(_, name)| !known(name)) {
        Some((route, name)) => {
            Err((format!("routes.{route}"), format!("there is no profile `{name}`")))
        }
        None => Ok(()),
    }
}
