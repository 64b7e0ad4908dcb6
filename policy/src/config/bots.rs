//! Signs of bots, in the configuration.

use super::document::{Object, Problems, shown};
use crate::bots::{Action, Bots, CRAWLERS, SCANNERS, SCORE_MAX, Settings, Signature, TOOLS};
use crate::json::Json;
use glacis_limits::cidr::{Cidr, CidrSet};

/// As many of the operator's own.
const SIGNATURES_MAX: usize = 256;
const CONTAINS_BYTES_MIN: usize = 3;
const CONTAINS_BYTES_MAX: usize = 128;
const NAME_BYTES_MAX: usize = 64;
/// Googlebot has some hundreds.
const NETWORKS_MAX: usize = 4_096;
const FINGERPRINTS_MAX: usize = 4_096;
const FINGERPRINT_BYTES_MAX: usize = 64;
const THRESHOLD_DEFAULT: u64 = 4;

/// The checks of the configuration, if it has any.
pub(super) fn read(object: &Object<'_>, problems: &mut Problems) -> Option<Bots> {
    let json = object.field("bots")?;
    const FIELDS: &[&str] = &[
        "scanners",
        "tools",
        "signatures",
        "crawlers",
        "browser_score",
        "tls_fingerprints",
        "shadow",
        "header",
    ];
    let bots = Object::new("bots", json, FIELDS, problems)?;
    let scanners = read_action(&bots, "scanners", Action::Deny, problems);
    let signatures = read_signatures(&bots, scanners, problems);
    let (networks, outside) = read_crawlers(&bots, problems);
    let (threshold, browser) = read_browser_score(&bots, problems);
    let (ja3, ja4, tls) = read_fingerprints(&bots, problems);
    let settings = Settings {
        signatures,
        networks,
        outside,
        threshold,
        browser,
        ja3,
        ja4,
        tls,
        shadow: bots.flag("shadow", problems),
        header: bots.flag("header", problems),
        long_agent: scanners.unwrap_or(Action::Tag),
    };
    match Bots::new(settings) {
        Ok(bots) => Some(bots),
        Err(error) => problems.add("bots.signatures", format_args!("{error}; write fewer")),
    }
}

/// Deny, tag, or `None` for off.
fn read_action(
    object: &Object<'_>,
    name: &str,
    default: Action,
    problems: &mut Problems,
) -> Option<Action> {
    match object.field(name) {
        None => Some(default),
        Some(Json::Text(word)) if word == "deny" => Some(Action::Deny),
        Some(Json::Text(word)) if word == "tag" => Some(Action::Tag),
        Some(Json::Text(word)) if word == "off" => None,
        Some(other) => problems.wrong(&object.path_of(name), other, "\"deny\", \"tag\" or \"off\""),
    }
}

/// An action where there is no "off".
fn read_deny_or_tag(object: &Object<'_>, default: Action, problems: &mut Problems) -> Action {
    match object.field("action") {
        None => default,
        Some(Json::Text(word)) if word == "deny" => Action::Deny,
        Some(Json::Text(word)) if word == "tag" => Action::Tag,
        Some(other) => {
            problems.wrong::<()>(&object.path_of("action"), other, "\"deny\" or \"tag\"");
            default
        }
    }
}

/// The operator's own, and those of ours that they do not replace.
fn read_signatures(
    bots: &Object<'_>,
    scanners: Option<Action>,
    problems: &mut Problems,
) -> Vec<Signature> {
    let of = "signatures, [{ … }]";
    let own = bots.list("signatures", SIGNATURES_MAX, of, problems, read_signature);
    let own = own.unwrap_or_default();
    let mut signatures = Vec::new();
    let tools = read_action(bots, "tools", Action::Tag, problems);
    for (kind, known, action) in [("scanner", SCANNERS, scanners), ("tool", TOOLS, tools)] {
        let Some(action) = action else { continue };
        let kept = known.iter().filter(|(name, _)| own.iter().all(|(other, ..)| other != name));
        signatures.extend(kept.map(|(name, contains)| Signature {
            tag: format!("bot.{kind}.{name}"),
            contains: contains.trim_start().to_owned(),
            begins_name: contains.starts_with(' '),
            action,
        }));
    }
    signatures.extend(own.into_iter().filter_map(|(name, contains, action)| {
        let tag = format!("bot.signature.{name}");
        Some(Signature { tag, contains, begins_name: false, action: action? })
    }));
    signatures
}

