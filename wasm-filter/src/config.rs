//! The plugin configuration: JSON text to checked values.
//!
//! All that is wrong is reported at once, each with its path in the document, what is wrong, and
//! what to write instead. README.md documents the fields.

use crate::json::{self, Json};
use glacis_limits::cidr::{Cidr, CidrSet};
use glacis_limits::rate_headers::PolicyName;
use glacis_limits::token_bucket::{BucketError, TokenBucket};
use std::fmt;

/// The longest configuration, in bytes.
pub(crate) const CONFIG_BYTES_MAX: usize = 8 << 20;
/// The most entries of one address list: 512 KiB to 2 MiB of memory in each worker.
const LIST_ENTRIES_MAX: usize = 65_536;
/// More proxies in a row than this are a mistake.
const TRUSTED_HOPS_MAX: u64 = 16;
const REQUESTS_MAX: u64 = 1_000_000_000;
/// A day.
const PER_SECONDS_MAX: u64 = 86_400;
/// About 45 MiB of shared data; see README.md.
const TABLE_ENTRIES_MAX: u64 = 1_048_576;
/// How many problems are told at once.
const PROBLEMS_MAX: usize = 20;
/// How much of a wrong value is repeated, in characters.
const SHOWN_CHARS_MAX: usize = 64;

/// How much of a text that is no JSON is shown, in bytes.
const START_BYTES: usize = 24;

const SECOND_NS: u64 = 1_000_000_000;

/// A configuration, checked.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) allow: CidrSet,
    pub(crate) deny: CidrSet,
    pub(crate) trusted_hops: u8,
    pub(crate) failure_mode: FailureMode,
    pub(crate) rate_limit: Option<RateLimit>,
}

/// What happens to a request for which there is no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureMode {
    Open,
    Closed,
}

/// The rate limit of each client network.
#[derive(Debug)]
pub(crate) struct RateLimit {
    pub(crate) name: PolicyName,
    pub(crate) requests: u64,
    pub(crate) per_seconds: u64,
    pub(crate) bucket: TokenBucket,
    pub(crate) ipv4_prefix: u8,
    pub(crate) ipv6_prefix: u8,
    pub(crate) table_entries: u32,
    pub(crate) shadow: bool,
    pub(crate) headers_on_allowed: bool,
}

/// Everything that is wrong with a configuration. The operator is to blame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration of the Glacis wasm filter is refused: ")?;
        f.write_str(&self.problems.join(" | "))
    }
}

impl Config {
    /// Reads a configuration.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        let mut problems = Problems::default();
        let config = read(text, &mut problems);
        match config {
            Some(config) if problems.told.is_empty() => Ok(config),
            _ => Err(ConfigError { problems: problems.told }),
        }
    }
}

fn read(text: &[u8], problems: &mut Problems) -> Option<Config> {
    if text.len() > CONFIG_BYTES_MAX {
        let rule = format_args!("it has more than {CONFIG_BYTES_MAX} bytes; write a shorter one");
        return problems.add("$", rule);
    }
    if text.trim_ascii().is_empty() {
        let rule = "there is no configuration; write a JSON object, at least {}";
        return problems.add("$", format_args!("{rule}"));
    }
    let json = match json::parse(text) {
        Ok(json) => json,
        Err(error) => {
            let start = String::from_utf8_lossy(text.get(..START_BYTES).unwrap_or(text));
            return problems.add(
                "$",
                format_args!(
                    "it cannot be read as JSON: {error}; it begins with {start:?}; write JSON \
                     text, in a google.protobuf.StringValue"
                ),
            );
        }
    };
    const FIELDS: &[&str] = &["address_lists", "trusted_hops", "failure_mode", "rate_limit"];
    let object = Object::new("$", &json, FIELDS, problems)?;
    let (allow, deny) = read_lists(&object, problems);
    let trusted_hops = object.whole("trusted_hops", 0, 0, TRUSTED_HOPS_MAX, problems);
    let failure_mode = read_failure_mode(&object, problems);
    let rate_limit = match object.field("rate_limit") {
        Some(json) => Some(read_rate_limit(json, problems)?),
        None => None,
    };
    let trusted_hops = u8::try_from(trusted_hops).ok()?;
    Some(Config { allow, deny, trusted_hops, failure_mode, rate_limit })
}

