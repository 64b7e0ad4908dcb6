//! What one route says of the filter.

use glacis_service::config::parse;
use serde::Deserialize;

/// The configuration of a route: `typed_per_filter_config` with a `DynamicModuleFilterPerRoute`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Route {
    /// The name of the profile. It goes before the route's metadata and the key `routes`.
    pub(crate) profile: Option<String>,
    /// Whether requests of the route are not inspected at all. They get no receipt.
    pub(crate) disabled: bool,
}

impl Route {
    /// Reads it.
    ///
    /// # Errors
    /// When it is no YAML or JSON, or has a key that does not exist.
    pub(crate) fn new(text: &[u8]) -> Result<Self, String> {
        let text = core::str::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
        parse(text).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        let profile = |name: &str| Route { profile: Some(name.to_owned()), disabled: false };
        let rows = [
            ("", Some(Route::default())),
            (r#"{"profile":"api"}"#, Some(profile("api"))),
            ("profile: api\n", Some(profile("api"))),
            (r#"{"disabled":true}"#, Some(Route { profile: None, disabled: true })),
            (r#"{"profil":"api"}"#, None),
            ("{", None),
        ];
        for (text, expected) in rows {
            assert_eq!(Route::new(text.as_bytes()).ok(), expected, "{text}");
        }
        assert!(Route::new(b"\xff").is_err());
    }
}
