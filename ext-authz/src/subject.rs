//! Who asks for what: everything about a request that policies and limits look at, found once.

use core::net::IpAddr;

use glacis_inspector::{Header, find};
use glacis_limits::{
    authority::Host,
    geo::Country,
    path::{NormalPath, Template, is_ambiguous},
};
use serde_json::{Map, Value};

use crate::{answer::Reason, api_key::Found, config::Matches};

/// A request.
#[derive(Debug)]
pub(crate) struct Subject<'r> {
    pub(crate) headers: &'r [Header<'r>],
    pub(crate) address: Option<IpAddr>,
    /// What lists say of the address.
    pub(crate) tags: Vec<&'r str>,
    pub(crate) country: Country,
    /// The number of its autonomous system; 0 if it is unknown.
    pub(crate) asn: u32,
    /// In upper case: many upstreams take `post` for POST.
    pub(crate) method: Vec<u8>,
    pub(crate) host: Host,
    /// In one form.
    pub(crate) path: NormalPath,
    /// Whether the path could mean another one.
    pub(crate) ambiguous: bool,
    pub(crate) key: Found<'r>,
    /// What a checked token says.
    pub(crate) claims: Option<&'r Map<String, Value>>,
}

impl<'r> Subject<'r> {
    /// What can be read off the headers; the rest is not known yet.
    pub(crate) fn of(headers: &'r [Header<'r>]) -> Self {
        let path = find(headers, b":path").unwrap_or_default();
        let host = find(headers, b":authority").or_else(|| find(headers, b"host"));
        Self {
            headers,
            address: None,
            tags: Vec::new(),
            country: Country::UNKNOWN,
            asn: 0,
            method: find(headers, b":method").unwrap_or_default().to_ascii_uppercase(),
            host: Host::of(host.unwrap_or_default()),
            path: NormalPath::new(path),
            ambiguous: is_ambiguous(path),
            key: Found::Nothing,
            claims: None,
        }
    }

    /// Why it cannot be said which API key it has, if so.
    pub(crate) fn ambiguous_key(&self) -> Option<Reason> {
        (self.key == Found::Ambiguous).then_some(Reason::AmbiguousKey)
    }

    /// The client of the API key.
    pub(crate) const fn client(&self) -> Option<(&'r crate::api_key::Client, usize)> {
        match self.key {
            Found::Client(client, index) => Some((client, index)),
            Found::Nothing | Found::Wrong | Found::Ambiguous => None,
        }
    }
}

/// Which requests something is for: those that fit one of each list that is not empty.
#[derive(Clone, Debug, Default)]
pub(crate) struct Filter {
    paths: Vec<Template>,
    methods: Vec<String>,
    hosts: Vec<String>,
    tags: Vec<String>,
    countries: Vec<Country>,
    asns: Vec<u32>,
}

impl Filter {
    /// That of a configuration. An error is the key and what to write there.
    pub(crate) fn new(matches: &Matches) -> Result<Self, (&'static str, String)> {
        let paths = matches.paths.iter().map(|text| {
            Template::parse(text).map_err(|error| ("match.paths", format!("\"{text}\": {error}")))
        });
        Ok(Self {
            paths: paths.collect::<Result<_, _>>()?,
            methods: matches.methods.iter().map(|method| method.to_ascii_uppercase()).collect(),
            hosts: matches.hosts.iter().map(|text| host_pattern(text)).collect::<Result<_, _>>()?,
            tags: matches.tags.clone(),
            countries: countries(&matches.countries)
                .map_err(|message| ("match.countries", message))?,
            asns: matches.asns.clone(),
        })
    }

    pub(crate) fn fits(&self, subject: &Subject<'_>) -> bool {
        let or_any = |empty: bool, fits: bool| empty || fits;
        let method = |method: &String| method.as_bytes() == subject.method;
        or_any(self.methods.is_empty(), self.methods.iter().any(method))
            && or_any(
                self.paths.is_empty(),
                self.paths.iter().any(|path| path.matches(&subject.path)),
            )
            && or_any(
                self.hosts.is_empty(),
                self.hosts.iter().any(|host| is_host(host, &subject.host)),
            )
            && or_any(self.tags.is_empty(), has_tag(&self.tags, subject))
            && or_any(self.countries.is_empty(), self.countries.contains(&subject.country))
            && or_any(self.asns.is_empty(), self.asns.contains(&subject.asn))
    }

    /// Whether it looks at paths.
    pub(crate) fn has_paths(&self) -> bool {
        !self.paths.is_empty()
    }
}

/// Whether the client's address has one of these tags.
pub(crate) fn has_tag(tags: &[String], subject: &Subject<'_>) -> bool {
    tags.iter().any(|tag| subject.tags.contains(&tag.as_str()))
}

/// A host of a configuration: what [`is_host`] compares with.
fn host_pattern(text: &str) -> Result<String, (&'static str, String)> {
    let name = text.strip_prefix("*.").unwrap_or(text);
    if name.is_empty() || name.contains('*') {
        let message =
            format!("\"{text}\" is no host: write a name, or *.NAME for every name below it");
        return Err(("match.hosts", message));
    }
    Ok(text.to_ascii_lowercase())
}

/// Whether a host is one of a pattern, where `*.example.com` is every name below. An ambiguous host may be any, but
/// such requests are rejected before anything compares it.
fn is_host(pattern: &str, host: &Host) -> bool {
    let Some(host) = host.name() else { return true };
    match pattern.strip_prefix('*') {
        Some(end) => host.strip_suffix(end.as_bytes()).is_some_and(|name| !name.is_empty()),
        None => pattern.as_bytes() == host,
    }
}

/// Countries by their letters. An error is what to write.
pub(crate) fn countries(texts: &[String]) -> Result<Vec<Country>, String> {
    let read = |text: &String| {
        let wrong = || format!("\"{text}\" is no country: write two letters, such as DE");
        Country::parse(text).ok_or_else(wrong)
    };
    texts.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        for (pattern, host, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "x.a.b", false),
            ("*.b", "a.b", true),
            ("*.b", "b", false),
            ("*.b", "ab", false),
            ("a.b", "", false),
            ("a.b", "x@y", true),
            ("*.b", "y..", true),
        ] {
            let host = Host::of(host.as_bytes());
            assert_eq!(is_host(pattern, &host), expected, "{pattern} {host:?}");
        }
    }
}
