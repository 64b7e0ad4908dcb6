//! The rate limits of a configuration.

use super::document::{Object, Problems, shown};
use super::lease::{self, REQUESTS_MAX};
use crate::json::Json;
use crate::rate_limit::{Absent, Applies, KeyPart, RateLimit};
use crate::table::Algorithm;
use glacis_limits::gcra::Gcra;
use glacis_limits::path::Template;
use glacis_limits::rate_headers::PolicyName;
use glacis_limits::token_bucket::{BucketError, TokenBucket};

/// More limits for one request than this are a mistake, and each costs two calls.
const LIMITS_MAX: usize = 16;
const KEY_PARTS_MAX: usize = 8;
const MATCHES_MAX: usize = 64;
const METADATA_KEYS_MAX: usize = 8;
/// A day.
const PER_SECONDS_MAX: u64 = 86_400;
/// About 45 MiB of shared data with token buckets; see README.md.
const TABLE_ENTRIES_MAX: u64 = 1_048_576;
/// The longest name of a header, cookie or metadata key.
const NAME_BYTES_MAX: usize = 256;

const SECOND_NS: u64 = 1_000_000_000;

/// The filter whose metadata holds the claims of a token.
const JWT_FILTER: &str = "envoy.filters.http.jwt_authn";

pub(super) fn read_all(object: &Object<'_>, problems: &mut Problems) -> Vec<RateLimit> {
    let limits = object.list("rate_limits", LIMITS_MAX, "rate limits, [{ … }]", problems, read);
    let limits = limits.unwrap_or_default();
    for (i, limit) in limits.iter().enumerate() {
        if limits.iter().take(i).any(|before| before.name == limit.name) {
            let name = limit.name.as_str();
            problems.add::<()>(
                &format!("rate_limits[{i}].name"),
                format_args!("{name:?} is the name of another limit, too; write another name"),
            );
        }
    }
    limits
}