fn read_signature(
    path: &str,
    json: &Json,
    problems: &mut Problems,
) -> Option<(String, String, Option<Action>)> {
    let object = Object::new(path, json, &["name", "contains", "action"], problems)?;
    let name = read_text_of_bytes(&object, "name", 1..=NAME_BYTES_MAX, is_name_byte, problems);
    let lengths = CONTAINS_BYTES_MIN..=CONTAINS_BYTES_MAX;
    let is_visible = |byte: u8| (0x20..0x7f).contains(&byte);
    let contains = read_text_of_bytes(&object, "contains", lengths, is_visible, problems);
    let action = read_action(&object, "action", Action::Tag, problems);
    Some((name?, contains?, action))
}

/// Those of tags of lists.
fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// A text of so many bytes, all of which fit.
fn read_text_of_bytes(
    object: &Object<'_>,
    name: &str,
    lengths: std::ops::RangeInclusive<usize>,
    fits: impl Fn(u8) -> bool,
    problems: &mut Problems,
) -> Option<String> {
    let path = object.path_of(name);
    match object.field(name) {
        Some(Json::Text(text)) if lengths.contains(&text.len()) && text.bytes().all(fits) => {
            Some(text.clone())
        }
        Some(Json::Text(text)) => {
            let (text, min, max) = (shown(text), lengths.start(), lengths.end());
            let kind = match name {
                "name" => "letters, digits, '-', '_' and '.'",
                _ => "visible characters of ASCII and spaces",
            };
            problems.add(&path, format_args!("{text}: write {min} to {max} {kind}"))
        }
        Some(other) => problems.wrong(&path, other, "a text"),
        None => problems.add(&path, format_args!("it is missing; write a text")),
    }
}

fn read_crawlers(bots: &Object<'_>, problems: &mut Problems) -> (Vec<(String, CidrSet)>, Action) {
    let none = (Vec::new(), Action::Tag);
    let Some(json) = bots.field("crawlers") else { return none };
    let Some(object) = Object::new("bots.crawlers", json, &["networks", "action"], problems) else {
        return none;
    };
    let action = read_deny_or_tag(&object, Action::Tag, problems);
    let known: Vec<_> = CRAWLERS.iter().map(|(name, _)| *name).collect();
    let path = object.path_of("networks");
    let networks = object.field("networks");
    let Some(networks) = networks.and_then(|json| Object::new(&path, json, &known, problems))
    else {
        return (Vec::new(), action);
    };
    let of = "addresses such as [\"192.0.2.0/24\"]";
    let mut read = |name: &&str| {
        let parse = |text: &str| Cidr::parse(text);
        let list = networks.texts(name, NETWORKS_MAX, of, problems, parse)?;
        Some(((*name).to_owned(), list.into_iter().collect()))
    };
    (known.iter().filter_map(&mut read).collect(), action)
}

fn read_browser_score(bots: &Object<'_>, problems: &mut Problems) -> (u8, Action) {
    let default = (THRESHOLD_DEFAULT as u8, Action::Tag);
    let Some(json) = bots.field("browser_score") else { return default };
    let known = ["threshold", "action"];
    let Some(object) = Object::new("bots.browser_score", json, &known, problems) else {
        return default;
    };
    let max = u64::from(SCORE_MAX);
    let threshold = object.whole("threshold", THRESHOLD_DEFAULT, 1, max, problems);
    let action = read_deny_or_tag(&object, Action::Tag, problems);
    (u8::try_from(threshold).unwrap_or(SCORE_MAX), action)
}

fn read_fingerprints(
    bots: &Object<'_>,
    problems: &mut Problems,
) -> (Vec<String>, Vec<String>, Action) {
    let none = (Vec::new(), Vec::new(), Action::Deny);
    let Some(json) = bots.field("tls_fingerprints") else { return none };
    let known = ["ja3", "ja4", "action"];
    let Some(object) = Object::new("bots.tls_fingerprints", json, &known, problems) else {
        return none;
    };
    let ja3 = read_prints(&object, "ja3", "32 digits of a hexadecimal number", is_ja3, problems);
    let ja4 =
        read_prints(&object, "ja4", "three groups joined by '_', t13d…_…_…", is_ja4, problems);
    (ja3, ja4, read_deny_or_tag(&object, Action::Deny, problems))
}

fn read_prints(
    object: &Object<'_>,
    name: &str,
    of: &str,
    is: fn(&str) -> bool,
    problems: &mut Problems,
) -> Vec<String> {
    let parse = |text: &str| match is(text) {
        true => Ok(text.to_ascii_lowercase()),
        false => Err(format!("write {of}")),
    };
    let list = object.texts(name, FINGERPRINTS_MAX, of, problems, parse);
    let mut list = list.unwrap_or_default();
    list.sort_unstable();
    list
}

fn is_ja3(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_ja4(text: &str) -> bool {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    plain && text.len() <= FINGERPRINT_BYTES_MAX && text.split('_').count() == 3
}
