//! Countries, in the configuration.

use super::document::{Object, Problems};
use super::origin::{self, Origin};
use crate::feed::Kind;
use glacis_limits::geo::{Country, CountryTable};

/// More than there are.
const COUNTRIES_MAX: usize = 300;

/// Which country an address is of, and which are let in.
#[derive(Debug)]
pub(crate) struct Geo {
    pub(crate) source: Origin<CountryTable>,
    /// If it is not empty, all others are refused.
    pub(crate) allow: Vec<Country>,
    pub(crate) deny: Vec<Country>,
    /// Whether nothing is refused by its country, but only counted and noted.
    pub(crate) shadow: bool,
    /// Whether the upstream gets `x-glacis-country`.
    pub(crate) header: bool,
}

/// The countries of the configuration, if it has any.
pub(super) fn read(object: &Object<'_>, problems: &mut Problems) -> Option<Geo> {
    let json = object.field("geo")?;
    const FIELDS: &[&str] = &["table", "from_header", "feed", "allow", "deny", "shadow", "header"];
    let geo = Object::new("geo", json, FIELDS, problems)?;
    let source =
        origin::read(&geo, Kind::Countries, CountryTable::from_bytes, "glacis geo build", problems);
    let allow = read_countries(&geo, "allow", problems);
    let deny = read_countries(&geo, "deny", problems);
    let (shadow, header) = (geo.flag("shadow", problems), geo.flag("header", problems));
    Some(Geo { source: source?, allow, deny, shadow, header })
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
