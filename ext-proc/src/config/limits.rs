//! The section `limits`.

use glacis_engine::Limits;
use serde::Deserialize;

/// Declares the section `limits` with the engine's names and defaults, so that neither can differ; a
/// limit that the engine has and this list has not is an error of the compiler.
macro_rules! limits {
    ($($field:ident),* $(,)?) => {
        /// Limits where the rules set none: those of [`Limits`].
        #[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
        #[serde(default, deny_unknown_fields)]
        #[expect(missing_docs, reason = "described at the fields of `Limits`")]
        pub struct LimitsConfig {
            $(pub $field: usize,)*
        }

        impl Default for LimitsConfig {
            fn default() -> Self {
                let Limits { $($field,)* } = Limits::default();
                Self { $($field,)* }
            }
        }

        /// The limits that a profile sets, instead of those at the top of the file.
        #[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
        #[serde(default, deny_unknown_fields)]
        #[expect(missing_docs, reason = "described at the fields of `Limits`")]
        pub struct LimitsChange {
            $(pub $field: Option<usize>,)*
        }

        impl LimitsChange {
            /// Sets what it has in `limits`.
            pub(super) fn apply(&self, limits: &mut LimitsConfig) {
                $(limits.$field = self.$field.unwrap_or(limits.$field);)*
            }
        }

        impl From<&LimitsConfig> for Limits {
            fn from(config: &LimitsConfig) -> Self {
                Self { $($field: config.$field,)* }
            }
        }
    };
}

limits!(
    request_body_bytes_max,
    request_body_no_files_bytes_max,
    decoded_ratio_max,
    content_codings_max,
    response_body_bytes_max,
    arguments_max,
    json_depth_max,
    xml_depth_max,
    xml_nodes_max,
    headers_max,
    cookies_max,
    multipart_parts_max,
    upload_files_max,
    multipart_part_headers_max,
    transform_bytes_max,
    expansion_bytes_max,
    tx_members_max,
    collection_members_max,
    collection_bytes_max,
    matches_per_rule_max,
    match_value_bytes_max,
    matched_rules_max,
    trace_steps_max,
    trace_bytes_max,
    expanded_patterns_max,
    expanded_pattern_bytes_max,
    lookups_max,
    backtrack_steps_max,
    rule_steps_max,
);
