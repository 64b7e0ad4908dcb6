//! `glacis geo build`: a database of addresses as a table that the wasm-filter takes.

use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::asn::AsnTable;
use glacis_limits::cidr::Cidr;
use glacis_limits::geo::{Country, CountryTable};
use maxminddb::{LookupResult, PathElement, Reader};

use crate::output::{self, Fault, Outcome};
use crate::{arguments::GeoOptions, progress};

/// A network from its first to its last address, and what is known of it.
type Network<T> = (IpAddr, IpAddr, T);

/// Prints the table in base64, on one line.
pub(crate) fn run(options: &GeoOptions) -> Result<Outcome, Fault> {
    let fault = |error: String| Fault::Input(format!("{}: {error}", options.database.display()));
    let (bytes, told) = match options.asn {
        true => systems(options).map_err(fault)?,
        false => countries(options).map_err(fault)?,
    };
    let mut out = output::results();
    writeln!(out, "{}", STANDARD.encode(&bytes))?;
    out.flush()?;
    if !options.quiet {
        output::remark(format_args!("{told}, {} bytes", bytes.len()));
    }
    Ok(Outcome::Clean)
}

fn countries(options: &GeoOptions) -> Result<(Vec<u8>, String), String> {
    let networks = networks(&options.database, country)?;
    let count = networks.len();
    if count == 0 {
        return Err("no network in it has a country (country.iso_code, country_code)".to_owned());
    }
    let table = CountryTable::new(networks);
    let told = format!("{count} networks with a country, {} bytes of memory", table.memory_bytes());
    Ok((table.to_bytes(), told))
}

fn systems(options: &GeoOptions) -> Result<(Vec<u8>, String), String> {
    let mut networks = networks(&options.database, system)?;
    if networks.is_empty() {
        let fields = "autonomous_system_number, asn";
        return Err(format!("no network in it has an autonomous system ({fields})"));
    }
    if !options.only.is_empty() {
        networks.retain(|(_, _, number)| options.only.contains(number));
    }
    let table = AsnTable::new(&networks);
    let (count, systems, memory) = (networks.len(), table.systems(), table.memory_bytes());
    let told =
        format!("{count} networks of {systems} autonomous systems, {memory} bytes of memory");
    Ok((table.to_bytes(), told))
}

/// MaxMind's form, and that of the databases that have nothing but countries.
fn country(entry: &LookupResult<'_, Vec<u8>>) -> Option<Country> {
    let paths = [
        &[PathElement::Key("country"), PathElement::Key("iso_code")][..],
        &[PathElement::Key("country_code")],
    ];
    let mut codes = paths.iter().filter_map(|path| entry.decode_path::<String>(path).ok()?);
    codes.find_map(|code| Country::parse(&code))
}

/// As MaxMind has it, and as a text such as `AS64496`, as others have it.
fn system(entry: &LookupResult<'_, Vec<u8>>) -> Option<u32> {
    let number = entry.decode_path::<u32>(&[PathElement::Key("autonomous_system_number")]);
    let text = || {
        let text = entry.decode_path::<String>(&[PathElement::Key("asn")]).ok()??;
        text.trim_start_matches("AS").parse().ok()
    };
    number.ok().flatten().or_else(text).filter(|number| *number != 0)
}

/// All networks of which the database knows what is asked.
fn networks<T>(
    database: &Path,
    read: impl Fn(&LookupResult<'_, Vec<u8>>) -> Option<T>,
) -> Result<Vec<Network<T>>, String> {
    let reader = Reader::open_readfile(database).map_err(|error| error.to_string())?;
    progress::stage("reading networks", None);
    let mut found = Vec::new();
    for entry in reader.networks(Default::default()).map_err(|error| error.to_string())? {
        let entry = entry.map_err(|error| error.to_string())?;
        progress::count();
        let network = entry.network().map_err(|error| error.to_string())?;
        let Some(known) = read(&entry) else { continue };
        let (first, last) = bounds(network.ip(), network.prefix())?;
        found.push((first, last, known));
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