fn read_lists(object: &Object<'_>, problems: &mut Problems) -> (CidrSet, CidrSet) {
    let Some(json) = object.field("address_lists") else {
        return Default::default();
    };
    match Object::new("address_lists", json, &["allow", "deny"], problems) {
        Some(lists) => (read_list(&lists, "allow", problems), read_list(&lists, "deny", problems)),
        None => Default::default(),
    }
}

fn read_list(lists: &Object<'_>, name: &str, problems: &mut Problems) -> CidrSet {
    let path = lists.path_of(name);
    let entries = match lists.field(name) {
        None => return CidrSet::default(),
        Some(Json::List(entries)) => entries,
        Some(other) => {
            problems.wrong::<()>(&path, other, "a list of addresses such as [\"192.0.2.0/24\"]");
            return CidrSet::default();
        }
    };
    if entries.len() > LIST_ENTRIES_MAX {
        let given = entries.len();
        problems.add::<()>(
            &path,
            format_args!(
                "it has {given} entries; write at most {LIST_ENTRIES_MAX}, with larger networks"
            ),
        );
        return CidrSet::default();
    }
    let mut read_entry = |(i, entry): (usize, &Json)| {
        let path = format!("{path}[{i}]");
        let Json::Text(text) = entry else {
            problems.wrong::<()>(&path, entry, "an address such as \"192.0.2.0/24\"");
            return None;
        };
        match Cidr::parse(text) {
            Ok(cidr) => Some(cidr),
            Err(error) => problems.add(&path, format_args!("{}: {error}", shown(text))),
        }
    };
    entries.iter().enumerate().filter_map(&mut read_entry).collect()
}

fn read_failure_mode(object: &Object<'_>, problems: &mut Problems) -> FailureMode {
    match object.field("failure_mode") {
        None => FailureMode::Open,
        Some(Json::Text(text)) if text == "open" => FailureMode::Open,
        Some(Json::Text(text)) if text == "closed" => FailureMode::Closed,
        Some(other) => {
            problems.wrong::<()>(&object.path_of("failure_mode"), other, "\"open\" or \"closed\"");
            FailureMode::Open
        }
    }
}

fn read_rate_limit(json: &Json, problems: &mut Problems) -> Option<RateLimit> {
    const FIELDS: &[&str] = &[
        "name",
        "requests",
        "per_seconds",
        "burst",
        "ipv4_prefix",
        "ipv6_prefix",
        "table_entries",
        "shadow",
        "headers_on_allowed",
    ];
    let object = Object::new("rate_limit", json, FIELDS, problems)?;
    let name = read_name(&object, problems);
    let requests = object.whole("requests", 1, 1, REQUESTS_MAX, problems);
    if object.field("requests").is_none() {
        let path = object.path_of("requests");
        let rule = "it is missing; write how many requests a client gains in `per_seconds` seconds";
        problems.add::<()>(&path, format_args!("{rule}"));
    }
    let per_seconds = object.whole("per_seconds", 1, 1, PER_SECONDS_MAX, problems);
    let burst = object.whole("burst", requests, 1, REQUESTS_MAX, problems);
    let ipv4_prefix = object.whole("ipv4_prefix", 32, 8, 32, problems);
    let ipv6_prefix = object.whole("ipv6_prefix", 64, 16, 128, problems);
    let table_entries = object.whole("table_entries", 16_384, 8, TABLE_ENTRIES_MAX, problems);
    let shadow = object.flag("shadow", problems);
    let headers_on_allowed = object.flag("headers_on_allowed", problems);
    let bucket = read_bucket(&object, burst, requests, per_seconds, problems);
    Some(RateLimit {
        name: name?,
        requests,
        per_seconds,
        bucket: bucket?,
        // Each of these has been held to a range that its type has room for.
        ipv4_prefix: u8::try_from(ipv4_prefix).ok()?,
        ipv6_prefix: u8::try_from(ipv6_prefix).ok()?,
        table_entries: u32::try_from(table_entries).ok()?,
        shadow,
        headers_on_allowed,
    })
}

