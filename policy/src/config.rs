//! The plugin configuration: JSON text to checked values.
//!
//! All that is wrong is reported at once, each with its path in the document, what is wrong, and
//! what to write instead. README.md documents the fields.

mod asn;
mod bots;
mod document;
mod first_verdict;
mod geo;
mod guard;
mod lease;
mod limit;
mod lists;
mod origin;
mod pending;
#[cfg(test)]
mod schema;

use crate::bots::Bots;
use crate::feed::{Kind, Source};
use crate::guard::Guard;
use crate::json::{self, Json};
use crate::pending::Settings;
use crate::rate_limit::{Applies, KeyPart, RateLimit};
pub(crate) use asn::Asn;
use document::{Object, Problems};
pub use first_verdict::{FirstVerdict, RuleText};
pub(crate) use geo::Geo;
use glacis_limits::feed::PATCHES_MAX;
use glacis_limits::patch::Patch;
pub(crate) use lists::AddressLists;
pub(crate) use origin::Origin;
pub(crate) use pending::NAME as PENDING_BODIES;
use std::fmt;

/// The longest configuration, in bytes.
pub const CONFIG_BYTES_MAX: usize = 8 << 20;
/// More proxies in a row than this are a mistake.
const TRUSTED_HOPS_MAX: u64 = 16;
/// How much of a text that is no JSON is shown, in bytes.
const START_BYTES: usize = 24;

const FIELDS: &[&str] = &[
    "address_lists",
    "geo",
    "asn",
    "bots",
    "virtual_patches",
    "virtual_patch_feed",
    "trusted_hops",
    "failure_mode",
    "rate_limits",
    "virtual_patch_shadow",
    "pending_bodies",
    "first_verdict",
    "guard",
];

/// A configuration, checked.
#[derive(Debug)]
pub struct Config {
    pub(crate) lists: AddressLists,
    pub(crate) geo: Option<Geo>,
    pub(crate) asn: Option<Asn>,
    pub(crate) bots: Option<Bots>,
    pub(crate) patches: Vec<Patch>,
    /// Whether no patch refuses anything, neither of these nor of those that are fetched.
    pub(crate) patch_shadow: bool,
    /// All that is fetched.
    pub(crate) feeds: Vec<Source>,
    /// Proxies in front of Envoy whose word on the client's address is taken.
    pub trusted_hops: u8,
    pub(crate) failure_mode: FailureMode,
    pub(crate) rate_limits: Vec<RateLimit>,
    pub(crate) pending_bodies: Option<Settings>,
    /// The rules for first verdicts, for hosts that give any.
    pub first_verdict: Option<FirstVerdict>,
    pub(crate) guard: Option<Guard>,
}

/// What happens to a request for which there is no decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureMode {
    /// It goes on.
    Open,
    /// It is answered 503.
    Closed,
}

/// Everything that is wrong with a configuration. The operator is to blame.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join(" | "))
    }
}

impl Config {
    /// Reads a configuration.
    ///
    /// # Errors
    /// All that is wrong with it, each with its path in the document.
    pub fn parse(text: &[u8]) -> Result<Self, ConfigError> {
        let mut problems = Problems::default();
        let config = read(text, &mut problems);
        match config {
            Some(config) if problems.told.is_empty() => Ok(config),
            _ => Err(ConfigError { problems: problems.told }),
        }
    }
}

impl Config {
    /// The first limit that tells clients apart by metadata below a key of a namespace, such as a claim of a token, for
    /// hosts that read keys of a namespace only.
    pub fn nested_metadata(&self) -> Option<&str> {
        let is_nested =
            |part: &KeyPart| matches!(part, KeyPart::Metadata(keys, _) if keys.len() > 2);
        let limit = self.rate_limits.iter().find(|limit| limit.key.iter().any(is_nested));
        limit.map(|limit| limit.name.as_str())
    }
}