fn read(path: &str, json: &Json, problems: &mut Problems) -> Option<RateLimit> {
    const FIELDS: &[&str] = &[
        "name",
        "algorithm",
        "requests",
        "per_seconds",
        "burst",
        "cost",
        "key",
        "match",
        "ipv4_prefix",
        "ipv6_prefix",
        "table_entries",
        "shadow",
        "headers_on_allowed",
        "lease",
    ];
    let object = Object::new(path, json, FIELDS, problems)?;
    let name = read_name(&object, problems);
    let requests = object.whole("requests", 1, 1, REQUESTS_MAX, problems);
    if object.field("requests").is_none() {
        let path = object.path_of("requests");
        let rule = "it is missing; write how many requests a client gains in `per_seconds` seconds";
        problems.add::<()>(&path, format_args!("{rule}"));
    }
    let per_seconds = object.whole("per_seconds", 1, 1, PER_SECONDS_MAX, problems);
    let burst = object.whole("burst", requests, 1, REQUESTS_MAX, problems);
    let cost = object.whole("cost", 1, 1, burst, problems);
    let ipv4_prefix = object.whole("ipv4_prefix", 32, 8, 32, problems);
    let ipv6_prefix = object.whole("ipv6_prefix", 64, 16, 128, problems);
    let table_entries = object.whole("table_entries", 16_384, 8, TABLE_ENTRIES_MAX, problems);
    let shadow = object.flag("shadow", problems);
    let headers_on_allowed = object.flag("headers_on_allowed", problems);
    let numbers = lease::Numbers {
        name: name.as_ref().map_or("", PolicyName::as_str),
        requests,
        per_seconds,
        cost,
    };
    let lease = lease::read(&object, numbers, problems);
    let algorithm = match lease.as_ref().map(|lease| lease.local_requests) {
        // What counts here while the lender is away.
        Some(local) => {
            read_algorithm(&object, "lease.local_requests", local, local, per_seconds, problems)
        }
        None => read_algorithm(&object, "burst", burst, requests, per_seconds, problems),
    };
    let key = read_key(&object, problems);
    let applies = read_applies(&object, problems);
    Some(RateLimit {
        name: name?,
        requests,
        per_seconds,
        algorithm: algorithm?,
        lease,
        // Each of these has been held to a range that its type has room for.
        cost: u32::try_from(cost).ok()?,
        key,
        applies: applies?,
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

/// How the limit counts. The field `burst_at` says the burst, or is where it should be said.
fn read_algorithm(
    object: &Object<'_>,
    burst_at: &str,
    burst: u64,
    requests: u64,
    per_seconds: u64,
    problems: &mut Problems,
) -> Option<Algorithm> {
    let (burst, requests) = (u32::try_from(burst).ok()?, u32::try_from(requests).ok()?);
    let period_ns = per_seconds.saturating_mul(SECOND_NS);
    let made = match object.field("algorithm") {
        None => TokenBucket::new(burst, requests, period_ns).map(Algorithm::TokenBucket),
        Some(Json::Text(name)) if name == "token-bucket" => {
            TokenBucket::new(burst, requests, period_ns).map(Algorithm::TokenBucket)
        }
        Some(Json::Text(name)) if name == "gcra" => {
            Gcra::new(burst, requests, period_ns).map(Algorithm::Gcra)
        }
        Some(other) => {
            let path = object.path_of("algorithm");
            return problems.wrong(&path, other, "\"token-bucket\" or \"gcra\"");
        }
    };
    match made {
        Ok(algorithm) => Some(algorithm),
        Err(error @ BucketError::BurstTooLarge { .. }) => {
            problems.add(&object.path_of(burst_at), format_args!("{burst}: {error}"))
        }
        // The others are zeros, which the ranges of the fields have excluded or reported.
        Err(_) => None,
    }
}

/// The parts of the key; the client's address, if nothing is said.
fn read_key(object: &Object<'_>, problems: &mut Problems) -> Vec<KeyPart> {
    let of = "parts such as \"client_address\" or {\"header\": \"x-api-key\"}";
    let parts = object.list("key", KEY_PARTS_MAX, of, problems, read_key_part);
    if parts.as_ref().is_some_and(Vec::is_empty) && object.field("key").is_some() {
        // One bucket for everybody is a limit that anybody can use up; the host is one, too.
        let path = object.path_of("key");
        problems.add::<()>(&path, format_args!("it has no (valid) part; write {of}"));
    }
    parts.unwrap_or_else(|| vec![KeyPart::ClientAddress])
}

fn read_key_part(path: &str, json: &Json, problems: &mut Problems) -> Option<KeyPart> {
    const EXPECTED: &str = "\"client_address\", \"host\", \"method\", \"country\", \"asn\", or an object with one of \
                            header, cookie, path, jwt_claim and metadata";
    match json {
        Json::Text(word) if word == "client_address" => return Some(KeyPart::ClientAddress),
        Json::Text(word) if word == "host" => return Some(KeyPart::Host),
        Json::Text(word) if word == "method" => return Some(KeyPart::Method),
        Json::Text(word) if word == "country" => return Some(KeyPart::Country),
        Json::Text(word) if word == "asn" => return Some(KeyPart::Asn),
        Json::Object(_) => {}
        other => return problems.wrong(path, other, EXPECTED),
    }
    const FIELDS: &[&str] =
        &["header", "cookie", "path", "jwt_claim", "payload", "metadata", "absent"];
    let object = Object::new(path, json, FIELDS, problems)?;
    let kinds = ["header", "cookie", "path", "jwt_claim", "metadata"];
    if kinds.iter().filter(|kind| object.field(kind).is_some()).count() != 1 {
        return problems.add(path, format_args!("it is not one part; write {EXPECTED}"));
    }
    // What would have no effect is refused.
    if object.field("payload").is_some() && object.field("jwt_claim").is_none() {
        let path = object.path_of("payload");
        return problems.add(&path, format_args!("only a jwt_claim has one; remove it"));
    }
    if object.field("absent").is_some() && object.field("path").is_some() {
        let path = object.path_of("absent");
        return problems.add(&path, format_args!("every request has a path; remove it"));
    }
    let absent = read_absent(&object, problems);
    if object.field("header").is_some() {
        let name = read_plain_name(&object, "header", problems)?.to_ascii_lowercase();
        return Some(KeyPart::Header(name, absent));
    }
    if object.field("cookie").is_some() {
        let name = read_plain_name(&object, "cookie", problems)?.to_owned().into_bytes();
        return Some(KeyPart::Cookie(name, absent));
    }
    if object.field("path").is_some() {
        let of = "templates such as \"/users/{id}\"";
        let templates = object.texts("path", MATCHES_MAX, of, problems, Template::parse)?;
        if templates.is_empty() {
            // All paths would be the other ones: as an empty key.
            let path = object.path_of("path");
            return problems.add(&path, format_args!("it has no (valid) one; write {of}"));
        }
        return Some(KeyPart::Path(templates));
    }
    read_metadata(&object, problems).map(|keys| KeyPart::Metadata(keys, absent))
}

/// Which metadata: that of the claim of a token, or any.
fn read_metadata(object: &Object<'_>, problems: &mut Problems) -> Option<Vec<String>> {
    if object.field("jwt_claim").is_some() {
        let claim = read_plain_name(object, "jwt_claim", problems)?;
        let payload = match object.field("payload") {
            Some(_) => read_plain_name(object, "payload", problems)?,
            None => "jwt_payload",
        };
        return Some([JWT_FILTER, payload, claim].map(str::to_owned).to_vec());
    }
    let of = "keys such as [\"filter.name\", \"key\"]";
    let keys = object.texts("metadata", METADATA_KEYS_MAX, of, problems, plain_name)?;
    match keys.len() {
        2.. => Some(keys),
        _ => problems.add(&object.path_of("metadata"), format_args!("write the {of}")),
    }
}

fn read_absent(object: &Object<'_>, problems: &mut Problems) -> Absent {
    match object.field("absent") {
        None => Absent::Address,
        Some(Json::Text(word)) if word == "address" => Absent::Address,
        Some(Json::Text(word)) if word == "shared" => Absent::Shared,
        Some(Json::Text(word)) if word == "skip" => Absent::Skip,
        Some(other) => {
            let path = object.path_of("absent");
            problems.wrong::<()>(&path, other, "\"address\", \"shared\" or \"skip\"");
            Absent::Address
        }
    }
}

/// A text that is a [`plain_name`].
fn read_plain_name<'a>(
    object: &Object<'a>,
    name: &str,
    problems: &mut Problems,
) -> Option<&'a str> {
    let path = object.path_of(name);
    match object.field(name)? {
        Json::Text(text) => match plain_name(text) {
            Ok(_) => Some(text),
            Err(error) => problems.add(&path, format_args!("{}: {error}", shown(text))),
        },
        other => problems.wrong(&path, other, "a name"),
    }
}

/// A name of a header, cookie or metadata key. NUL is what separates them in calls to the proxy.
fn plain_name(text: &str) -> Result<String, String> {
    let plain = (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control);
    match plain {
        true => Ok(text.to_owned()),
        false => Err(format!("write 1 to {NAME_BYTES_MAX} bytes without control characters")),
    }
}

pub(super) fn read_applies(object: &Object<'_>, problems: &mut Problems) -> Option<Applies> {
    let Some(json) = object.field("match") else {
        return Some(Applies::default());
    };
    let path = object.path_of("match");
    const FIELDS: &[&str] = &["methods", "paths", "hosts", "tags", "countries", "asns"];
    let object = Object::new(&path, json, FIELDS, problems)?;
    let upper = |text: &str| plain_name(text).map(|text| text.to_ascii_uppercase().into_bytes());
    let lower = |text: &str| plain_name(text).map(|text| text.to_ascii_lowercase().into_bytes());
    let methods = object.texts("methods", MATCHES_MAX, "methods such as \"POST\"", problems, upper);
    let of = "paths such as \"/login\" or \"/users/{id}\"";
    let paths = object.texts("paths", MATCHES_MAX, of, problems, Template::parse);
    let hosts = object.texts("hosts", MATCHES_MAX, "hosts, \"example.org\"", problems, lower);
    let tags = object.texts("tags", MATCHES_MAX, "tags of lists", problems, plain_name);
    let countries = super::geo::read_countries(&object, "countries", problems);
    let asns = super::asn::read_numbers(&object, "asns", problems);
    Some(Applies {
        tags: tags.unwrap_or_default(),
        countries,
        asns,
        methods: methods.unwrap_or_default(),
        paths: paths.unwrap_or_default(),
        hosts: hosts.unwrap_or_default(),
    })
}
