//! The files that a configuration names: lists of networks, tables of countries and of autonomous systems, and
//! what is served to wasm-filters. Each is read through a source that notices when it changes.

use std::{fs, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use glacis_limits::{
    asn::AsnTable,
    feed::{Content, Kind},
    geo::CountryTable,
    network_list::NetworkList,
    network_map::NetworkMapError,
};
use glacis_rules::RecordingSource;

use crate::{
    config::{Config, KeyPart, Matches, Wrong},
    lists::{BANS, Text, Texts},
};

/// Entries of one list of networks.
const ENTRIES_MAX: usize = 1_000_000;

/// Bytes of a list of networks, or of a table.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// A file, as it is now; a change is noticed from here on.
pub(crate) fn read(path: &Path, source: &RecordingSource) -> Result<Vec<u8>, String> {
    source.note(path);
    let length = fs::metadata(path).map_err(|error| of(path, &error))?.len();
    if length > LIST_BYTES_MAX {
        return Err(format!(
            "{}: {length} bytes are too many: at most {LIST_BYTES_MAX}",
            path.display()
        ));
    }
    fs::read(path).map_err(|error| of(path, &error))
}

/// The lists of networks that requests are looked up in.
pub(crate) fn lists(config: &Config, source: &RecordingSource) -> Result<Vec<NetworkList>, Wrong> {
    let of_files = config.networks.files.iter().map(|path| {
        let refuse = |message: String| ("networks.files".to_owned(), message);
        let text = String::from_utf8(read(path, source).map_err(refuse)?);
        let text = text.map_err(|_| refuse(format!("{}: it is not text", path.display())))?;
        NetworkList::parse(&text, ENTRIES_MAX).map_err(|error| refuse(of(path, &error)))
    });
    let mut lists: Vec<NetworkList> = of_files.collect::<Result<_, _>>()?;
    let own = NetworkList::parse(&config.networks.entries.join("\n"), ENTRIES_MAX);
    lists.push(own.map_err(|error| ("networks.entries".to_owned(), error.to_string()))?);
    Ok(lists)
}

/// The table of countries.
pub(crate) fn countries(config: &Config, source: &RecordingSource) -> Result<CountryTable, Wrong> {
    let asked_for = !config.countries.deny.is_empty()
        || config.policies.iter().any(|policy| !policy.require.countries.is_empty())
        || matches(config).any(|matches| !matches.countries.is_empty())
        || has_key(config, &KeyPart::Country);
    let named = Named { key: "countries.table", path: config.countries.table.as_deref() };
    named.table(asked_for.then_some("`glacis geo build`"), source, CountryTable::from_bytes)
}

/// The table of autonomous systems.
pub(crate) fn systems(config: &Config, source: &RecordingSource) -> Result<AsnTable, Wrong> {
    let asked_for = !config.asn.deny.is_empty()
        || config.policies.iter().any(|policy| !policy.require.asns.is_empty())
        || matches(config).any(|matches| !matches.asns.is_empty())
        || has_key(config, &KeyPart::Asn);
    let named = Named { key: "asn.table", path: config.asn.table.as_deref() };
    named.table(asked_for.then_some("`glacis geo build --asn`"), source, AsnTable::from_bytes)
}

/// What policies and limits are for.
fn matches(config: &Config) -> impl Iterator<Item = &Matches> {
    let of_policies = config.policies.iter().map(|policy| &policy.matches);
    of_policies.chain(config.rate_limits.iter().map(|limit| &limit.matches))
}

/// Whether a limit tells clients apart by this.
fn has_key(config: &Config, part: &KeyPart) -> bool {
    config.rate_limits.iter().any(|limit| limit.key.contains(part))
}

/// A key of the configuration that names a file.
struct Named<'c> {
    key: &'static str,
    path: Option<&'c Path>,
}

impl Named<'_> {
    /// The table in it; an empty one where there is none, unless it is needed: then `made_by` says what makes one.
    fn table<T: Default>(
        &self,
        made_by: Option<&str>,
        source: &RecordingSource,
        parse: fn(&[u8]) -> Result<T, NetworkMapError>,
    ) -> Result<T, Wrong> {
        let wrong = |message| (self.key.to_owned(), message);
        let Some(path) = self.path else {
            let missing =
                |made_by| wrong(format!("it is asked for: name a file made by {made_by}"));
            return made_by.map_or_else(|| Ok(T::default()), |made_by| Err(missing(made_by)));
        };
        let text = read(path, source).map_err(wrong)?;
        let bytes = STANDARD.decode(text.trim_ascii()).map_err(|error| wrong(of(path, &error)))?;
        parse(&bytes).map_err(|error| wrong(of(path, &error)))
    }
}

/// An error with the file in which it is.
fn of(path: &Path, error: &dyn core::fmt::Display) -> String {
    format!("{}: {error}", path.display())
}

/// What is served under names of its own.
const NAMED: [&str; 4] = [BANS, "countries", "asn", "patches"];

/// What is served. What no filter would take is refused.
pub(crate) fn served(config: &Config, source: &RecordingSource) -> Result<Texts, Wrong> {
    let lists = &config.lists;
    if let Some(name) = lists.files.keys().find(|name| NAMED.contains(&name.as_str())) {
        let message = format!("\"{name}\" is served already: choose another name");
        return Err((format!("lists.files.{name}"), message));
    }
    let files = lists.files.iter().map(|(name, path)| {
        (name.as_str(), format!("lists.files.{name}"), Kind::List, path.as_path())
    });
    let others = [
        ("countries", Kind::Countries, &lists.countries),
        ("asn", Kind::Systems, &lists.asn),
        ("patches", Kind::Patches, &lists.patches),
    ];
    let others = others.into_iter().filter_map(|(name, kind, path)| {
        Some((name, format!("lists.{name}"), kind, path.as_deref()?))
    });
    let text = |(name, key, kind, path): (&str, String, Kind, &Path)| {
        let refuse = |message: String| (key.clone(), message);
        let bytes = read(path, source).map_err(refuse)?;
        let text = str::from_utf8(&bytes).map_err(|error| refuse(of(path, &error)))?;
        Content::parse(kind, text).map_err(|error| refuse(of(path, &error)))?;
        Ok((name.to_owned(), Text::new(bytes)))
    };
    files.chain(others).map(text).collect()
}
