//! The section `profiles`: what a profile says instead of the top of the file.

use std::path::{Path, PathBuf};

use glacis_engine::RuleEngine;
use serde::{Deserialize, Deserializer};

use crate::{
    Block, BodyOverflow, CrsDefaults, Evaluation, EventStreamConfig, ExclusionConfig,
    ExpiredExclusions, GraphqlConfig, Grpc, Late, LimitsChange, OpenApiConfig, OversizedBody,
    ProfileKeys, Response, ScoringConfig, ShadowConfig, WebsocketConfig, words::word,
};

/// Whether rules run, and may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the documented file is the one place")]
pub enum Mode {
    On,
    Detection,
    Off,
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        word(deserializer, &[("on", Self::On), ("detection", Self::Detection), ("off", Self::Off)])
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Mode {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Mode".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "enum": ["on", "detection", "off", true, false] })
    }
}

impl From<Mode> for RuleEngine {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::On => Self::On,
            Mode::Detection => Self::DetectionOnly,
            Mode::Off => Self::Off,
        }
    }
}

/// A key that is there, perhaps as `null`, or is not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Given<T> {
    /// The key is not there.
    #[default]
    Not,
    /// It is there, with this value.
    As(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        T::deserialize(deserializer).map(Self::As)
    }
}

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Given<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

impl<T: Clone> Given<T> {
    fn set(&self, place: &mut T) {
        if let Self::As(value) = self {
            place.clone_from(value);
        }
    }
}

/// Declares the keys that take the place of those at the top of the file.
macro_rules! keys {
    ($($field:ident: $type:ty),* $(,)?) => {
        /// What a profile says instead of the top of the file. The keys are those of [`ProfileKeys`].
        #[derive(Clone, Debug, Default, Deserialize, PartialEq)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default, deny_unknown_fields)]
        #[expect(missing_docs, reason = "the documented file is the one place")]
        pub struct ProfileConfig {
            $(pub $field: Given<$type>,)*
            pub limits: LimitsChange,
            pub exclusions: Vec<ExclusionConfig>,
        }

        impl ProfileConfig {
            /// Makes the configuration at the top of the file that of this profile.
            pub(crate) fn apply(&self, config: &mut ProfileKeys) {
                $(self.$field.set(&mut config.$field);)*
                self.limits.apply(&mut config.limits);
                config.exclusions.extend(self.exclusions.iter().cloned());
            }
        }
    };
}

keys!(
    mode: Option<Mode>,
    sample_percent: u8,
    evaluation: Evaluation,
    out_of_band_profile: Option<String>,
    shadow: Option<ShadowConfig>,
    base: bool,
    setup: String,
    crs: Option<PathBuf>,
    defaults: CrsDefaults,
    rules: Vec<String>,
    directives: String,
    paranoia: Option<u8>,
    detection_paranoia: Option<u8>,
    inbound_threshold: Option<u32>,
    outbound_threshold: Option<u32>,
    scoring: ScoringConfig,
    expired_exclusions: ExpiredExclusions,
    canary: Option<String>,
    request_body_bytes_max: Option<usize>,
    oversized_body: OversizedBody,
    body_overflow: BodyOverflow,
    late: Late,
    grpc: Grpc,
    grpc_descriptors: Option<PathBuf>,
    graphql: GraphqlConfig,
    websocket: WebsocketConfig,
    event_stream: EventStreamConfig,
    openapi: OpenApiConfig,
    response: Response,
    trusted_hops: usize,
    block: Block,
);

impl ProfileConfig {
    /// What the top of the file says of this profile as another's second it does not say of itself.
    pub(crate) fn leave_out_itself(&self, config: &mut ProfileKeys) {
        let itself = config.profile.as_str();
        if self.out_of_band_profile == Given::Not
            && config.out_of_band_profile.as_deref() == Some(itself)
        {
            config.out_of_band_profile = None;
        }
        if self.shadow == Given::Not
            && config.shadow.as_ref().is_some_and(|shadow| shadow.profile == itself)
        {
            config.shadow = None;
        }
    }

    /// Makes paths relative to `folder`.
    pub fn resolve(&mut self, folder: &Path) {
        if let Given::As(rules) = &mut self.rules {
            resolve_rules(folder, rules);
        }
        if let Given::As(Some(crs)) = &mut self.crs {
            *crs = folder.join(&*crs);
        }
        if let Given::As(Some(descriptors)) = &mut self.grpc_descriptors {
            *descriptors = folder.join(&*descriptors);
        }
        if let Given::As(openapi) = &mut self.openapi {
            openapi.resolve(folder);
        }
        if let Given::As(scoring) = &mut self.scoring {
            scoring.resolve(folder);
        }
    }
}

/// Makes paths relative to `folder`.
pub fn resolve_rules(folder: &Path, rules: &mut [String]) {
    for rule in rules {
        *rule = folder.join(&*rule).to_string_lossy().into_owned();
    }
}