fn read_name(object: &Object<'_>, problems: &mut Problems) -> Option<PolicyName> {
    let path = object.path_of("name");
    let name = match object.field("name") {
        None => "per-address",
        Some(Json::Text(name)) => name,
        Some(other) => return problems.wrong(&path, other, "a name such as \"per-address\""),
    };
    match PolicyName::new(name) {
        Ok(name) => Some(name),
        Err(error) => problems.add(&path, format_args!("{}: {error}", shown(name))),
    }
}

fn read_bucket(
    object: &Object<'_>,
    burst: u64,
    requests: u64,
    per_seconds: u64,
    problems: &mut Problems,
) -> Option<TokenBucket> {
    let (burst, requests) = (u32::try_from(burst).ok()?, u32::try_from(requests).ok()?);
    match TokenBucket::new(burst, requests, per_seconds.saturating_mul(SECOND_NS)) {
        Ok(bucket) => Some(bucket),
        Err(error @ BucketError::BurstTooLarge { .. }) => {
            problems.add(&object.path_of("burst"), format_args!("{burst}: {error}"))
        }
        // The others are zeros, which the ranges of the fields have excluded or reported.
        Err(_) => None,
    }
}

/// An object of the document, with the path to it.
struct Object<'a> {
    path: &'a str,
    fields: &'a [(String, Json)],
}

