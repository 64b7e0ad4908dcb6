//! What values have in common: their types, their members, and how many requests and clients show them.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::{Map, Value, json};

use super::LearnOptions;

/// Clients that are told apart; more make no difference.
const CLIENTS_MAX: usize = 64;

/// How many requests and clients show something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Support {
    requests: u64,
    clients: BTreeSet<u64>,
}

impl Support {
    pub(super) fn add(&mut self, client: &str) {
        self.requests += 1;
        if self.clients.len() < CLIENTS_MAX {
            // The hasher has no key: the same clients are the same numbers, whoever runs this.
            let mut hasher = DefaultHasher::new();
            client.hash(&mut hasher);
            self.clients.insert(hasher.finish());
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.clients.extend(&other.clients);
    }

    pub(super) const fn requests(&self) -> u64 {
        self.requests
    }

    pub(super) fn clients(&self) -> u64 {
        self.clients.len() as u64
    }

    pub(super) fn is_enough(&self, needed: LearnOptions) -> bool {
        self.requests >= needed.requests_min && self.clients() >= needed.clients_min
    }
}

/// Values of an enumeration at most, and how often each of them has to be there.
const ENUM_MAX: usize = 8;
const ENUM_VALUE_REQUESTS_MIN: u64 = 10;

/// Texts of a parameter or of a field.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    pub(super) support: Support,
    /// Whether a request has the name more than once.
    is_list: bool,
    kinds: Kinds,
    /// The texts themselves, while they are few.
    texts: BTreeMap<String, Support>,
    has_others: bool,
}

/// Which texts there are.
#[derive(Clone, Copy, Debug, Default)]
struct Kinds {
    integers: bool,
    numbers: bool,
    booleans: bool,
    others: bool,
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_plain = digits == "0" || !digits.starts_with('0');
    is_plain && (1..=18).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_number(text: &str) -> bool {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    is_integer(whole)
        && (1..=18).contains(&part.len())
        && part.bytes().all(|it| it.is_ascii_digit())
}

/// Whether a text may be one of a few: names, no identifiers.
fn is_word(text: &str) -> bool {
    let letters = text.bytes().all(|byte| byte.is_ascii_alphabetic() || b"-_".contains(&byte));
    letters && (1..=32).contains(&text.len())
}

impl Texts {
    pub(super) fn add(&mut self, texts: &[String], client: &str) {
        self.support.add(client);
        self.is_list |= texts.len() > 1;
        for text in texts {
            match text.as_str() {
                "true" | "false" => self.kinds.booleans = true,
                text if is_integer(text) => self.kinds.integers = true,
                text if is_number(text) => self.kinds.numbers = true,
                _ => self.kinds.others = true,
            }
            if is_word(text) && (self.texts.len() < ENUM_MAX || self.texts.contains_key(text)) {
                self.texts.entry(text.clone()).or_default().add(client);
            } else {
                self.has_others = true;
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.support.merge(&other.support);
        self.is_list |= other.is_list;
        self.kinds.integers |= other.kinds.integers;
        self.kinds.numbers |= other.kinds.numbers;
        self.kinds.booleans |= other.kinds.booleans;
        self.kinds.others |= other.kinds.others;
        self.has_others |= other.has_others;
        for (text, support) in &other.texts {
            self.texts.entry(text.clone()).or_default().merge(support);
        }
        self.has_others |= self.texts.len() > ENUM_MAX;
    }

    pub(super) fn schema(&self) -> Value {
        let one = self.element();
        if self.is_list { json!({ "type": "array", "items": one }) } else { one }
    }

    fn element(&self) -> Value {
        let Kinds { integers, numbers, booleans, others } = self.kinds;
        match (others, booleans, numbers, integers) {
            (false, true, false, false) => return json!({ "type": "boolean" }),
            (false, false, true, _) => return json!({ "type": "number" }),
            (false, false, false, true) => return json!({ "type": "integer" }),
            _ => {}
        }
        let is_common = |support: &Support| {
            support.requests() >= ENUM_VALUE_REQUESTS_MIN && support.clients() >= 2
        };
        let is_enum =
            !self.has_others && self.texts.len() > 1 && self.texts.values().all(is_common);
        match is_enum {
            true => json!({ "type": "string", "enum": self.texts.keys().collect::<Vec<_>>() }),
            false => json!({ "type": "string" }),
        }
    }
}

/// Members of an object that are kept, and levels of values. An object with more members has any.
const MEMBERS_MAX: usize = 128;
const DEPTH_MAX: usize = 8;

/// JSON values at one place.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    pub(super) support: Support,
    types: BTreeSet<&'static str>,
    items: Option<Box<Self>>,
    /// Objects among the values, and their members.
    objects: u64,
    members: BTreeMap<String, Self>,
    has_more_members: bool,
    is_too_deep: bool,
}

impl Values {
    pub(super) fn add(&mut self, value: &Value, client: &str) {
        self.add_within(value, client, DEPTH_MAX);
    }

    fn add_within(&mut self, value: &Value, client: &str, depth: usize) {
        self.support.add(client);
        let name = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(number) if number.is_f64() => "number",
            Value::Number(_) => "integer",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        };
        self.types.insert(name);
        let Some(depth) = depth.checked_sub(1) else {
            self.is_too_deep = true;
            return;
        };
        match value {
            Value::Array(elements) => {
                for element in elements {
                    self.items.get_or_insert_default().add_within(element, client, depth);
                }
            }
            Value::Object(members) => {
                self.objects += 1;
                for (name, value) in members {
                    if self.members.len() < MEMBERS_MAX || self.members.contains_key(name) {
                        self.members
                            .entry(name.clone())
                            .or_default()
                            .add_within(value, client, depth);
                    } else {
                        self.has_more_members = true;
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.support.merge(&other.support);
        self.types.extend(&other.types);
        self.objects += other.objects;
        self.has_more_members |= other.has_more_members;
        self.is_too_deep |= other.is_too_deep;
        if let Some(items) = &other.items {
            self.items.get_or_insert_default().merge(items);
        }
        for (name, values) in &other.members {
            self.members.entry(name.clone()).or_default().merge(values);
        }
    }

    pub(super) fn schema(&self, needed: LearnOptions) -> Value {
        if self.is_too_deep {
            return json!({});
        }
        let mut types: Vec<&str> = self.types.iter().copied().collect();
        if types.contains(&"number") {
            types.retain(|name| *name != "integer");
        }
        let mut schema = Map::new();
        schema.insert(
            "type".to_owned(),
            match types.as_slice() {
                [one] => json!(one),
                several => json!(several),
            },
        );
        if let Some(items) = &self.items {
            schema.insert("items".to_owned(), items.schema(needed));
        }
        if self.objects > 0 {
            let known: Vec<_> = self
                .members
                .iter()
                .filter(|(_, values)| values.support.is_enough(needed))
                .collect();
            let always =
                known.iter().filter(|(_, values)| values.support.requests() == self.objects);
            let required: Vec<&str> = always.map(|(name, _)| name.as_str()).collect();
            let properties: Map<String, Value> = known
                .iter()
                .map(|(name, values)| ((*name).clone(), values.schema(needed)))
                .collect();
            schema.insert("required".to_owned(), json!(required));
            schema.insert("properties".to_owned(), Value::Object(properties));
            schema.insert("additionalProperties".to_owned(), json!(self.has_more_members));
        }
        Value::Object(schema)
    }
}
