//! JSON Schema of a configuration, made of its Rust type: what Helm and editors check before a service reads it.

use schemars::{JsonSchema, generate::SchemaSettings, transform::RecursiveTransform};

/// Returns the schema of `T` as JSON Schema draft 7, as JSON text.
///
/// The schema holds what a value may be and leaves out what tools only show: titles, descriptions, defaults.
///
/// # Errors
/// When the schema cannot be written as JSON.
pub fn json_schema<T: JsonSchema>() -> serde_json::Result<String> {
    let shown = RecursiveTransform(|schema: &mut schemars::Schema| {
        for keyword in ["title", "description", "default", "format"] {
            schema.remove(keyword);
        }
    });
    let settings = SchemaSettings::draft07().with_transform(shown);
    let schema = settings.into_generator().into_root_schema_for::<T>();
    serde_json::to_string_pretty(&schema)
}
