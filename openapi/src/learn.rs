//! A document derived from requests that were recorded.
//!
//! The document of the traffic is what enough requests of enough clients show: a path, an operation, a parameter or a
//! member of a body that fewer have shown is left out, so that a client alone cannot declare anything. The outcome
//! depends on the requests and on nothing else, not even on their order, as long as no bound is reached.

mod paths;
mod values;
mod write;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::{
    json,
    limits::Limits,
    media_type::MediaType,
    parameter::{decoded, pairs},
    path::percent_decode,
};
use paths::Node;
pub(crate) use values::Support;
use values::{Texts, Values};

/// How much evidence is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LearnOptions {
    /// Requests that show a path, an operation, a parameter or a member.
    pub requests_min: u64,
    /// Clients that show it, where the input has more than one.
    pub clients_min: u64,
}

impl Default for LearnOptions {
    fn default() -> Self {
        Self { requests_min: 3, clients_min: 2 }
    }
}

/// A request to learn from.
#[derive(Clone, Copy, Debug)]
pub struct Recorded<'r> {
    /// Who has sent it.
    pub client: &'r str,
    /// The method.
    pub method: &'r [u8],
    /// Path and query, as sent.
    pub target: &'r [u8],
    /// Header fields.
    pub headers: &'r [(&'r [u8], &'r [u8])],
    /// The body.
    pub body: &'r [u8],
}

/// Operations that are kept. Requests of further ones are left out, and counted.
const OPERATIONS_MAX: usize = 10_000;

/// Parameters of an operation that are kept.
const PARAMETERS_MAX: usize = 128;

/// Media types of an operation that are kept.
const MEDIA_TYPES_MAX: usize = 8;

/// What requests show of one operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observed {
    support: Support,
    query: BTreeMap<String, Texts>,
    bodies: BTreeMap<String, Body>,
    with_body: u64,
}

#[derive(Clone, Debug)]
enum Body {
    Json(Values),
    Form(Support, BTreeMap<String, Texts>),
    Other(Support),
}

/// Learns from one request after the other.
#[derive(Debug)]
pub struct ApiLearner {
    options: LearnOptions,
    root: Node,
    clients: Support,
    operations: usize,
    left_out: u64,
}

/// A document, and what it was made from.
#[derive(Debug)]
pub struct LearnedApi {
    document: Value,
    /// Requests that were learned from.
    pub requests: u64,
    /// Requests that are ambiguous, malformed or beyond a bound.
    pub left_out: u64,
    /// Operations in the document.
    pub operations: usize,
}

impl LearnedApi {
    /// The document as YAML.
    #[must_use]
    pub fn yaml(&self) -> String {
        write::yaml(&self.document)
    }
}

/// What one request shows.
struct Shown {
    query: Vec<(String, String)>,
    body: Option<(String, ShownBody)>,
}

enum ShownBody {
    Json(Value),
    Form(Vec<(String, String)>),
    Other,
}

impl ApiLearner {
    /// A learner that has seen nothing.
    #[must_use]
    pub fn new(options: LearnOptions) -> Self {
        Self {
            options,
            root: Node::default(),
            clients: Support::default(),
            operations: 0,
            left_out: 0,
        }
    }

    /// Learns from a request. One that servers could read differently is left out.
    pub fn observe(&mut self, request: &Recorded<'_>) {
        if self.try_observe(request).is_none() {
            self.left_out += 1;
        }
    }

    fn try_observe(&mut self, request: &Recorded<'_>) -> Option<()> {
        let target = request.target;
        let end = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
        let (path, query) = target.split_at(end);
        let segments = paths::segments(path)?;
        let method = core::str::from_utf8(request.method).ok()?.to_ascii_lowercase();
        let is_known = ["get", "put", "post", "delete", "options", "head", "patch", "trace"]
            .contains(&&*method);
        if !is_known || request.method.iter().any(u8::is_ascii_lowercase) {
            return None;
        }
        let shown = shown(request, query.strip_prefix(b"?").unwrap_or(query))?;
        let operations = self.root.leaf(&segments);
        if !operations.contains_key(&method) {
            if self.operations >= OPERATIONS_MAX {
                return None;
            }
            self.operations += 1;
        }
        self.clients.add(request.client);
        operations.entry(method).or_default().add(shown, request.client);
        Some(())
    }

    /// The document of what was seen.
    #[must_use]
    pub fn learn(self) -> LearnedApi {
        let clients_min = match self.clients.clients() {
            0 | 1 => 1,
            _ => self.options.clients_min,
        };
        let needed = LearnOptions { clients_min, ..self.options };
        let mut paths = Map::new();
        let mut operations = 0;
        for found in self.root.paths(needed) {
            let mut item = Map::new();
            for (method, observed) in &found.operations {
                if observed.support.is_enough(needed) {
                    item.insert(method.clone(), observed.operation(needed));
                    operations += 1;
                }
            }
            if item.is_empty() {
                continue;
            }
            if !found.parameters.is_empty() {
                item.insert("parameters".to_owned(), Value::Array(found.parameters));
            }
            paths.insert(found.template, Value::Object(item));
        }
        let document = json!({
            "openapi": "3.1.1",
            "info": { "title": "Learned from traffic", "version": "1" },
            "paths": paths,
        });
        let requests = self.clients.requests();
        LearnedApi { document, requests, left_out: self.left_out, operations }
    }
}

