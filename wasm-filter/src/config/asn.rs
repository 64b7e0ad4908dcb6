//! Autonomous systems, in the configuration.

use super::document::{Object, Problems, shown};
use super::lists::read_feed_at;
use crate::feed::{Kind, Source};
use crate::json::Json;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::asn::AsnTable;

const NUMBERS_MAX: usize = 4_096;
const HEADER_BYTES_MAX: usize = 256;

/// Which autonomous system an address belongs to, and which are let in.
#[derive(Debug)]
pub(crate) struct Asn {
    pub(crate) source: AsnSource,
    /// If it is not empty, all others are refused.
    pub(crate) allow: Vec<u32>,
    pub(crate) deny: Vec<u32>,
    /// Whether the upstream gets `x-glacis-asn`.
    pub(crate) header: bool,
}

/// Where the number comes from.
#[derive(Debug)]
pub(crate) enum AsnSource {
    Table(Box<AsnTable>),
    /// A header field that Envoy's own geoip filter, or another trusted one, has set.
    Header(String),
    /// It is fetched again and again.
    Feed(Source),
}

impl Asn {
    /// Where the table is fetched from, if it is.
    pub(super) fn feed(&self) -> Option<&Source> {
        match &self.source {
            AsnSource::Feed(source) => Some(source),
            AsnSource::Table(_) | AsnSource::Header(_) => None,
        }
    }
}

/// The autonomous systems of the configuration, if it has any.
pub(super) fn read(object: &Object<'_>, problems: &mut Problems) -> Option<Asn> {
    let json = object.field("asn")?;
    const FIELDS: &[&str] = &["table", "from_header", "feed", "allow", "deny", "header"];
    let asn = Object::new("asn", json, FIELDS, problems)?;
    let source = read_source(&asn, problems);
    let allow = read_numbers(&asn, "allow", problems);
    let deny = read_numbers(&asn, "deny", problems);
    Some(Asn { source: source?, allow, deny, header: asn.flag("header", problems) })
}

fn read_source(asn: &Object<'_>, problems: &mut Problems) -> Option<AsnSource> {
    if asn.field("feed").is_some() {
        if asn.field("table").is_some() || asn.field("from_header").is_some() {
            let rule = "write one of table, from_header and feed";
            return problems.add("asn", format_args!("{rule}"));
        }
        return read_feed_at(asn, "feed", Kind::Systems, problems).map(AsnSource::Feed);
    }
    match (asn.field("table"), asn.field("from_header")) {
        (Some(Json::Text(text)), None) => {
            let bytes = match STANDARD.decode(text) {
                Ok(bytes) => bytes,
                Err(error) => {
                    return problems.add("asn.table", format_args!("it is not base64: {error}"));
                }
            };
            match AsnTable::from_bytes(&bytes) {
                Ok(table) => Some(AsnSource::Table(Box::new(table))),
                Err(error) => problems.add(
                    "asn.table",
                    format_args!("{error}; write what `glacis geo build --asn` prints"),
                ),
            }
        }
        (Some(other), None) => problems.wrong("asn.table", other, "a table in base64"),
        (None, Some(Json::Text(name))) => {
            let plain = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
            if plain && (1..=HEADER_BYTES_MAX).contains(&name.len()) {
                return Some(AsnSource::Header(name.to_ascii_lowercase()));
            }
            let name = shown(name);
            problems.add("asn.from_header", format_args!("{name}: write the name of a header"))
        }
        (None, Some(other)) => problems.wrong("asn.from_header", other, "the name of a header"),
        _ => problems.add("asn", format_args!("write one of table, from_header and feed")),
    }
}

/// Numbers of systems as a list has them; 0 is an address of which nothing is known.
pub(super) fn read_numbers(object: &Object<'_>, name: &str, problems: &mut Problems) -> Vec<u32> {
    let of = "numbers of autonomous systems such as 64496, or 0 for unknown";
    let read = |path: &str, json: &Json, problems: &mut Problems| match json {
        Json::Whole(number) if u32::try_from(*number).is_ok() => u32::try_from(*number).ok(),
        other => problems.wrong(path, other, "a whole number from 0 to 4294967295"),
    };
    object.list(name, NUMBERS_MAX, of, problems, read).unwrap_or_default()
}
