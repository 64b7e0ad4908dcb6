//! A compiled document.

use std::collections::BTreeMap;

use crate::{
    limits::Limits,
    media_type::MediaType,
    parameter::{Location, Written},
    path::Templates,
    shape::Shape,
    validate::Schema,
};

/// An OpenAPI document that requests are compared with. It is immutable and shared by threads.
#[derive(Debug)]
pub struct Document {
    pub(crate) limits: Limits,
    pub(crate) templates: Templates,
    pub(crate) items: Vec<PathItem>,
    /// Names of API keys in query strings.
    pub(crate) query_keys: Vec<String>,
    pub(crate) schema: Schema,
}

impl Document {
    /// The number of operations.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.items.iter().map(|item| item.operations.len()).sum()
    }
}

/// The operations of a path, by method in capitals.
#[derive(Debug)]
pub(crate) struct PathItem {
    pub(crate) template: String,
    /// The names of the parameters of the template, in their order.
    pub(crate) names: Vec<String>,
    pub(crate) operations: BTreeMap<String, Operation>,
}

#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) parameters: Vec<Parameter>,
    pub(crate) body: Option<Body>,
}

#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub(crate) location: Location,
    pub(crate) is_required: bool,
    pub(crate) may_be_empty: bool,
    pub(crate) written: Written,
    /// Whether the value is JSON, by `content`.
    pub(crate) is_json: bool,
    pub(crate) entry: String,
}

#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) is_required: bool,
    pub(crate) contents: Vec<Content>,
}

/// A media type that a body may have.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) media_type: MediaType,
    pub(crate) entry: Option<String>,
    pub(crate) shape: Shape,
    /// The fields of a form.
    pub(crate) fields: Vec<Written>,
}
