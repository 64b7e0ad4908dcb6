//! Where a table of networks comes from, in the configuration: that of countries, or that of autonomous systems.

use super::document::{Object, Problems, shown};
use super::lists::read_feed_at;
use crate::feed::{Kind, Source};
use crate::json::Json;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::network_map::NetworkMapError;

const HEADER_BYTES_MAX: usize = 256;

/// Where it is looked up what an address belongs to.
#[derive(Debug)]
pub(crate) enum Origin<T> {
    Table(Box<T>),
    /// A header field that Envoy's own geoip filter, or another trusted one, has set.
    Header(String),
    /// The table is fetched again and again.
    Feed(Source),
}

impl<T> Origin<T> {
    /// Where the table is fetched from, if it is.
    pub(super) fn feed(&self) -> Option<&Source> {
        match self {
            Self::Feed(source) => Some(source),
            Self::Table(_) | Self::Header(_) => None,
        }
    }
}

/// The origin that one of the fields `table`, `from_header` and `feed` says. Tables are what the command prints.
pub(super) fn read<T>(
    object: &Object<'_>,
    kind: Kind,
    table: fn(&[u8]) -> Result<T, NetworkMapError>,
    command: &str,
    problems: &mut Problems,
) -> Option<Origin<T>> {
    let field = |name| object.field(name);
    match (field("table"), field("from_header"), field("feed")) {
        (Some(json), None, None) => {
            let path = object.path_of("table");
            read_table(&path, json, table, command, problems)
                .map(|table| Origin::Table(Box::new(table)))
        }
        (None, Some(json), None) => {
            read_header(&object.path_of("from_header"), json, problems).map(Origin::Header)
        }
        (None, None, Some(_)) => read_feed_at(object, "feed", kind, problems).map(Origin::Feed),
        _ => problems.add(object.path(), format_args!("write one of table, from_header and feed")),
    }
}

fn read_table<T>(
    path: &str,
    json: &Json,
    table: fn(&[u8]) -> Result<T, NetworkMapError>,
    command: &str,
    problems: &mut Problems,
) -> Option<T> {
    let Json::Text(text) = json else {
        return problems.wrong(path, json, "a table in base64");
    };
    let bytes = match STANDARD.decode(text) {
        Ok(bytes) => bytes,
        Err(error) => return problems.add(path, format_args!("it is not base64: {error}")),
    };
    match table(&bytes) {
        Ok(table) => Some(table),
        Err(error) => problems.add(path, format_args!("{error}; write what `{command}` prints")),
    }
}

fn read_header(path: &str, json: &Json, problems: &mut Problems) -> Option<String> {
    let Json::Text(name) = json else {
        return problems.wrong(path, json, "the name of a header");
    };
    let plain = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
    if plain && (1..=HEADER_BYTES_MAX).contains(&name.len()) {
        return Some(name.to_ascii_lowercase());
    }
    problems.add(path, format_args!("{}: write the name of a header", shown(name)))
}
