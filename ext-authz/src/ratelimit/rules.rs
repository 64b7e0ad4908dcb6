//! The limits of all domains as a tree, and the way of a request's descriptor through it.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use envoy_types::pb::google::protobuf::Struct;

use super::{pattern::Pattern, unit::Unit};

/// Everything that the files of a folder say.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(super) domains: HashMap<Box<str>, Level>,
}

/// The descriptors beside each other at one place, by key.
#[derive(Debug, Default)]
pub(super) struct Level {
    pub(super) keys: HashMap<Box<str>, Choices>,
}

/// The descriptors of one key, in the order in which they are tried: by the value as it is written, by
/// wildcards in the order of the file, by the key alone.
#[derive(Debug, Default)]
pub(super) struct Choices {
    pub(super) values: HashMap<Box<str>, Node>,
    pub(super) patterns: Vec<(Pattern, Node)>,
    pub(super) any: Option<Box<Node>>,
}

/// A descriptor.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) limit: Option<Arc<Limit>>,
    pub(super) below: Level,
    pub(super) value_to_metric: bool,
    pub(super) share_threshold: bool,
}

/// How much is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    /// Everything, and nothing is counted in the store.
    Unlimited,
    /// So many requests in each window of this unit.
    Requests {
        /// How many; 0 for none at all.
        per_unit: u32,
        /// The length of a window.
        unit: Unit,
    },
}

/// What is said of a descriptor under `rate_limit` and beside it.
#[derive(Debug)]
pub(crate) struct Limit {
    /// The keys and values that lead here, as they are written, for metrics.
    pub(crate) path: Arc<str>,
    pub(crate) quantity: Quantity,
    /// Whether it is only counted when the limit is passed.
    pub(crate) shadow_mode: bool,
    /// Whether passing it refuses a request only when all other limits of this mode are passed too.
    pub(crate) quota_mode: bool,
    /// Its name, or nothing.
    pub(crate) name: Arc<str>,
    /// The names of limits that do not apply to a request to which this one does.
    pub(crate) replaces: Vec<Box<str>>,
    /// Whether metrics show the values of the request.
    pub(super) detailed_metric: bool,
    /// What a request that it lets pass gets as dynamic metadata.
    pub(crate) metadata: Option<Struct>,
}

/// One pair of a request's descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a str,
    pub(crate) value: &'a str,
}

/// The limit that holds for a request's descriptor.
#[derive(Debug)]
pub(crate) struct Matched<'r> {
    pub(crate) limit: &'r Arc<Limit>,
    /// For each entry of the descriptor the wildcard whose values are counted together.
    pub(crate) shared: Vec<Option<&'r str>>,
    /// What it is called in metrics.
    pub(crate) path: Arc<str>,
}

/// One step of the way.
struct Step<'r> {
    node: &'r Node,
    way: Way<'r>,
}

/// By what a descriptor was found.
#[derive(Clone, Copy)]
enum Way<'r> {
    Value,
    Wildcard(&'r str),
    Key,
}

impl Rules {
    /// Whether there is something about this domain.
    pub(crate) fn knows(&self, domain: &str) -> bool {
        self.domains.contains_key(domain)
    }

    /// The limit for a descriptor, which has to be as deep as the request's descriptor is long. Of several
    /// descriptors on one level the most specific one is followed, and there is no way back: a value that is
    /// named and has no limit is free.
    pub(crate) fn find(&self, domain: &str, entries: &[Entry<'_>]) -> Option<Matched<'_>> {
        let mut level = self.domains.get(domain)?;
        let mut steps = Vec::new();
        // No longer than the tree is deep, however long the descriptor is.
        for entry in entries {
            let step = level.step(*entry)?;
            level = &step.node.below;
            steps.push(step);
        }
        let limit = steps.last()?.node.limit.as_ref()?;
        let shared: Vec<_> = steps.iter().map(Step::shared).collect();
        let path = path(domain, limit, &steps, entries);
        Some(Matched { limit, shared, path })
    }
}

impl Level {
    fn step(&self, entry: Entry<'_>) -> Option<Step<'_>> {
        let choices = self.keys.get(entry.key)?;
        // A descriptor with an empty value is one without.
        if !entry.value.is_empty()
            && let Some(node) = choices.values.get(entry.value)
        {
            return Some(Step { node, way: Way::Value });
        }
        let wildcard = choices.patterns.iter().find(|(pattern, _)| pattern.matches(entry.value));
        if let Some((pattern, node)) = wildcard {
            return Some(Step { node, way: Way::Wildcard(pattern.written()) });
        }
        choices.any.as_deref().map(|node| Step { node, way: Way::Key })
    }
}

impl<'r> Step<'r> {
    /// The wildcard, if what it matches is counted together.
    fn shared(&self) -> Option<&'r str> {
        match self.way {
            Way::Wildcard(pattern) if self.node.share_threshold => Some(pattern),
            _ => None,
        }
    }

    /// Whether metrics show the value of the request although the descriptor leaves it open.
    fn shows_value(&self) -> bool {
        let is_open = match self.way {
            Way::Value => false,
            Way::Wildcard(_) => self.shared().is_none(),
            Way::Key => true,
        };
        is_open && self.node.value_to_metric
    }
}

/// What a limit is called in metrics: as envoyproxy/ratelimit calls it.
fn path(domain: &str, limit: &Limit, steps: &[Step<'_>], entries: &[Entry<'_>]) -> Arc<str> {
    if !limit.detailed_metric && !steps.iter().any(Step::shows_value) {
        return Arc::clone(&limit.path);
    }
    let mut path = domain.to_owned();
    for (step, entry) in steps.iter().zip(entries) {
        let written = match step.way {
            Way::Wildcard(pattern) => pattern,
            Way::Value => entry.value,
            Way::Key => "",
        };
        let shows_value = step.shows_value() || limit.detailed_metric;
        let value = step.shared().unwrap_or(if shows_value { entry.value } else { written });
        path.push('.');
        path.push_str(&called(entry.key, value));
    }
    path.into()
}

/// One level of a path.
pub(super) fn called<'a>(key: &'a str, value: &str) -> Cow<'a, str> {
    if value.is_empty() { Cow::Borrowed(key) } else { Cow::Owned(format!("{key}_{value}")) }
}
