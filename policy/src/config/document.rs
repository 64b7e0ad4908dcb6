//! The document as the configuration reads it: each value with its path, and a list of problems.

use crate::json::Json;
use std::fmt;

/// How many problems are told at once.
const PROBLEMS_MAX: usize = 20;
/// How much of a wrong value is repeated, in characters.
const SHOWN_CHARS_MAX: usize = 64;

/// An object of the document, with the path to it.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    path: &'a str,
    fields: &'a [(String, Json)],
}

impl<'a> Object<'a> {
    /// The object at this path, if it is one. Fields beyond the `known` ones are problems.
    pub(crate) fn new(
        path: &'a str,
        json: &'a Json,
        known: &[&str],
        problems: &mut Problems,
    ) -> Option<Self> {
        let Json::Object(fields) = json else {
            return problems.wrong(path, json, "a JSON object, { … }");
        };
        let object = Self { path, fields };
        for (name, _) in fields {
            if !known.contains(&name.as_str()) {
                let known = known.join(", ");
                let path = object.path_of(&shown_chars(name));
                problems.add::<()>(
                    &path,
                    format_args!("there is no such field; the fields here are {known}"),
                );
            }
        }
        Some(object)
    }

    /// The path to it.
    pub(crate) fn path(&self) -> &'a str {
        self.path
    }

    /// The path of one of its fields.
    pub(crate) fn path_of(&self, name: &str) -> String {
        match self.path {
            "$" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    /// The value of a field, if it is there.
    pub(crate) fn field(&self, name: &str) -> Option<&'a Json> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// A whole number in a range; `default` if the field is absent, or wrong and reported.
    pub(crate) fn whole(
        &self,
        name: &str,
        default: u64,
        min: u64,
        max: u64,
        problems: &mut Problems,
    ) -> u64 {
        match self.field(name) {
            None => default,
            Some(Json::Whole(value)) if (min..=max).contains(value) => *value,
            Some(other) => {
                let expected = format!("a whole number from {min} to {max}");
                problems.wrong::<()>(&self.path_of(name), other, &expected);
                default
            }
        }
    }

    /// A list of values, each read by `read` with its path; `None` if the field is absent or no
    /// list, or has more than `max` values.
    pub(crate) fn list<T>(
        &self,
        name: &str,
        max: usize,
        of: &str,
        problems: &mut Problems,
        mut read: impl FnMut(&str, &'a Json, &mut Problems) -> Option<T>,
    ) -> Option<Vec<T>> {
        let path = self.path_of(name);
        let values = match self.field(name)? {
            Json::List(values) => values,
            other => return problems.wrong(&path, other, &format!("a list of {of}")),
        };
        if values.len() > max {
            let given = values.len();
            return problems.add(&path, format_args!("it has {given} values; write at most {max}"));
        }
        let mut item = |(i, value)| read(&format!("{path}[{i}]"), value, problems);
        Some(values.iter().enumerate().filter_map(&mut item).collect())
    }

    /// A list of texts, each read by `parse`.
    pub(crate) fn texts<T, E: fmt::Display>(
        &self,
        name: &str,
        max: usize,
        of: &str,
        problems: &mut Problems,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Option<Vec<T>> {
        self.list(name, max, of, problems, |path, value, problems| {
            let Json::Text(text) = value else { return problems.wrong(path, value, of) };
            match parse(text) {
                Ok(value) => Some(value),
                Err(error) => problems.add(path, format_args!("{}: {error}", shown(text))),
            }
        })
    }

    /// `true` or `false`; the latter if the field is absent.
    pub(crate) fn flag(&self, name: &str, problems: &mut Problems) -> bool {
        match self.field(name) {
            None => false,
            Some(Json::Bool(value)) => *value,
            Some(other) => {
                problems.wrong::<()>(&self.path_of(name), other, "true or false");
                false
            }
        }
    }
}

/// What has been found wrong so far.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    pub(crate) told: Vec<String>,
}

impl Problems {
    /// Adds a problem. There is nothing to return then, of whatever type.
    pub(crate) fn add<T>(&mut self, path: &str, problem: fmt::Arguments<'_>) -> Option<T> {
        match self.told.len() {
            0..PROBLEMS_MAX => self.told.push(format!("{path}: {problem}")),
            PROBLEMS_MAX => self.told.push("there is more".to_owned()),
            _ => {}
        }
        None
    }

    /// Adds that something else stands where something of a kind is expected.
    pub(crate) fn wrong<T>(&mut self, path: &str, found: &Json, expected: &str) -> Option<T> {
        let found = match found {
            Json::Null => "it is null".to_owned(),
            Json::Bool(value) => format!("it is {value}"),
            Json::Whole(value) => format!("it is {value}"),
            Json::OtherNumber => {
                "it is a number that is negative, fractional or too large".to_owned()
            }
            Json::Text(text) => format!("it is {}", shown(text)),
            Json::List(_) => "it is a list".to_owned(),
            Json::Object(_) => "it is an object".to_owned(),
        };
        self.add(path, format_args!("{found}; write {expected}"))
    }
}

/// A text as an error repeats it: quoted, escaped, and not all of a long one.
pub(crate) fn shown(text: &str) -> String {
    format!("{:?}", shown_chars(text))
}

fn shown_chars(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}
