//! The configuration as a document, for people: what is in the file, over the defaults, with secrets masked.
//!
//! The defaults are those of the documented file, which is the same as `Config::default()` (a test says
//! so): what is added to the configuration is here without a line of code.

use std::path::{Path, PathBuf};

use glacis_inspector::Redaction;
use glacis_service::config::{ConfigError, document, load_document};
use serde_json::{Map, Value};

/// The documented file.
const DEFAULTS: &str = include_str!("../glacis-ext-proc.yaml");

/// What stands in the place of a secret.
const MASK: &str = "[redacted]";

/// Keys of names that people choose: they say nothing of the values.
const NAMES: [&str; 2] = ["profiles", "routes"];

/// A configuration file that was read.
#[derive(Clone, Debug, Default)]
pub struct Document {
    path: PathBuf,
    given: Map<String, Value>,
}

impl Document {
    /// Reads the file `path`, which has been found good.
    ///
    /// # Errors
    /// As for the configuration.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let given = load_document(path)?;
        Ok(Self { path: path.to_owned(), given: given.as_object().cloned().unwrap_or_default() })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is in the file, without defaults.
    pub(crate) const fn given(&self) -> &Map<String, Value> {
        &self.given
    }

    /// The configuration in effect, or that of one profile; `None` when there is no such profile.
    pub(crate) fn effective(&self, profile: Option<&str>) -> Option<Value> {
        let mut whole = document(DEFAULTS).unwrap_or_default();
        overlay(&mut whole, Value::Object(self.given.clone()));
        let Some(name) = profile.filter(|name| whole.get("profile").is_none_or(|top| top != name))
        else {
            if profile.is_some() {
                clear_profiles(&mut whole);
            }
            return Some(whole);
        };
        let own = self.given.get("profiles")?.get(name)?.as_object().cloned().unwrap_or_default();
        clear_profiles(&mut whole);
        let object = whole.as_object_mut()?;
        object.insert("profile".to_owned(), name.into());
        // What the top of the file says of this profile as another's second does not hold for itself.
        for (key, second) in [("out_of_band_profile", ""), ("shadow", "/profile")] {
            let second = object.get(key).and_then(|value| value.pointer(second));
            if second.is_some_and(|second| second == name) {
                object.insert(key.to_owned(), Value::Null);
            }
        }
        for (key, value) in own {
            let place = object.entry(key.clone()).or_insert(Value::Null);
            match (key.as_str(), place, value) {
                ("exclusions", Value::Array(all), Value::Array(more)) => all.extend(more),
                ("limits", place, value) => overlay(place, value),
                (_, place, value) => *place = value,
            }
        }
        Some(whole)
    }
}

fn clear_profiles(whole: &mut Value) {
    if let Some(object) = whole.as_object_mut() {
        object.insert("profiles".to_owned(), Value::Object(Map::new()));
    }
}

/// Puts what is given in the place of what is there, key by key.
fn overlay(there: &mut Value, given: Value) {
    match (there, given) {
        (Value::Object(there), Value::Object(given)) => {
            for (key, value) in given {
                overlay(there.entry(key).or_insert(Value::Null), value);
            }
        }
        (there, given) => *there = given,
    }
}

/// Masks what is a secret by its key, what stands below `headers`, and passwords in addresses.
pub(crate) fn mask(value: &mut Value, redaction: &Redaction) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                if NAMES.contains(&key.as_str()) {
                    value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(|value| {
                        mask(value, redaction);
                    });
                } else if key == "headers" {
                    hide(value);
                } else if value.is_string() && redaction.is_secret(key.as_bytes()) {
                    *value = MASK.into();
                } else {
                    mask(value, redaction);
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| mask(value, redaction)),
        Value::String(text) => mask_password(text),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn hide(value: &mut Value) {
    match value {
        Value::Object(object) => object.values_mut().for_each(hide),
        Value::Array(list) => list.iter_mut().for_each(hide),
        Value::Null => {}
        value => *value = MASK.into(),
    }
}

