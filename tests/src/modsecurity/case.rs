//! Cases of the suite: a request, a response, rules, and what ModSecurity does.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::failure::{Outcome, io};

/// A case.
#[derive(Debug)]
pub struct Case {
    /// `FILE.json#N`, counted from 1. A file that is not JSON has one case, 0.
    pub id: String,
    /// Name of its file, which messages about its rules begin with.
    pub file: String,
    /// What it holds; or why it cannot be read.
    pub data: Result<Data, String>,
}

/// What a case holds. Of a key that comes twice the last value counts.
#[derive(Debug, Default)]
pub struct Data {
    /// Its title in the suite.
    pub title: String,
    /// What ModSecurity must be built with for it, such as `lua`.
    pub resource: String,
    /// The client of the connection.
    pub client: Peer,
    /// The address that it was made to.
    pub server: Peer,
    /// The request.
    pub request: Request,
    /// The response.
    pub response: Response,
    /// What ModSecurity does.
    pub expected: Expected,
    /// Lines of directives.
    pub rules: Lines,
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LastCounts;
        impl<'de> Visitor<'de> for LastCounts {
            type Value = Data;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a case")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Data, A::Error> {
                let mut data = Data::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "title" => data.title = map.next_value()?,
                        "resource" => data.resource = map.next_value()?,
                        "client" => data.client = map.next_value()?,
                        "server" => data.server = map.next_value()?,
                        "request" => data.request = map.next_value()?,
                        "response" => data.response = map.next_value()?,
                        "expected" => data.expected = map.next_value()?,
                        "rules" => data.rules = map.next_value()?,
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(data)
            }
        }
        deserializer.deserialize_map(LastCounts)
    }
}

/// An end of the connection.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Peer {
    /// The address.
    pub ip: String,
    /// The port.
    pub port: u16,
}

/// The request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Request {
    /// The method.
    pub method: String,
    /// The URI as sent.
    pub uri: String,
    /// The number of the protocol, such as 1.1.
    pub http_version: Option<serde_json::Value>,
    /// Header fields.
    pub headers: Fields,
    /// The body.
    pub body: Lines,
}

/// The response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Response {
    /// The protocol; HTTP/1.1 where there is none.
    pub protocol: Option<String>,
    /// Header fields.
    pub headers: Fields,
    /// The body.
    pub body: Lines,
}

/// What ModSecurity does. Logs are patterns; an empty one holds for any log.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Expected {
    /// The status that the client gets; 200 where there is none.
    pub http_code: Option<u16>,
    /// Where the client is redirected to.
    pub redirect_url: Option<String>,
    /// The message with which the rules are rejected; empty where they are not.
    pub parser_error: String,
    /// Of the debug log.
    pub debug_log: String,
    /// Of the error log.
    pub error_log: String,
    /// Of the audit log.
    pub audit_log: String,
}

/// Text given as a list of lines, each ended by a line feed; a text of its own is none, as for ModSecurity's reader. A line
/// ends at a NUL.
#[derive(Debug, Default)]
pub struct Lines(pub String);

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(deserializer)?;
        let lines = value.as_array().map_or(&[][..], Vec::as_slice).iter();
        let lines = lines.filter_map(|line| line.as_str()?.split('\0').next());
        Ok(Self(lines.flat_map(|line| [line, "\n"]).collect()))
    }
}

/// Header fields in their order; a name may come again.
#[derive(Debug, Default)]
pub struct Fields(pub Vec<(String, String)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("header fields")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, serde_json::Value>()? {
                    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }

            fn visit_str<E>(self, _: &str) -> Result<Fields, E> {
                Ok(Fields::default())
            }
        }
        deserializer.deserialize_any(InOrder)
    }
}

/// Reads all cases below the folder, by name of file.
///
/// # Errors
///
/// If the folder or a file in it cannot be read.
pub fn read_all(folder: &Path) -> Outcome<Vec<Case>> {
    let entries = fs::read_dir(folder).map_err(io("list", folder))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|kind| kind == "json"));
    files.sort();
    let mut cases = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).map_err(io("read", &path))?;
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        cases.extend(read(&file, &text));
    }
    Ok(cases)
}

fn read(file: &str, text: &str) -> Vec<Case> {
    let case =
        |number: usize, data| Case { id: format!("{file}#{number}"), file: file.to_owned(), data };
    match serde_json::from_str::<Vec<serde_json::Value>>(text) {
        Err(error) => vec![case(0, Err(format!("the file is not JSON: {error}")))],
        // By way of `Value` the order of header fields would be lost, but not the number of cases.
        Ok(values) => match serde_json::from_str::<Vec<Data>>(text) {
            Ok(data) => {
                data.into_iter().enumerate().map(|(at, data)| case(at + 1, Ok(data))).collect()
            }
            Err(error) => (1..=values.len()).map(|at| case(at, Err(error.to_string()))).collect(),
        },
    }
}
