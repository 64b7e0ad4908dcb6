//! The guard, in the configuration.

use super::document::{Object, Problems, shown};
use crate::guard::{Guard, Missing, Route};
use crate::json::Json;

const ROUTES_MAX: usize = 256;
const VERDICTS_MAX: usize = 8;
const NAME_BYTES_MAX: usize = 256;

/// The guard of the configuration, if there is one.
pub(super) fn read(object: &Object<'_>, problems: &mut Problems) -> Option<Guard> {
    let json = object.field("guard")?;
    const FIELDS: &[&str] = &["missing", "verdicts", "clean", "routes"];
    let own = Object::new("guard", json, FIELDS, problems)?;
    let missing = read_missing(&own, problems).unwrap_or(Missing::Deny);
    let of = "verdicts of receipts such as \"allow\"";
    let verdicts = own.texts("verdicts", VERDICTS_MAX, of, problems, name);
    let read = |path: &str, json: &Json, problems: &mut Problems| route(path, json, problems);
    let routes = own.list("routes", ROUTES_MAX, "routes, [{ … }]", problems, read);
    Some(Guard {
        missing,
        verdicts: verdicts.unwrap_or_else(|| vec!["allow".to_owned()]),
        clean: own.flag("clean", problems),
        routes: routes.unwrap_or_default(),
    })
}

fn route(path: &str, json: &Json, problems: &mut Problems) -> Option<Route> {
    let own = Object::new(path, json, &["name", "missing"], problems)?;
    let missing = read_missing(&own, problems);
    let path = own.path_of("name");
    let name = match own.field("name") {
        Some(Json::Text(text)) => name(text)
            .map_err(|rule| problems.add::<()>(&path, format_args!("{}: {rule}", shown(text))))
            .ok(),
        Some(other) => problems.wrong(&path, other, "the name of a route"),
        None => problems.add(&path, format_args!("it is missing; write the name of a route")),
    };
    if own.field("missing").is_none() {
        let path = own.path_of("missing");
        return problems.add(&path, format_args!("it is missing; write \"deny\" or \"allow\""));
    }
    Some(Route { name: name?, missing: missing? })
}

fn read_missing(own: &Object<'_>, problems: &mut Problems) -> Option<Missing> {
    match own.field("missing") {
        None => None,
        Some(Json::Text(text)) if text == "deny" => Some(Missing::Deny),
        Some(Json::Text(text)) if text == "allow" => Some(Missing::Allow),
        Some(other) => problems.wrong(&own.path_of("missing"), other, "\"deny\" or \"allow\""),
    }
}

fn name(text: &str) -> Result<String, String> {
    let plain = text.bytes().all(|byte| !byte.is_ascii_control());
    match plain && (1..=NAME_BYTES_MAX).contains(&text.len()) {
        true => Ok(text.to_owned()),
        false => Err(format!("write 1 to {NAME_BYTES_MAX} bytes without control characters")),
    }
}