/// `scheme://user:password@host`.
fn mask_password(text: &mut String) {
    let Some(start) = text.find("://").map(|at| at + 3) else { return };
    let Some(rest) = text.get(start..) else { return };
    let end = rest.find(['/', '?', '#', ' ', '\n']).unwrap_or(rest.len());
    if let Some(at) = rest.get(..end).and_then(|authority| authority.rfind('@')) {
        text.replace_range(start..start + at, MASK);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use glacis_service::config::parse;

    use super::*;
    use crate::config::Config;

    const FILE: &str = "
crs: a
mode: on
setup: |
  SecAction \"id:1,phase:1\"
limits: {arguments_max: 7}
block: {status: 451}
listen: {unix: {path: a.sock, mode: \"0600\"}}
out_of_band_profile: api
shadow: {profile: token, percent: 5}
exclusions: [{rules: [1], owner: o, reason: r, expires: 2027-01-31}]
profiles:
  api:
    crs: null
    directives: c
    mode: off
    limits: {cookies_max: 9}
    exclusions: [{tags: [t], owner: o, reason: r, expires: never}]
  token: {paranoia: 2}
routes: {secret: api}
";

    /// What is shown is what is in effect: read as a configuration it is the same.
    #[test]
    fn the_document_is_the_configuration() {
        let config: Config = parse(FILE).unwrap();
        let document = Document {
            path: PathBuf::new(),
            given: document(FILE).unwrap().as_object().unwrap().clone(),
        };
        let shown = document.effective(None).unwrap();
        assert_eq!(parse::<Config>(&shown.to_string()).unwrap(), config);
        for name in ["default", "api", "token"] {
            let shown = document.effective(Some(name)).unwrap();
            assert_eq!(
                parse::<Config>(&shown.to_string()).unwrap(),
                config.of_profile(name),
                "{name}"
            );
        }
        assert_eq!(document.effective(Some("apo")), None);
    }

    /// Whatever is a configuration is a document too: otherwise a good file would be refused.
    #[test]
    fn what_is_a_configuration_is_a_document() {
        for (text, key, shown) in [
            ("base: yes\ndirectives: a\n", "base", json!("yes")),
            ("base: off\ndirectives: a\n", "base", json!("off")),
            ("# nothing\n", "base", json!(true)),
            (
                "directives: a\nroutes: {404: default, on: default}\n",
                "routes",
                json!({"404": "default", "on": "default"}),
            ),
            (
                "block: &b {status: 451}\nprofiles: {api: {block: *b}}\n",
                "profiles",
                json!({"api": {"block": {"status": 451}}}),
            ),
            ("limits: {<<: {cookies_max: 3}, headers_max: 4}\nrules: [1]\n", "rules", json!([1])),
            ("paranoia: 0x2\nsetup: |-\n  a: b\n", "paranoia", json!(2)),
            ("crs: ~\ncanary: /?q=%20\n", "crs", Value::Null),
        ] {
            let typed = parse::<Config>(text).map_err(|error| error.to_string());
            let read = document(text).map_err(|error| error.to_string());
            assert!(typed.is_ok() && read.is_ok(), "{text}: {typed:?} {read:?}");
            let given = read.unwrap().as_object().cloned().unwrap_or_default();
            assert_eq!(
                Document { path: PathBuf::new(), given }.effective(None).unwrap()[key],
                shown,
                "{text}"
            );
        }
    }

    #[test]
    fn secrets_are_masked() {
        let redaction = Redaction::new(true, glacis_inspector::SECRET_NAMES, []);
        let mut value = json!({
            "api_key": "abc", "token": 5, "otlp": {"headers": {"x": "abc", "y": ["abc"]}},
            "address": "https://me:abc@host/?q=@", "plain": "http://host/a@b",
            "profiles": {"token": {"crs": "crs", "password": "abc"}}, "routes": {"secret": "api"},
        });
        mask(&mut value, &redaction);
        assert_eq!(
            value,
            json!({
                "api_key": MASK, "token": 5, "otlp": {"headers": {"x": MASK, "y": [MASK]}},
                "address": "https://[redacted]@host/?q=@", "plain": "http://host/a@b",
                "profiles": {"token": {"crs": "crs", "password": MASK}}, "routes": {"secret": "api"},
            })
        );
        assert!(!value.to_string().contains("abc"));
    }
}
