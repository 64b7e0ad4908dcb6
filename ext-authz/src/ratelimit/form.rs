//! The YAML of envoyproxy/ratelimit as it is written, with the places of its parts.

use serde::Deserialize;
use serde_saphyr::Spanned;

type Field<T> = Option<Spanned<T>>;

/// A mapping anywhere in a file.
///
/// There is one type for all of them, since envoyproxy/ratelimit accepts each of these keys in each place
/// and ignores it where it means nothing; here that is a warning. Any other key is an error in both.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Mapping {
    pub(super) domain: Field<String>,
    pub(super) key: Field<String>,
    pub(super) value: Field<String>,
    pub(super) descriptors: Option<Vec<Spanned<Self>>>,
    pub(super) rate_limit: Field<Box<Self>>,
    pub(super) unit: Field<String>,
    pub(super) requests_per_unit: Field<u32>,
    pub(super) unlimited: Field<bool>,
    pub(super) shadow_mode: Field<bool>,
    pub(super) quota_mode: Field<bool>,
    pub(super) name: Field<String>,
    pub(super) replaces: Option<Vec<Spanned<Self>>>,
    pub(super) detailed_metric: Field<bool>,
    pub(super) value_to_metric: Field<bool>,
    pub(super) share_threshold: Field<bool>,
    pub(super) metadata: Field<serde_json::Map<String, serde_json::Value>>,
}

/// The keys that mean something at the top of a file.
pub(super) const ROOT: &[&str] = &["domain", "descriptors"];
/// In a descriptor.
pub(super) const DESCRIPTOR: &[&str] = &[
    "key",
    "value",
    "rate_limit",
    "descriptors",
    "shadow_mode",
    "quota_mode",
    "detailed_metric",
    "value_to_metric",
    "share_threshold",
    "metadata",
];
/// In `rate_limit`.
pub(super) const RATE_LIMIT: &[&str] =
    &["unit", "requests_per_unit", "unlimited", "name", "replaces"];
/// In an element of `replaces`.
pub(super) const REPLACES: &[&str] = &["name"];

impl Mapping {
    /// The keys that are written here and mean nothing at this place, with their lines.
    pub(super) fn misplaced(&self, meant: &[&str]) -> Vec<(&'static str, u64)> {
        let written = [
            ("domain", line(&self.domain)),
            ("key", line(&self.key)),
            ("value", line(&self.value)),
            ("descriptors", first_line(&self.descriptors)),
            ("rate_limit", line(&self.rate_limit)),
            ("unit", line(&self.unit)),
            ("requests_per_unit", line(&self.requests_per_unit)),
            ("unlimited", line(&self.unlimited)),
            ("shadow_mode", line(&self.shadow_mode)),
            ("quota_mode", line(&self.quota_mode)),
            ("name", line(&self.name)),
            ("replaces", first_line(&self.replaces)),
            ("detailed_metric", line(&self.detailed_metric)),
            ("value_to_metric", line(&self.value_to_metric)),
            ("share_threshold", line(&self.share_threshold)),
            ("metadata", line(&self.metadata)),
        ];
        let misplaced = written.into_iter().filter(|(key, _)| !meant.contains(key));
        misplaced.filter_map(|(key, line)| Some((key, line?))).collect()
    }
}

fn line<T>(field: &Field<T>) -> Option<u64> {
    field.as_ref().map(|field| field.referenced.line())
}

fn first_line<T>(list: &Option<Vec<Spanned<T>>>) -> Option<u64> {
    list.as_ref().and_then(|list| list.first()).map(|element| element.referenced.line())
}

/// The text of a field, or an empty one.
pub(super) fn text(field: &Field<String>) -> &str {
    field.as_ref().map_or("", |field| &field.value)
}

/// Whether a field is written and true.
pub(super) fn is_set(field: &Field<bool>) -> bool {
    field.as_ref().is_some_and(|field| field.value)
}

/// The elements of a list, or none.
pub(super) fn elements<T>(list: &Option<Vec<Spanned<T>>>) -> &[Spanned<T>] {
    list.as_deref().unwrap_or_default()
}
