//! The address lists of a configuration.

use super::document::{Object, Problems, shown};
use crate::feed::{Format, Kind, Source};
use crate::json::Json;
use glacis_limits::cidr::{Cidr, CidrSet};
use glacis_limits::rate_headers::PolicyName;
use std::time::Duration;

/// The most entries of one list that stands in the configuration: 512 KiB to 2 MiB in each worker.
pub(super) const LIST_ENTRIES_MAX: usize = 65_536;
const FEEDS_MAX: usize = 4;
const REFRESH_SECONDS_MAX: u64 = 86_400;
const TIMEOUT_MS_MAX: u64 = 60_000;
/// A year.
const MAX_AGE_SECONDS_MAX: u64 = 31_536_000;
const TEXT_BYTES_MAX: usize = 1_024;

/// Networks that are refused, or that nothing applies to.
#[derive(Debug, Default)]
pub(crate) struct AddressLists {
    pub(crate) allow: CidrSet,
    pub(crate) deny: CidrSet,
    pub(crate) feeds: Vec<Source>,
    /// Whether no list refuses anything, but what one would is counted and noted.
    pub(crate) shadow: bool,
}

impl AddressLists {
    /// Whether a list is fetched that may refuse.
    pub(crate) fn has_enforced_feeds(&self) -> bool {
        self.feeds.iter().any(|feed| !feed.shadow)
    }
}

pub(super) fn read(object: &Object<'_>, problems: &mut Problems) -> AddressLists {
    let Some(json) = object.field("address_lists") else {
        return AddressLists::default();
    };
    let known = ["allow", "deny", "feeds", "shadow"];
    let Some(lists) = Object::new("address_lists", json, &known, problems) else {
        return AddressLists::default();
    };
    let (allow, deny) = (read_list(&lists, "allow", problems), read_list(&lists, "deny", problems));
    let read_list_feed = |path: &str, json: &Json, problems: &mut Problems| {
        read_feed(path, json, Kind::List, problems)
    };
    let feeds = lists.list("feeds", FEEDS_MAX, "feeds, [{ … }]", problems, read_list_feed);
    let feeds = feeds.unwrap_or_default();
    for (i, feed) in feeds.iter().enumerate() {
        if feeds.iter().take(i).any(|before| before.name == feed.name) {
            let path = format!("address_lists.feeds[{i}].name");
            problems.add::<()>(
                &path,
                format_args!(
                    "{:?} is the name of another feed, too; write another name",
                    feed.name
                ),
            );
        }
    }
    AddressLists { allow, deny, feeds, shadow: lists.flag("shadow", problems) }
}

fn read_list(lists: &Object<'_>, name: &str, problems: &mut Problems) -> CidrSet {
    let of = "addresses such as [\"192.0.2.0/24\"]";
    let parse = |text: &str| Cidr::parse(text);
    let entries = lists.texts(name, LIST_ENTRIES_MAX, of, problems, parse);
    entries.unwrap_or_default().into_iter().collect()
}

/// Where something else than a list is fetched from, in a field of its own. Its name, for logs, has a default.
pub(super) fn read_feed_at(
    object: &Object<'_>,
    name: &str,
    kind: Kind,
    problems: &mut Problems,
) -> Option<Source> {
    read_feed(&object.path_of(name), object.field(name)?, kind, problems)
}