impl<'a> Object<'a> {
    fn new(path: &'a str, json: &'a Json, known: &[&str], problems: &mut Problems) -> Option<Self> {
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

    fn path_of(&self, name: &str) -> String {
        match self.path {
            "$" => name.to_owned(),
            path => format!("{path}.{name}"),
        }
    }

    fn field(&self, name: &str) -> Option<&'a Json> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// A whole number in a range; `default` if the field is absent, or wrong and reported.
    fn whole(&self, name: &str, default: u64, min: u64, max: u64, problems: &mut Problems) -> u64 {
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

    fn flag(&self, name: &str, problems: &mut Problems) -> bool {
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
#[derive(Default)]
struct Problems {
    told: Vec<String>,
}

impl Problems {
    /// Adds a problem. There is nothing to return then, of whatever type.
    fn add<T>(&mut self, path: &str, problem: fmt::Arguments<'_>) -> Option<T> {
        match self.told.len() {
            0..PROBLEMS_MAX => self.told.push(format!("{path}: {problem}")),
            PROBLEMS_MAX => self.told.push("there is more".to_owned()),
            _ => {}
        }
        None
    }

    fn wrong<T>(&mut self, path: &str, found: &Json, expected: &str) -> Option<T> {
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
fn shown(text: &str) -> String {
    format!("{:?}", shown_chars(text))
}

fn shown_chars(text: &str) -> String {
    text.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults() {
        let config = Config::parse(b"{}").unwrap();
        assert!(config.allow.is_empty() && config.deny.is_empty());
        assert_eq!((config.trusted_hops, config.failure_mode), (0, FailureMode::Open));
        assert!(config.rate_limit.is_none());

        let config = Config::parse(br#"{"rate_limit": {"requests": 7}}"#).unwrap();
        let limit = config.rate_limit.unwrap();
        assert_eq!(limit.name.as_str(), "per-address");
        assert_eq!((limit.requests, limit.per_seconds, limit.bucket.burst()), (7, 1, 7));
        assert_eq!((limit.ipv4_prefix, limit.ipv6_prefix, limit.table_entries), (32, 64, 16_384));
        assert!(!limit.shadow && !limit.headers_on_allowed);
    }

    #[test]
    fn every_field() {
        let config = Config::parse(
            br#"{
                "address_lists": {"allow": ["192.0.2.7"], "deny": ["10.0.0.0/8", "2001:db8::/32"]},
                "trusted_hops": 2,
                "failure_mode": "closed",
                "rate_limit": {
                    "name": "login", "requests": 1e2, "per_seconds": 60.0, "burst": 200,
                    "ipv4_prefix": 24, "ipv6_prefix": 56, "table_entries": 1024, "shadow": true,
                    "headers_on_allowed": true
                }
            }"#,
        )
        .unwrap();
        assert_eq!((config.allow.ranges(), config.deny.ranges()), (1, 2));
        assert_eq!((config.trusted_hops, config.failure_mode), (2, FailureMode::Closed));
        let limit = config.rate_limit.unwrap();
        assert_eq!(limit.name.as_str(), "login");
        assert_eq!((limit.requests, limit.per_seconds, limit.bucket.burst()), (100, 60, 200));
        assert_eq!((limit.ipv4_prefix, limit.ipv6_prefix, limit.table_entries), (24, 56, 1024));
        assert!(limit.shadow && limit.headers_on_allowed);
    }

    /// Every message begins with the path and ends with what to write.
    #[test]
    fn problems() {
        let rows = [
            ("", "$: there is no configuration; write a JSON object, at least {}"),
            (" \n", "$: there is no configuration"),
            (
                "{",
                "$: it cannot be read as JSON: EOF while parsing an object at line 1 column 1; it \
                 begins with \"{\"; write JSON text, in a google.protobuf.StringValue",
            ),
            ("\n)\n\raddress_lists", "it begins with \"\\n)\\n\\raddress_lists\"; write JSON text"),
            ("[]", "$: it is a list; write a JSON object"),
            (r#"{"trusted_hops": 1, "trusted_hops": 2}"#, "\"trusted_hops\" stands twice"),
            (
                r#"{"deny": []}"#,
                "deny: there is no such field; the fields here are address_lists, trusted_hops",
            ),
            (r#"{"trusted_hops": -1}"#, "trusted_hops: it is a number that is negative"),
            (
                r#"{"trusted_hops": 17}"#,
                "trusted_hops: it is 17; write a whole number from 0 to 16",
            ),
            (r#"{"trusted_hops": "1"}"#, "trusted_hops: it is \"1\"; write a whole number"),
            (r#"{"trusted_hops": null}"#, "trusted_hops: it is null; write a whole number"),
            (
                r#"{"failure_mode": "fail"}"#,
                "failure_mode: it is \"fail\"; write \"open\" or \"closed\"",
            ),
            (r#"{"address_lists": []}"#, "address_lists: it is a list; write a JSON object"),
            (
                r#"{"address_lists": {"block": []}}"#,
                "address_lists.block: there is no such field; the fields here are allow, deny",
            ),
            (r#"{"address_lists": {"deny": "::1"}}"#, "address_lists.deny: it is \"::1\"; write a"),
            (r#"{"address_lists": {"deny": [7]}}"#, "address_lists.deny[0]: it is 7; write an"),
            (
                r#"{"address_lists": {"allow": ["::1", "10.0.0.1/8"]}}"#,
                "address_lists.allow[1]: \"10.0.0.1/8\": it has bits set outside of its prefix; \
                 write 10.0.0.0/8 for the network or 10.0.0.1/32 for the one address",
            ),
            (r#"{"rate_limit": true}"#, "rate_limit: it is true; write a JSON object"),
            (r#"{"rate_limit": {}}"#, "rate_limit.requests: it is missing; write how many"),
            (
                r#"{"rate_limit": {"requests": 0}}"#,
                "rate_limit.requests: it is 0; write a whole number from 1 to 1000000000",
            ),
            (r#"{"rate_limit": {"requests": 1.5}}"#, "rate_limit.requests: it is a number that is"),
            (
                r#"{"rate_limit": {"requests": 1, "per_seconds": 86401}}"#,
                "rate_limit.per_seconds: it is 86401; write a whole number from 1 to 86400",
            ),
            (
                r#"{"rate_limit": {"requests": 7, "per_seconds": 86400, "burst": 1000000000}}"#,
                "rate_limit.burst: 1000000000: the burst is too large for this rate; write at most",
            ),
            (
                r#"{"rate_limit": {"requests": 1, "name": "a b"}}"#,
                "rate_limit.name: \"a b\": the name has the character ' '; write only letters",
            ),
            (
                r#"{"rate_limit": {"requests": 1, "ipv4_prefix": 33}}"#,
                "rate_limit.ipv4_prefix: it is 33; write a whole number from 8 to 32",
            ),
            (
                r#"{"rate_limit": {"requests": 1, "ipv6_prefix": 0}}"#,
                "rate_limit.ipv6_prefix: it is 0; write a whole number from 16 to 128",
            ),
            (
                r#"{"rate_limit": {"requests": 1, "table_entries": 1048577}}"#,
                "rate_limit.table_entries: it is 1048577; write a whole number from 8 to 1048576",
            ),
            (
                r#"{"rate_limit": {"requests": 1, "shadow": "yes"}}"#,
                "rate_limit.shadow: it is \"yes\"; write true or false",
            ),
            (
                r#"{"rate_limit": {"requests": 1, "headers_on_allowed": 1}}"#,
                "rate_limit.headers_on_allowed: it is 1; write true or false",
            ),
            (r#"{"rate_limit": {"requests": 1, "rate": 1}}"#, "rate_limit.rate: there is no such"),
        ];
        for (text, expected) in rows {
            let message = Config::parse(text.as_bytes()).unwrap_err().to_string();
            let told = message.split_once("is refused: ").unwrap().1;
            assert!(told.contains(expected), "{text}\n{told}");
        }
    }

    #[test]
    fn all_problems_at_once_but_not_without_end() {
        let text = r#"{"x": 1, "trusted_hops": 99, "rate_limit": {"y": 2}}"#;
        let message = Config::parse(text.as_bytes()).unwrap_err().to_string();
        for path in ["x: ", "trusted_hops: ", "rate_limit.y: ", "rate_limit.requests: "] {
            assert!(message.contains(path), "{path} in {message}");
        }
        let many = format!(r#"{{"address_lists": {{"deny": [{}"no"]}}}}"#, "\"no\",".repeat(1_000));
        let message = Config::parse(many.as_bytes()).unwrap_err().to_string();
        assert!(message.ends_with(" | there is more") && message.len() < 8_000, "{message}");
    }

    #[test]
    fn limits() {
        let entries = |n: usize| {
            let list = vec!["\"::1\""; n].join(",");
            Config::parse(format!(r#"{{"address_lists": {{"deny": [{list}]}}}}"#).as_bytes())
        };
        assert!(entries(LIST_ENTRIES_MAX).is_ok());
        let message = entries(LIST_ENTRIES_MAX + 1).unwrap_err().to_string();
        assert!(message.contains("address_lists.deny: it has 65537 entries; write at most"));

        let mut long = b"{}".to_vec();
        long.resize(CONFIG_BYTES_MAX, b' ');
        assert!(Config::parse(&long).is_ok());
        long.push(b' ');
        let message = Config::parse(&long).unwrap_err().to_string();
        assert!(message.contains("$: it has more than 8388608 bytes"), "{message}");

        let deep = "[".repeat(100_000);
        let message = Config::parse(deep.as_bytes()).unwrap_err().to_string();
        assert!(message.contains("recursion limit exceeded"), "{message}");
        let wide =
            format!("{{{}}}", (0..300).map(|i| format!("\"{i}\":1")).collect::<Vec<_>>().join(","));
        let message = Config::parse(wide.as_bytes()).unwrap_err().to_string();
        assert!(message.contains("too many fields"), "{message}");
    }
}
