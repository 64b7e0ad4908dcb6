//! `discriminator`: which of the schemas of `oneOf` or `anyOf` a value has to meet is what one of its members says.
//!
//! Schemas of a choice are often alike but for that member, so that by `oneOf` alone a value would meet several.
//!
//! Source: OpenAPI 3.1.1, "Discriminator Object".

use serde_json::{Map, Value, json};

use super::Schemas;
use crate::error::{DocumentError, Place};

/// Replaces `oneOf` or `anyOf` by a choice, where the discriminator and the references of all choices allow it.
pub(super) fn apply(
    schemas: &mut Schemas<'_>,
    schema: &Map<String, Value>,
    out: &mut Map<String, Value>,
    place: &Place<'_>,
) -> Result<(), DocumentError> {
    let Some(discriminator) = schema.get("discriminator") else { return Ok(()) };
    let Some(property) = discriminator.get("propertyName").and_then(Value::as_str) else {
        return Err(DocumentError::new(place, "a discriminator needs `propertyName`"));
    };
    let keyword = ["oneOf", "anyOf"].into_iter().find(|keyword| schema.contains_key(*keyword));
    let Some(keyword) = keyword else { return Ok(()) };
    let choices = schema.get(keyword).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let targets: Option<Vec<&str>> =
        choices.iter().map(|choice| choice.get("$ref").and_then(Value::as_str)).collect();
    let Some(targets) = targets else { return Ok(()) };
    let mapping: Vec<(&str, &str)> = discriminator
        .get("mapping")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(value, target)| Some((value.as_str(), target.as_str()?)))
        .collect();
    let (mut all, mut branches) = (Vec::new(), Vec::new());
    for target in targets {
        let name = target.rsplit('/').next().unwrap_or(target);
        let is_meant = |(_, mapped): &&(&str, &str)| *mapped == target || *mapped == name;
        let mut values: Vec<&str> =
            mapping.iter().filter(is_meant).map(|(value, _)| *value).collect();
        if values.is_empty() {
            values.push(name);
        }
        all.extend_from_slice(&values);
        branches.push(json!({
            "if": { "properties": { property: { "enum": values } } },
            "then": { "$ref": schemas.reference(target, place)? },
        }));
    }
    out.remove(keyword);
    let choice = json!({
        "type": "object",
        "required": [property],
        "properties": { property: { "enum": all } },
        "allOf": branches,
    });
    match out.get_mut("allOf") {
        Some(Value::Array(list)) => list.push(choice),
        _ => {
            out.insert("allOf".to_owned(), json!([choice]));
        }
    }
    Ok(())
}
