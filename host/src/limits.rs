//! The section `limits`.

use glacis_engine::Limits;
use serde::Deserialize;

/// Declares the section `limits` with the engine's names and defaults, so that neither can differ; a
/// limit that the engine has and this list has not is an error of the compiler.
macro_rules! limits {
    ($($field:ident),* $(,)?) => {
        /// Limits where the rules set none: those of [`Limits`].
        #[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default, deny_unknown_fields)]
        #[expect(missing_docs, reason = "described at the fields of `Limits`")]
        pub struct LimitsChange {
            $(pub $field: Option<usize>,)*
        }

        impl LimitsChange {
            /// Sets what it has in `limits`.
            pub(crate) fn apply(&self, limits: &mut LimitsConfig) {
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

glacis_engine::with_limits!(limits);
