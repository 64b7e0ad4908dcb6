//! Autonomous systems, in the configuration.

use super::document::{Object, Problems};
use super::origin::{self, Origin};
use crate::feed::Kind;
use crate::json::Json;
use glacis_limits::asn::AsnTable;

const NUMBERS_MAX: usize = 4_096;

/// Which autonomous system an address belongs to, and which are let in.
#[derive(Debug)]
pub(crate) struct Asn {
    pub(crate) source: Origin<AsnTable>,
    /// If it is not empty, all others are refused.
    pub(crate) allow: Vec<u32>,
    pub(crate) deny: Vec<u32>,
    /// Whether nothing is refused by its system, but only counted and noted.
    pub(crate) shadow: bool,
    /// Whether the upstream gets `x-glacis-asn`.
    pub(crate) header: bool,
}

/// The autonomous systems of the configuration, if it has any.
pub(super) fn read(object: &Object<'_>, problems: &mut Problems) -> Option<Asn> {
    let json = object.field("asn")?;
    const FIELDS: &[&str] = &["table", "from_header", "feed", "allow", "deny", "shadow", "header"];
    let asn = Object::new("asn", json, FIELDS, problems)?;
    let source =
        origin::read(&asn, Kind::Systems, AsnTable::from_bytes, "glacis geo build --asn", problems);
    let allow = read_numbers(&asn, "allow", problems);
    let deny = read_numbers(&asn, "deny", problems);
    let (shadow, header) = (asn.flag("shadow", problems), asn.flag("header", problems));
    Some(Asn { source: source?, allow, deny, shadow, header })
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