fn read(text: &[u8], problems: &mut Problems) -> Option<Config> {
    let json = read_json(text, problems)?;
    let object = Object::new("$", &json, FIELDS, problems)?;
    let lists = lists::read(&object, problems);
    let trusted_hops = object.whole("trusted_hops", 0, 0, TRUSTED_HOPS_MAX, problems);
    let failure_mode = read_failure_mode(&object, problems);
    let geo = geo::read(&object, problems);
    let asn = asn::read(&object, problems);
    let bots = bots::read(&object, problems);
    let patches = read_patches(&object, problems);
    let patch_feed = lists::read_feed_at(&object, "virtual_patch_feed", Kind::Patches, problems);
    let patch_shadow = object.flag("virtual_patch_shadow", problems);
    let rate_limits = limit::read_all(&object, problems);
    let pending_bodies = pending::read(&object, &rate_limits, problems);
    let first_verdict = first_verdict::read(&object, problems);
    let guard = guard::read(&object, problems);
    check_beside_guard(&object, problems);
    check_origins(&object, &rate_limits, first_verdict.as_ref(), problems);
    let trusted_hops = u8::try_from(trusted_hops).ok()?;
    let of_countries = geo.as_ref().and_then(|geo| geo.source.feed());
    let of_systems = asn.as_ref().and_then(|asn| asn.source.feed());
    let tables = [of_countries, of_systems];
    let tables = tables.into_iter().flatten().cloned();
    let feeds = lists.feeds.iter().cloned().chain(tables).chain(patch_feed).collect();
    Some(Config {
        feeds,
        lists,
        geo,
        asn,
        bots,
        patches,
        patch_shadow,
        trusted_hops,
        failure_mode,
        rate_limits,
        pending_bodies,
        first_verdict,
        guard,
    })
}

/// Who asks for the country or the autonomous system of clients needs something that says it.
fn check_origins(
    object: &Object<'_>,
    rate_limits: &[RateLimit],
    first_verdict: Option<&FirstVerdict>,
    problems: &mut Problems,
) {
    type Asks = fn(&Applies) -> bool;
    let kinds: [(&str, &str, KeyPart, Asks); 2] = [
        ("geo", "country", KeyPart::Country, |applies| !applies.countries.is_empty()),
        ("asn", "autonomous system", KeyPart::Asn, |applies| !applies.asns.is_empty()),
    ];
    for (field, what, part, asks) in kinds {
        if object.field(field).is_some() {
            continue;
        }
        let by_limit = |limit: &RateLimit| limit.key.contains(&part) || asks(&limit.applies);
        if rate_limits.iter().any(by_limit) {
            problems.add::<()>(
                "rate_limits",
                format_args!(
                    "a limit asks for the {what}, but nothing says which it is; write {field}"
                ),
            );
        }
        if first_verdict.is_some_and(|first| asks(&first.applies)) {
            problems.add::<()>(
                "first_verdict.match",
                format_args!("it asks for the {what}, but nothing says which it is; write {field}"),
            );
        }
    }
}

/// What stands beside a guard would have no effect, and somebody would rely on it.
fn check_beside_guard(object: &Object<'_>, problems: &mut Problems) {
    if object.field("guard").is_none() {
        return;
    }
    for name in FIELDS.iter().filter(|name| **name != "guard" && object.field(name).is_some()) {
        problems.add::<()>(
            &object.path_of(name),
            format_args!(
                "a guard looks at nothing else; remove it, or configure another filter for it"
            ),
        );
    }
}

/// The text as JSON.
fn read_json(text: &[u8], problems: &mut Problems) -> Option<Json> {
    if text.len() > CONFIG_BYTES_MAX {
        let rule = format_args!("it has more than {CONFIG_BYTES_MAX} bytes; write a shorter one");
        return problems.add("$", rule);
    }
    if text.trim_ascii().is_empty() {
        let rule = "there is no configuration; write a JSON object, at least {}";
        return problems.add("$", format_args!("{rule}"));
    }
    match json::parse(text) {
        Ok(json) => Some(json),
        Err(error) => {
            let start = String::from_utf8_lossy(text.get(..START_BYTES).unwrap_or(text));
            problems.add(
                "$",
                format_args!(
                    "it cannot be read as JSON: {error}; it begins with {start:?}; write JSON \
                     text, in a google.protobuf.StringValue"
                ),
            )
        }
    }
}

fn read_patches(object: &Object<'_>, problems: &mut Problems) -> Vec<Patch> {
    let of = "patches, as `glacis patches filter` prints them";
    let read =
        |path: &str, json: &Json, problems: &mut Problems| match Patch::read(&json.to_value()) {
            Ok(patch) => Some(patch),
            Err(error) if error.path.is_empty() => {
                problems.add(path, format_args!("{}", error.problem))
            }
            Err(error) => problems.add(path, format_args!("in {error}")),
        };
    object.list("virtual_patches", PATCHES_MAX, of, problems, read).unwrap_or_default()
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

#[cfg(test)]
mod tests;
