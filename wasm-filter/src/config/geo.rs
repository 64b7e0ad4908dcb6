//! Countries, in the configuration.

use super::document::{Object, Problems, shown};
use super::lists::read_feed_at;
use crate::feed::{Kind, Source};
use crate::json::Json;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::geo::{Country, CountryTable};

/// More than there are.
const COUNTRIES_MAX: usize = 300;
const HEADER_BYTES_MAX: usize = 256;

/// Which country an address is of, and which are let in.
#[derive(Debug)]
pub(crate) struct Geo {
    pub(crate) source: GeoSource,
    /// If it is not empty, all others are refused.
    pub(crate) allow: Vec<Country>,
    pub(crate) deny: Vec<Country>,
    /// Whether the upstream gets `x-glacis-country`.
    pub(crate) header: bool,
}

/// Where a country comes from.
#[derive(Debug)]
pub(crate) enum GeoSource {
    Table(Box<CountryTable>),
    /// A header field that Envoy's own geoip filter, or another trusted one, has set.
    Header(String),
    /// It is fetched again and again.
    Feed(Source),
}

impl Geo {
    /// Where the table is fetched from, if it is.
    pub(super) fn feed(&self) -> Option<&Source> {
        match &self.source {
            GeoSource::Feed(source) => Some(source),
            GeoSource::Table(_) | GeoSource::Header(_) => None,
        }
    }
}

/// The countries of the configuration, if it has any.
pub(super) fn read(object: &Object<'_>, problems: &mut Problems) -> Option<Geo> {
    let json = object.field("geo")?;
    const FIELDS: &[&str] = &["table", "from_header", "feed", "allow", "deny", "header"];
    let geo = Object::new("geo", json, FIELDS, problems)?;
    let source = read_source(&geo, problems);
    let allow = read_countries(&geo, "allow", problems);
    let deny = read_countries(&geo, "deny", problems);
    Some(Geo { source: source?, allow, deny, header: geo.flag("header", problems) })
}

fn read_source(geo: &Object<'_>, problems: &mut Problems) -> Option<GeoSource> {
    if geo.field("feed").is_some() {
        if geo.field("table").is_some() || geo.field("from_header").is_some() {
            let rule = "write one of table, from_header and feed";
            return problems.add("geo", format_args!("{rule}"));
        }
        return read_feed_at(geo, "feed", Kind::Countries, problems).map(GeoSource::Feed);
    }
    match (geo.field("table"), geo.field("from_header")) {
        (Some(Json::Text(text)), None) => {
            let bytes = match STANDARD.decode(text) {
                Ok(bytes) => bytes,
                Err(error) => {
                    return problems.add("geo.table", format_args!("it is not base64: {error}"));
                }
            };
            match CountryTable::from_bytes(&bytes) {
                Ok(table) => Some(GeoSource::Table(Box::new(table))),
                Err(error) => problems.add(
                    "geo.table",
                    format_args!("{error}; write what `glacis geo build` prints"),
                ),
            }
        }
        (Some(other), None) => problems.wrong("geo.table", other, "a table in base64"),
        (None, Some(Json::Text(name))) => {
            let plain = name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
            if plain && (1..=HEADER_BYTES_MAX).contains(&name.len()) {
                return Some(GeoSource::Header(name.to_ascii_lowercase()));
            }
            let name = shown(name);
            problems.add("geo.from_header", format_args!("{name}: write the name of a header"))
        }
        (None, Some(other)) => problems.wrong("geo.from_header", other, "the name of a header"),
        _ => problems.add("geo", format_args!("write one of table, from_header and feed")),
    }
}

/// Countries as a list names them.
pub(super) fn read_countries(
    object: &Object<'_>,
    name: &str,
    problems: &mut Problems,
) -> Vec<Country> {
    let of = "countries such as \"DE\", or \"ZZ\" for unknown";
    let parse = |text: &str| Country::parse(text).ok_or_else(|| format!("write {of}"));
    object.texts(name, COUNTRIES_MAX, of, problems, parse).unwrap_or_default()
}
