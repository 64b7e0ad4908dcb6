//! How many schemas apply to one and the same value, each through the next: the comparison is recursive, and descends
//! so far for each level of a body.

use std::collections::HashMap;

use serde_json::Value;

use super::place_of;
use crate::error::DocumentError;

/// Keywords whose schemas apply to the value that their own schema applies to.
const SAME_LIST: &[&str] = &["allOf", "anyOf", "oneOf"];
const SAME_ONE: &[&str] = &["not", "if", "then", "else"];

/// Checks all schemas of a root.
///
/// # Errors
/// When a chain is longer than `chain_max`, or a circle.
pub(super) fn check(
    root: &Value,
    pointers: &[String],
    chain_max: usize,
) -> Result<(), DocumentError> {
    let mut chains = Chains { root, pointers, chain_max, known: HashMap::new() };
    for list in ["$defs", "properties"] {
        let Some(Value::Object(schemas)) = root.get(list) else { continue };
        for (name, schema) in schemas {
            chains.check_within(schema, &format!("/{list}/{name}"))?;
        }
    }
    Ok(())
}

struct Chains<'r> {
    root: &'r Value,
    pointers: &'r [String],
    chain_max: usize,
    /// The chain below each definition; `None` while it is looked at.
    known: HashMap<&'r str, Option<usize>>,
}

impl<'r> Chains<'r> {
    fn refuse(&self, location: &str, message: String) -> DocumentError {
        DocumentError::of_text(place_of(location, self.pointers), message)
    }

    /// Checks a schema and all that stand in it. The depth is bounded by that of schemas as written.
    fn check_within(&mut self, value: &'r Value, location: &str) -> Result<(), DocumentError> {
        match value {
            Value::Object(object) => {
                self.chain(value, location)?;
                object.values().try_for_each(|inner| self.check_within(inner, location))
            }
            Value::Array(array) => {
                array.iter().try_for_each(|inner| self.check_within(inner, location))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    fn chain(&mut self, schema: &'r Value, location: &str) -> Result<usize, DocumentError> {
        let Some(object) = schema.as_object() else { return Ok(0) };
        let lists = SAME_LIST.iter().filter_map(|keyword| object.get(*keyword)?.as_array());
        let ones = SAME_ONE.iter().filter_map(|keyword| object.get(*keyword));
        let dependent = object.get("dependentSchemas").and_then(Value::as_object);
        let same: Vec<&'r Value> = lists
            .flatten()
            .chain(ones)
            .chain(dependent.into_iter().flat_map(|named| named.values()))
            .collect();
        let mut longest = 0;
        for inner in same {
            longest = longest.max(1 + self.chain(inner, location)?);
        }
        if let Some(target) = object.get("$ref").and_then(Value::as_str) {
            longest = longest.max(1 + self.definition(target, location)?);
        }
        // A schema before which a step is counted is two schemas.
        if longest > 2 * self.chain_max {
            let message = format!(
                "more than {} schemas apply to one value through each other (`$ref`, `allOf` and the \
                 like)",
                self.chain_max
            );
            return Err(self.refuse(location, message));
        }
        Ok(longest)
    }

    fn definition(&mut self, target: &'r str, location: &str) -> Result<usize, DocumentError> {
        let Some(pointer) = target.strip_prefix('#') else { return Ok(0) };
        match self.known.get(target) {
            Some(Some(known)) => return Ok(*known),
            Some(None) => {
                let message = "a schema applies to a value through itself, without end".to_owned();
                return Err(self.refuse(location, message));
            }
            None => {}
        }
        self.known.insert(target, None);
        let schema = self.root.pointer(pointer).unwrap_or(&Value::Null);
        let chain = self.chain(schema, pointer)?;
        self.known.insert(target, Some(chain));
        Ok(chain)
    }
}
