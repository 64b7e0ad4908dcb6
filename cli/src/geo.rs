//! `glacis geo build`: a database of addresses as a table that the wasm-filter takes.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::cidr::Cidr;
use glacis_limits::geo::{Country, CountryTable};
use maxminddb::{PathElement, Reader};

use crate::arguments::GeoOptions;
use crate::output::{self, Fault, Outcome};

/// Prints the table in base64, on one line.
pub(crate) fn run(options: &GeoOptions) -> Result<Outcome, Fault> {
    let networks = networks(&options.database)
        .map_err(|error| Fault::Input(format!("{}: {error}", options.database.display())))?;
    let count = networks.len();
    let table = CountryTable::new(networks);
    let bytes = table.to_bytes();
    let mut out = output::results();
    writeln!(out, "{}", STANDARD.encode(&bytes))?;
    out.flush()?;
    if !options.quiet {
        let (made, memory) = (bytes.len(), table.memory_bytes());
        output::remark(format_args!(
            "{count} networks with a country, {made} bytes, {memory} bytes of memory"
        ));
    }
    Ok(Outcome::Clean)
}

/// All networks of which the database knows a country.
fn networks(database: &Path) -> Result<Vec<(IpAddr, IpAddr, Country)>, String> {
    let reader = Reader::open_readfile(database).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for entry in reader.networks(Default::default()).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        let network = entry.network().map_err(|error| error.to_string())?;
        // MaxMind's form, and that of the databases that have nothing but countries.
        let paths = [
            &[PathElement::Key("country"), PathElement::Key("iso_code")][..],
            &[PathElement::Key("country_code")],
        ];
        let mut codes = paths.iter().filter_map(|path| entry.decode_path::<String>(path).ok()?);
        let Some(country) = codes.find_map(|code| Country::parse(&code)) else { continue };
        let (first, last) = bounds(network.ip(), network.prefix())?;
        found.push((first, last, country));
    }
    if found.is_empty() {
        return Err("no network in it has a country (country.iso_code, country_code)".to_owned());
    }
    Ok(found)
}

/// The first and last address. A database of both kinds keeps IPv4 in `::/96`.
fn bounds(first: IpAddr, prefix: u8) -> Result<(IpAddr, IpAddr), String> {
    let (first, prefix) = match (first, prefix.checked_sub(96)) {
        (IpAddr::V6(address), Some(prefix)) => match u32::try_from(address.to_bits()) {
            Ok(bits) => (IpAddr::V4(Ipv4Addr::from_bits(bits)), prefix),
            Err(_) => (first, prefix + 96),
        },
        _ => (first, prefix),
    };
    Cidr::parse(&format!("{first}/{prefix}"))
        .map(|cidr| cidr.bounds())
        .map_err(|error| error.to_string())
}
