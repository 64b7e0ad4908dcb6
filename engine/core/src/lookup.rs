//! What the engine asks its host about addresses and names: tables and name servers are not the
//! engine's.
//!
//! Source: ModSecurity v3 reference manual, `@geoLookup`, `@rbl`, `GEO`.

use core::{fmt::Debug, net::IpAddr};

/// Where an address is, as far as the host's table knows; what it does not know is empty.
///
/// The fields are the members of the variable `GEO`; an empty one is not a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Geo {
    /// `COUNTRY_CODE`: two letters (ISO 3166-1), such as `DE`.
    pub country_code: String,
    /// `COUNTRY_CODE3`: up to three letters.
    pub country_code3: String,
    /// `COUNTRY_NAME`.
    pub country_name: String,
    /// `COUNTRY_CONTINENT`: two letters, such as `EU`.
    pub country_continent: String,
    /// `REGION`: two letters of a state, province or county.
    pub region: String,
    /// `CITY`.
    pub city: String,
    /// `POSTAL_CODE`.
    pub postal_code: String,
    /// `LATITUDE`, in degrees.
    pub latitude: String,
    /// `LONGITUDE`, in degrees.
    pub longitude: String,
    /// `DMA_CODE`: the metropolitan area (United States only).
    pub dma_code: String,
    /// `AREA_CODE`: the telephone area (United States only).
    pub area_code: String,
}

impl Geo {
    /// The members of `GEO`, the empty ones left out.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [
            ("COUNTRY_CODE", &self.country_code),
            ("COUNTRY_CODE3", &self.country_code3),
            ("COUNTRY_NAME", &self.country_name),
            ("COUNTRY_CONTINENT", &self.country_continent),
            ("REGION", &self.region),
            ("CITY", &self.city),
            ("POSTAL_CODE", &self.postal_code),
            ("LATITUDE", &self.latitude),
            ("LONGITUDE", &self.longitude),
            ("DMA_CODE", &self.dma_code),
            ("AREA_CODE", &self.area_code),
        ]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name, value.as_str()))
    }
}

/// What a host knows of addresses and names.
///
/// It is asked while rules run and must answer at once, from memory: a host that would have to ask a
/// name server says `None`, asks in the background, and knows the next time.
///
/// ```
/// # use glacis_engine::{Endpoint, Geo, Input, Limits, Lookup, NoFiles, NoLookup, Program, Start};
/// # use glacis_engine::Transaction;
/// # use std::net::IpAddr;
/// # use std::{net::Ipv4Addr, sync::Arc, time::Duration};
/// # let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 0 };
/// # let time = Duration::from_secs(1_700_000_000);
/// # let start = Start { unique_id: "1", time, client: endpoint, server: endpoint };
/// #[derive(Debug)]
/// struct Table;
///
/// impl Lookup for Table {
///     fn geo(&self, address: IpAddr) -> Option<Geo> {
///         let here = Geo { country_code: "DE".to_owned(), ..Geo::default() };
///         address.is_loopback().then_some(here)
///     }
///
///     fn rbl(&self, _name: &str) -> Option<bool> {
///         None
///     }
/// }
///
/// let text = r#"SecRuleEngine On
///     SecRule REMOTE_ADDR "@geoLookup" "id:1,phase:1,pass,nolog"
///     SecRule GEO:COUNTRY_CODE "!@within AT CH" "id:2,phase:1,deny""#;
/// # let rules = [Input::Text { name: "own.conf".into(), text: text.into() }];
/// # let program = Program::build(&rules, &NoFiles, Limits::default()).expect("they compile");
/// # let program = Arc::new(program);
/// let known: Arc<dyn Lookup> = Arc::new(Table);
/// let unknown: Arc<dyn Lookup> = Arc::new(NoLookup);
/// // What is not known has no country that a rule could deny.
/// for (lookup, expected) in [(known, "deny"), (unknown, "allow")] {
///     let mut transaction = Transaction::new(Arc::clone(&program)).with_lookup(lookup);
///     transaction.start(&start);
///     transaction.request_line(b"GET", b"/", b"HTTP/1.1");
///     assert_eq!(transaction.evaluate_request_headers().name(), expected);
/// }
/// ```
pub trait Lookup: Debug + Send + Sync {
    /// Where `address` is (`@geoLookup`). `None` when it is not known: the operator then does not
    /// match.
    fn geo(&self, address: IpAddr) -> Option<Geo>;

    /// Whether the DNS name `name` has an address (`@rbl`), which is how a block list says that it
    /// lists an entry: `1.2.0.192.zone.example` for the address 192.0.2.1 (RFC 5782 section 2.1).
    /// `None` when it is not known: the operator then does not match.
    fn rbl(&self, name: &str) -> Option<bool>;
}

/// A [`Lookup`] that knows nothing: no `@geoLookup` and no `@rbl` matches.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLookup;

impl Lookup for NoLookup {
    fn geo(&self, _address: IpAddr) -> Option<Geo> {
        None
    }

    fn rbl(&self, _name: &str) -> Option<bool> {
        None
    }
}

/// Bytes of the longest name in DNS (RFC 1035 section 2.3.4), as text without the final dot.
const NAME_BYTES_MAX: usize = 253;

/// The name under which a block list `zone` lists `value`: an address backwards (RFC 5782 sections
/// 2.1 and 2.4), anything else as it is. `None` when the value cannot be part of a DNS name.
pub(crate) fn listed_name(value: &[u8], zone: &[u8]) -> Option<String> {
    let value = core::str::from_utf8(value).ok()?.trim();
    let zone = core::str::from_utf8(zone).ok()?.trim();
    let letters = |text: &str| {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !text.is_empty() && text.bytes().all(allowed)
    };
    let entry = match value.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}")
        }
        Ok(IpAddr::V6(address)) => {
            let nibbles =
                address.octets().into_iter().rev().flat_map(|byte| [byte & 15, byte >> 4]);
            nibbles.map(|nibble| format!("{nibble:x}")).collect::<Vec<_>>().join(".")
        }
        Err(_) if letters(value) => value.to_ascii_lowercase(),
        Err(_) => return None,
    };
    let name = format!("{entry}.{zone}");
    (letters(zone) && name.len() <= NAME_BYTES_MAX).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_block_lists() {
        let v6 = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.bl.example";
        let long = "a".repeat(240);
        for (value, zone, expected) in [
            ("192.0.2.1", "bl.example", Some("1.2.0.192.bl.example")),
            ("::ffff:192.0.2.1", "bl.example", Some("1.2.0.192.bl.example")),
            ("2001:db8::1", "bl.example", Some(v6)),
            ("Example.com", "uri.example", Some("example.com.uri.example")),
            ("a b", "bl.example", None),
            ("", "bl.example", None),
            ("a\u{e9}", "bl.example", None),
            ("192.0.2.1", "", None),
            (&long, "bl.example", Some(&*format!("{long}.bl.example"))),
            (&long, "longer.bl.example", None),
        ] {
            let found = listed_name(value.as_bytes(), zone.as_bytes());
            assert_eq!(found.as_deref(), expected, "{value} {zone}");
        }
        assert_eq!(listed_name(b"\xff", b"bl.example"), None);
    }
}
