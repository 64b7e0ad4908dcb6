//! What wasm-filters fetch again and again: lists of networks, tables of countries and of autonomous systems,
//! virtual patches. Who serves them and who takes them read them here, so that nothing is served that no filter
//! would take.

use crate::asn::AsnTable;
use crate::geo::CountryTable;
use crate::network_list::NetworkList;
use crate::patch::Patch;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The longest text, in bytes.
pub const BYTES_MAX: usize = 8 << 20;

/// The most entries of a list.
pub const ENTRIES_MAX: usize = 200_000;

/// The most patches: each is looked at for every request.
pub const PATCHES_MAX: usize = 500;

/// What is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Networks, a line each.
    List,
    /// What `glacis geo build` prints.
    Countries,
    /// What `glacis geo build --asn` prints.
    Systems,
    /// What `glacis patches filter` prints.
    Patches,
}

impl Kind {
    /// As messages call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Countries => "table of countries",
            Self::Systems => "table of autonomous systems",
            Self::Patches => "virtual patches",
        }
    }
}

/// What was fetched.
#[derive(Clone, Debug)]
pub enum Content {
    /// Networks.
    List(Box<NetworkList>),
    /// Their countries.
    Countries(Box<CountryTable>),
    /// Their autonomous systems.
    Systems(Box<AsnTable>),
    /// Patches.
    Patches(Vec<Patch>),
}

impl Content {
    /// Reads a text.
    ///
    /// # Errors
    /// What is wrong with it, and when it is longer than a filter takes.
    pub fn parse(kind: Kind, text: &str) -> Result<Self, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("it has {} bytes, more than {BYTES_MAX}", text.len()));
        }
        match kind {
            Kind::List => {
                let list = NetworkList::parse(text, ENTRIES_MAX);
                list.map(Box::new).map(Self::List).map_err(|error| error.to_string())
            }
            Kind::Countries => {
                let table = CountryTable::from_bytes(&decoded(text)?);
                table.map(Box::new).map(Self::Countries).map_err(|error| error.to_string())
            }
            Kind::Systems => {
                let table = AsnTable::from_bytes(&decoded(text)?);
                table.map(Box::new).map(Self::Systems).map_err(|error| error.to_string())
            }
            Kind::Patches => patches(text).map(Self::Patches),
        }
    }
}

impl Content {
    /// Reads a list of one network in each line, of which `mark` says the same each time, as
    /// [`NetworkList::parse_plain`] does.
    ///
    /// # Errors
    /// As [`Content::parse`].
    pub fn parse_plain(text: &str, mark: &str) -> Result<Self, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("it has {} bytes, more than {BYTES_MAX}", text.len()));
        }
        let list = NetworkList::parse_plain(text, mark, ENTRIES_MAX);
        list.map(Box::new).map(Self::List).map_err(|error| error.to_string())
    }
}

fn decoded(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text.trim_ascii()).map_err(|error| format!("it is not base64: {error}"))
}

fn patches(text: &str) -> Result<Vec<Patch>, String> {
    let patches: Vec<Value> = serde_json::from_str(text)
        .map_err(|error| format!("it is no JSON list of patches: {error}"))?;
    if patches.len() > PATCHES_MAX {
        return Err(format!("it has {} patches, more than {PATCHES_MAX}", patches.len()));
    }
    let read = |(i, patch)| Patch::read(patch).map_err(|error| format!("patch {i}: {error}"));
    patches.iter().enumerate().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let kinds = [Kind::List, Kind::Countries, Kind::Systems, Kind::Patches];
        let expected =
            ["list", "table of countries", "table of autonomous systems", "virtual patches"];
        assert_eq!(kinds.map(Kind::name), expected);
    }

    /// At the limits of a plain list, and one above.
    #[test]
    fn plain_lists() {
        let lines = |count: u32| -> String {
            (0..count).map(|i| format!("{}\n", std::net::Ipv4Addr::from_bits(i))).collect()
        };
        let most = u32::try_from(ENTRIES_MAX).unwrap();
        let padded = |bytes: usize| format!("192.0.2.1\n{}", "#".repeat(bytes - 10));
        for (text, expected) in [
            (lines(most), ""),
            (lines(most + 1), "there are more than 200000 entries"),
            (padded(BYTES_MAX), ""),
            (padded(BYTES_MAX + 1), "more than 8388608"),
        ] {
            match Content::parse_plain(&text, "deny") {
                Ok(_) => assert_eq!(expected, "", "{}", text.len()),
                Err(told) => assert!(!expected.is_empty() && told.contains(expected), "{told}"),
            }
        }
    }

    /// Each kind's text is read as that kind; what is wrong is told.
    #[test]
    fn kinds() {
        let patch = r#"{"id": "a", "cve": "CVE-2099-1", "title": "t", "rule": 9100001,
                        "when": [{"target": "path", "equals": "/a"}]}"#;
        let many = |count| format!("[{}]", vec![patch; count].join(","));
        let countries = STANDARD.encode(CountryTable::new(Vec::new()).to_bytes());
        let systems = STANDARD.encode(AsnTable::default().to_bytes());
        let rows = [
            (Kind::List, "192.0.2.0/24 deny\n".to_owned(), ""),
            (Kind::List, "192.0.2.1/24 deny\n".to_owned(), "line 1"),
            (Kind::List, "#".repeat(BYTES_MAX), ""),
            (Kind::List, "#".repeat(BYTES_MAX + 1), "more than 8388608"),
            (Kind::Countries, format!("{countries}\n"), ""),
            (Kind::Countries, "?".to_owned(), "not base64"),
            (Kind::Countries, "AAAA".to_owned(), "map"),
            (Kind::Systems, systems, ""),
            (Kind::Systems, "AAAA".to_owned(), "map"),
            (Kind::Patches, many(500), ""),
            (Kind::Patches, many(501), "501 patches, more than 500"),
            (Kind::Patches, "{}".to_owned(), "no JSON list"),
            (Kind::Patches, "[{}]".to_owned(), "patch 0: id"),
        ];
        for (kind, text, expected) in rows {
            let shown = &text[..text.len().min(40)];
            match Content::parse(kind, &text) {
                Ok(_) => assert_eq!(expected, "", "{kind:?} {shown}"),
                Err(told) => {
                    assert!(!expected.is_empty() && told.contains(expected), "{shown}: {told}");
                }
            }
        }
    }
}