/// What a request shows; `None` where it is ambiguous.
fn shown(request: &Recorded<'_>, query: &[u8]) -> Option<Shown> {
    let limits = Limits::default();
    let texts = |text: &[u8]| -> Option<Vec<(String, String)>> {
        let pairs = pairs(text, limits.pairs_max).ok()?;
        let text =
            |pair: &crate::parameter::Pair| Some((pair.name.clone(), decoded(&pair.raw).ok()?));
        pairs.iter().map(text).collect()
    };
    let query = texts(query)?;
    if request.body.is_empty() {
        return Some(Shown { query, body: None });
    }
    let mut types = request.headers.iter();
    let media_type = types.find(|(name, _)| name.eq_ignore_ascii_case(b"content-type"));
    let media_type = core::str::from_utf8(media_type?.1).ok().and_then(MediaType::parse)?;
    let body = if media_type.is_json() {
        ShownBody::Json(json::parse(request.body, &limits).ok()?)
    } else if media_type.is_form() {
        ShownBody::Form(texts(request.body)?)
    } else {
        ShownBody::Other
    };
    Some(Shown { query, body: Some((format!("{}/{}", media_type.kind, media_type.subtype), body)) })
}

/// Counts texts by name.
fn add_texts(known: &mut BTreeMap<String, Texts>, pairs: Vec<(String, String)>, client: &str) {
    let mut by_name: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (name, text) in pairs {
        by_name.entry(name).or_default().push(text);
    }
    for (name, texts) in by_name {
        if known.len() < PARAMETERS_MAX || known.contains_key(&name) {
            known.entry(name).or_default().add(&texts, client);
        }
    }
}

impl Observed {
    fn add(&mut self, shown: Shown, client: &str) {
        self.support.add(client);
        add_texts(&mut self.query, shown.query, client);
        let Some((media_type, body)) = shown.body else { return };
        self.with_body += 1;
        if self.bodies.len() >= MEDIA_TYPES_MAX && !self.bodies.contains_key(&media_type) {
            return;
        }
        let known = self.bodies.entry(media_type).or_insert_with(|| match body {
            ShownBody::Json(_) => Body::Json(Values::default()),
            ShownBody::Form(_) => Body::Form(Support::default(), BTreeMap::new()),
            ShownBody::Other => Body::Other(Support::default()),
        });
        match (known, body) {
            (Body::Json(values), ShownBody::Json(value)) => values.add(&value, client),
            (Body::Form(support, fields), ShownBody::Form(pairs)) => {
                support.add(client);
                add_texts(fields, pairs, client);
            }
            (Body::Other(support), _) => support.add(client),
            // The same media type is always of the same kind.
            (Body::Json(_) | Body::Form(..), _) => {}
        }
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.support.merge(&other.support);
        self.with_body += other.with_body;
        for (name, texts) in &other.query {
            self.query.entry(name.clone()).or_default().merge(texts);
        }
        for (media_type, body) in &other.bodies {
            match (self.bodies.get_mut(media_type), body) {
                (None, body) => drop(self.bodies.insert(media_type.clone(), body.clone())),
                (Some(Body::Json(values)), Body::Json(other)) => values.merge(other),
                (Some(Body::Form(support, fields)), Body::Form(more, others)) => {
                    support.merge(more);
                    for (name, texts) in others {
                        fields.entry(name.clone()).or_default().merge(texts);
                    }
                }
                (Some(Body::Other(support)), Body::Other(other)) => support.merge(other),
                (Some(_), _) => {}
            }
        }
    }

    pub(crate) const fn support(&self) -> &Support {
        &self.support
    }

    fn operation(&self, needed: LearnOptions) -> Value {
        let mut operation = Map::new();
        let parameter = |(name, texts): (&String, &Texts)| {
            let mut parameter = Map::new();
            parameter.insert("name".to_owned(), json!(name));
            parameter.insert("in".to_owned(), json!("query"));
            if texts.support.requests() == self.support.requests() {
                parameter.insert("required".to_owned(), json!(true));
            }
            parameter.insert("schema".to_owned(), texts.schema());
            Value::Object(parameter)
        };
        let known = self.query.iter().filter(|(_, texts)| texts.support.is_enough(needed));
        let parameters: Vec<Value> = known.map(parameter).collect();
        if !parameters.is_empty() {
            operation.insert("parameters".to_owned(), Value::Array(parameters));
        }
        let mut content = Map::new();
        for (media_type, body) in &self.bodies {
            let media = match body {
                Body::Json(values) if values.support.is_enough(needed) => {
                    json!({ "schema": values.schema(needed) })
                }
                Body::Form(support, fields) if support.is_enough(needed) => {
                    json!({ "schema": form(support, fields, needed) })
                }
                Body::Other(support) if support.is_enough(needed) => json!({}),
                Body::Json(_) | Body::Form(..) | Body::Other(_) => continue,
            };
            content.insert(media_type.clone(), media);
        }
        if !content.is_empty() {
            let required = self.with_body == self.support.requests();
            operation.insert(
                "requestBody".to_owned(),
                json!({ "required": required, "content": content }),
            );
        }
        Value::Object(operation)
    }
}

fn form(support: &Support, fields: &BTreeMap<String, Texts>, needed: LearnOptions) -> Value {
    let known: Vec<_> =
        fields.iter().filter(|(_, texts)| texts.support.is_enough(needed)).collect();
    let always = known.iter().filter(|(_, texts)| texts.support.requests() == support.requests());
    let required: Vec<&str> = always.map(|(name, _)| name.as_str()).collect();
    let properties: Map<String, Value> =
        known.iter().map(|(name, texts)| ((*name).clone(), texts.schema())).collect();
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": fields.len() >= PARAMETERS_MAX,
    })
}

/// The text of a segment of a path; `None` where servers could read it differently.
fn segment(raw: &[u8]) -> Option<String> {
    let text = String::from_utf8(percent_decode(raw)?).ok()?;
    let is_plain = !text.contains(['/', '\\', ';']) && !text.chars().any(char::is_control);
    (is_plain && text != "." && text != "..").then_some(text)
}