fn read_feed(path: &str, json: &Json, kind: Kind, problems: &mut Problems) -> Option<Source> {
    const FIELDS: &[&str] = &[
        "name",
        "cluster",
        "authority",
        "path",
        "refresh_seconds",
        "timeout_ms",
        "required",
        "max_age_seconds",
    ];
    const LIST_FIELDS: &[&str] = &[
        "name",
        "cluster",
        "authority",
        "path",
        "refresh_seconds",
        "timeout_ms",
        "required",
        "max_age_seconds",
        "shadow",
        "format",
        "action",
    ];
    let known = if kind == Kind::List { LIST_FIELDS } else { FIELDS };
    let object = Object::new(path, json, known, problems)?;
    let default = match kind {
        Kind::List => None,
        Kind::Countries => Some("countries"),
        Kind::Systems => Some("asn"),
        Kind::Patches => Some("patches"),
    };
    let name = read_header_text(&object, "name", default, problems);
    let cluster = read_header_text(&object, "cluster", None, problems);
    let path = read_header_text(&object, "path", None, problems);
    let authority = read_header_text(&object, "authority", cluster, problems);
    let refresh_seconds = object.whole("refresh_seconds", 60, 1, REFRESH_SECONDS_MAX, problems);
    let timeout_ms = object.whole("timeout_ms", 2_000, 10, TIMEOUT_MS_MAX, problems);
    let required = object.flag("required", problems);
    let shadow = kind == Kind::List && object.flag("shadow", problems);
    let max_age_seconds = read_max_age(&object, refresh_seconds, problems);
    let format = match kind {
        Kind::List => read_format(&object, name, problems),
        Kind::Countries | Kind::Systems | Kind::Patches => Format::Own,
    };
    if let Some(Err(error)) = name.map(PolicyName::new) {
        return problems.add(&object.path_of("name"), format_args!("{error}"));
    }
    if path.is_some_and(|path| !path.starts_with('/')) {
        let at = object.path_of("path");
        return problems
            .add(&at, format_args!("it does not begin with '/'; write such as /block.txt"));
    }
    Some(Source {
        kind,
        name: name?.to_owned(),
        cluster: cluster?.to_owned(),
        authority: authority?.to_owned(),
        path: path?.to_owned(),
        refresh_seconds,
        timeout: Duration::from_millis(timeout_ms),
        required,
        shadow,
        format,
        max_age_seconds,
    })
}

/// How a list is written, and what a plain one says of its networks.
fn read_format(object: &Object<'_>, name: Option<&str>, problems: &mut Problems) -> Format {
    let plain = match object.field("format") {
        None => false,
        Some(Json::Text(word)) if word == "glacis" => false,
        Some(Json::Text(word)) if word == "plain" => true,
        Some(other) => {
            problems.wrong::<()>(&object.path_of("format"), other, "\"glacis\" or \"plain\"");
            return Format::Own;
        }
    };
    let at = object.path_of("action");
    let mark = match object.field("action") {
        Some(_) if !plain => {
            let rule = "only a plain list has one; write \"format\": \"plain\", or remove it";
            problems.add::<()>(&at, format_args!("{rule}"));
            return Format::Own;
        }
        None => "deny".to_owned(),
        Some(Json::Text(word)) if word == "deny" || word == "allow" => word.clone(),
        Some(Json::Text(word)) if word == "tag" => format!("tag={}", name.unwrap_or_default()),
        Some(other) => {
            problems.wrong::<()>(&at, other, "\"deny\", \"allow\" or \"tag\"");
            return Format::Own;
        }
    };
    if mark.contains('/') {
        let rule = "the tag is the name of the list; write that without '/'";
        problems.add::<()>(&at, format_args!("{rule}"));
    }
    if plain { Format::Plain(mark) } else { Format::Own }
}

/// How long after its last good answer a feed is stale.
fn read_max_age(object: &Object<'_>, refresh_seconds: u64, problems: &mut Problems) -> Option<u64> {
    object.field("max_age_seconds")?;
    let seconds =
        object.whole("max_age_seconds", MAX_AGE_SECONDS_MAX, 1, MAX_AGE_SECONDS_MAX, problems);
    if seconds < refresh_seconds {
        let at = object.path_of("max_age_seconds");
        let rule =
            format_args!("it is {seconds}; write at least refresh_seconds, {refresh_seconds}");
        return problems.add(&at, rule);
    }
    Some(seconds)
}

/// A text that can stand in a header field; `default` if there is none.
pub(super) fn read_header_text<'a>(
    object: &Object<'a>,
    name: &str,
    default: Option<&'a str>,
    problems: &mut Problems,
) -> Option<&'a str> {
    let path = object.path_of(name);
    match (object.field(name), default) {
        (None, Some(default)) => Some(default),
        (None, None) => problems.add(&path, format_args!("it is missing; write a text")),
        (Some(Json::Text(text)), _) => {
            let plain = text.bytes().all(|byte| byte.is_ascii_graphic());
            if plain && (1..=TEXT_BYTES_MAX).contains(&text.len()) {
                return Some(text);
            }
            let text = shown(text);
            problems.add(
                &path,
                format_args!("{text}: write 1 to {TEXT_BYTES_MAX} visible characters of ASCII"),
            )
        }
        (Some(other), _) => problems.wrong(&path, other, "a text"),
    }
}
