//! Templates of paths: segments that differ from request to request are parameters.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{LearnOptions, Observed, Support, segment};

/// Names at one place of a path. Where there are more, the segment is a parameter.
const NAMES_MAX: usize = 48;

/// Segments of a path that is learned.
const SEGMENTS_MAX: usize = 32;

/// What a segment that is no name looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    Integer,
    Uuid,
    Date,
    Text,
}

/// What is known of the paths that begin alike.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    names: BTreeMap<String, Self>,
    /// Segments that are parameters, and what they look like.
    parameter: Option<(Box<Self>, Identifier)>,
    operations: BTreeMap<String, Observed>,
}

/// A template with what requests show of it.
pub(super) struct Found {
    pub(super) template: String,
    pub(super) parameters: Vec<Value>,
    pub(super) operations: BTreeMap<String, Observed>,
}

/// The segments of a path; `None` where servers could read it differently.
pub(super) fn segments(path: &[u8]) -> Option<Vec<String>> {
    let path = path.strip_prefix(b"/")?;
    let raw: Vec<&[u8]> = path.split(|&byte| byte == b'/').collect();
    let last = raw.len().checked_sub(1)?;
    let is_whole = raw.iter().take(last).all(|segment| !segment.is_empty());
    if raw.len() > SEGMENTS_MAX || !is_whole {
        return None;
    }
    raw.into_iter().map(segment).collect()
}

fn identifier(text: &str) -> Option<Identifier> {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    let has_digit = text.bytes().any(|byte| byte.is_ascii_digit());
    if is_digits(text) {
        let is_plain = text.len() <= 18 && (text == "0" || !text.starts_with('0'));
        Some(if is_plain { Identifier::Integer } else { Identifier::Text })
    } else if lengths == [8, 4, 4, 4, 12] && parts.iter().all(|part| is_hex(part)) {
        Some(Identifier::Uuid)
    } else if lengths == [4, 2, 2] && parts.iter().all(|part| is_digits(part)) {
        Some(Identifier::Date)
    } else if has_digit && (text.len() >= 16 || (text.len() >= 8 && is_hex(text))) {
        Some(Identifier::Text)
    } else {
        // Templates are written with braces, so that a name with one cannot be written.
        (text.contains(['{', '}', '%', '?', '#']) || !text.is_ascii()).then_some(Identifier::Text)
    }
}

impl Node {
    /// The operations at a path.
    pub(super) fn leaf(&mut self, segments: &[String]) -> &mut BTreeMap<String, Observed> {
        let mut node = self;
        for text in segments {
            node = node.child(text);
        }
        &mut node.operations
    }

    fn child(&mut self, text: &str) -> &mut Self {
        let is_new = !self.names.contains_key(text);
        let kind = identifier(text);
        if kind.is_none() && is_new && self.names.len() >= NAMES_MAX {
            self.generalise();
        }
        let is_name =
            kind.is_none() && (!is_new || self.names.len() < NAMES_MAX) && !self.is_general();
        if is_name {
            return self.names.entry(text.to_owned()).or_default();
        }
        let kind = kind.unwrap_or(Identifier::Text);
        let (node, known) = self.parameter.get_or_insert_with(|| (Box::default(), kind));
        if *known != kind {
            *known = Identifier::Text;
        }
        node
    }

    /// Whether names have become values of a parameter.
    fn is_general(&self) -> bool {
        self.names.is_empty() && matches!(self.parameter, Some((_, Identifier::Text)))
    }

    /// Makes all names values of the parameter.
    fn generalise(&mut self) {
        let names = core::mem::take(&mut self.names);
        let (node, kind) = self.parameter.get_or_insert_with(|| (Box::default(), Identifier::Text));
        *kind = Identifier::Text;
        names.values().for_each(|other| node.merge(other));
    }

    fn merge(&mut self, other: &Self) {
        for (method, observed) in &other.operations {
            self.operations.entry(method.clone()).or_default().merge(observed);
        }
        for (name, node) in &other.names {
            self.names.entry(name.clone()).or_default().merge(node);
        }
        if let Some((node, kind)) = &other.parameter {
            let (mine, known) = self.parameter.get_or_insert_with(|| (Box::default(), *kind));
            mine.merge(node);
            if known != kind {
                *known = Identifier::Text;
            }
        }
    }

    fn support(&self) -> Support {
        let mut support = Support::default();
        self.operations.values().for_each(|observed| support.merge(observed.support()));
        self.names.values().for_each(|node| support.merge(&node.support()));
        if let Some((node, _)) = &self.parameter {
            support.merge(&node.support());
        }
        support
    }

    /// All templates below this node that enough requests show.
    pub(super) fn paths(self, needed: LearnOptions) -> Vec<Found> {
        let mut found = Vec::new();
        self.collect("", &[], needed, &mut found);
        found
    }

    fn collect(
        self,
        before: &str,
        parameters: &[Value],
        needed: LearnOptions,
        found: &mut Vec<Found>,
    ) {
        if !self.operations.is_empty() {
            found.push(Found {
                template: before.to_owned(),
                parameters: parameters.to_vec(),
                operations: self.operations,
            });
        }
        for (name, node) in self.names {
            if node.support().is_enough(needed) {
                node.collect(&format!("{before}/{name}"), parameters, needed, found);
            }
        }
        let Some((node, kind)) = self.parameter else { return };
        if !node.support().is_enough(needed) {
            return;
        }
        let name = format!("p{}", parameters.len() + 1);
        let schema = match kind {
            Identifier::Integer => json!({ "type": "integer" }),
            Identifier::Uuid => json!({ "type": "string", "format": "uuid" }),
            Identifier::Date => json!({ "type": "string", "format": "date" }),
            Identifier::Text => json!({ "type": "string" }),
        };
        let parameter = json!({ "name": name, "in": "path", "required": true, "schema": schema });
        let parameters = [parameters, &[parameter]].concat();
        node.collect(&format!("{before}/{{{name}}}"), &parameters, needed, found);
    }
}
