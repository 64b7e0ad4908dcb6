//! The comparison of values with schemas, in a bounded number of steps.
//!
//! A schema that offers a choice within itself takes twice as long for each level of a value. The engine for JSON
//! Schema has no limit for that, so each schema counts the steps that are taken before anything else in it is asked,
//! and holds for nothing once there are too many.

use core::cell::Cell;

use jsonschema::{Draft, Keyword, PatternOptions, ValidationError, ValidationOptions, Validator};
use serde_json::{Map, Value};

use crate::{
    error::DocumentError,
    limits::Limits,
    schema::{Converted, STEPS},
};

thread_local! {
    /// Steps that the comparison on this thread may still take. One comparison is never inside of another.
    static LEFT: Cell<u64> = const { Cell::new(0) };
    static REACHED: Cell<bool> = const { Cell::new(false) };
}

/// Starts the comparison of a request.
pub(crate) fn start(limits: &Limits) {
    LEFT.set(limits.steps_max);
    REACHED.set(false);
}

/// Takes steps; `false` if there are not as many.
pub(crate) fn take(steps: u64) -> bool {
    match LEFT.get().checked_sub(steps) {
        Some(left) => {
            LEFT.set(left);
            true
        }
        None => {
            LEFT.set(0);
            REACHED.set(true);
            false
        }
    }
}

/// The schemas of a document, compiled.
#[derive(Debug)]
pub(crate) struct Schema {
    /// Decides.
    validator: Validator,
    /// Finds the words for what the other has decided. The other one cannot: the message of a choice has those of all
    /// its schemas, however many there are.
    reporter: Validator,
}

/// What a value is to a schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Validity {
    Valid,
    /// The message names places and expectations, and no value.
    Invalid(String),
    /// All steps are taken.
    Limit,
}

impl Schema {
    pub(crate) fn compile(schemas: &Converted, limits: &Limits) -> Result<Self, DocumentError> {
        let build = |root: &Value| {
            let validator = options(limits).build(root);
            validator.map_err(|error| {
                let place = match error.instance_path().to_string() {
                    path if path.is_empty() => error.schema_path().to_string(),
                    path => path,
                };
                DocumentError::of_text(schemas.origin(&place), error.to_string())
            })
        };
        Ok(Self { validator: build(&schemas.root)?, reporter: build(&schemas.plain)? })
    }

    /// Compares a value with the schema of a parameter or a body.
    pub(crate) fn judge(&self, entry: &str, value: Value) -> Validity {
        let mut wrapped = Map::new();
        wrapped.insert(entry.to_owned(), value);
        let wrapped = Value::Object(wrapped);
        let is_valid = self.validator.is_valid(&wrapped);
        if REACHED.get() {
            return Validity::Limit;
        }
        if is_valid {
            return Validity::Valid;
        }
        let error = self.reporter.validate(&wrapped).err();
        // A message is no reason to report a limit.
        let is_cut = REACHED.replace(false);
        let message = match error {
            Some(error) if !is_cut => message(&error),
            Some(_) | None => {
                "it meets no choice of the schema, or has members that are not declared".to_owned()
            }
        };
        Validity::Invalid(message)
    }
}

/// The place in the value, and what was expected there.
fn message(error: &ValidationError<'_>) -> String {
    let what = error.masked().to_string();
    let path = error.instance_path().to_string();
    // The first name is that of the entry.
    let path = path.get(1..).and_then(|path| path.find('/').and_then(|at| path.get(at..)));
    match path {
        Some(path) => format!("{path}: {what}"),
        None => what,
    }
}

fn options(limits: &Limits) -> ValidationOptions<'static> {
    let patterns = PatternOptions::regex()
        .size_limit(limits.pattern_bytes_max)
        .dfa_size_limit(limits.pattern_bytes_max);
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(patterns)
        .offline()
        .should_validate_formats(true)
        .should_ignore_unknown_formats(true)
        // A client would have its pattern compiled.
        .with_format("regex", |_: &str| true)
        .with_keyword(STEPS, |_: &Map<String, Value>, deep: &Value, _| {
            Ok(Box::new(Steps { is_deep: *deep == Value::Bool(true) })
                as Box<dyn for<'i> Keyword<'i>>)
        })
}

/// The keyword that counts.
struct Steps {
    /// Whether the schema looks into all of the value, however deep.
    is_deep: bool,
}

impl Steps {
    fn take(&self, value: &Value) -> bool {
        take(match self.is_deep {
            true => deep_cost(value),
            false => cost(value),
        })
    }
}

impl<'i> Keyword<'i> for Steps {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        match self.is_valid(instance) {
            true => Ok(()),
            false => Err(ValidationError::custom("all steps are taken")),
        }
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        self.take(instance)
    }
}

fn cost(value: &Value) -> u64 {
    let size = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len() / 32,
        Value::Array(array) => array.len(),
        Value::Object(object) => object.len(),
    };
    1 + size as u64
}

fn deep_cost(value: &Value) -> u64 {
    let inner: u64 = match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
        Value::Array(array) => array.iter().map(deep_cost).sum(),
        Value::Object(object) => object.values().map(deep_cost).sum(),
    };
    cost(value) + inner
}
