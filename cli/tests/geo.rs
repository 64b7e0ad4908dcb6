//! `glacis geo build`, on a database that the test writes itself.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

mod run;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::asn::AsnTable;
use glacis_limits::geo::CountryTable;
use run::glacis;
use std::net::Ipv6Addr;

/// A database in MaxMind's format (version 2.0), with 24-bit records and IPv4 in `::/96`.
struct Database {
    /// Two records of a node: another node, or what is at the end of a path.
    nodes: Vec<[Record; 2]>,
    data: Vec<u8>,
}

#[derive(Clone, Copy)]
enum Record {
    Empty,
    Node(usize),
    Data(usize),
}

impl Database {
    fn new() -> Self {
        Self { nodes: vec![[Record::Empty; 2]], data: Vec::new() }
    }

    fn insert(&mut self, network: &str, prefix: u32, data: &[u8]) {
        let bits = match network.parse::<std::net::Ipv4Addr>() {
            Ok(address) => u128::from(address.to_bits()),
            Err(_) => network.parse::<Ipv6Addr>().unwrap().to_bits(),
        };
        let place = self.data.len();
        self.data.extend_from_slice(data);
        let mut node = 0;
        for depth in 0..prefix {
            let side = usize::from(bits >> (127 - depth) & 1 == 1);
            if depth + 1 == prefix {
                self.nodes[node][side] = Record::Data(place);
                return;
            }
            node = match self.nodes[node][side] {
                Record::Node(next) => next,
                _ => {
                    self.nodes.push([Record::Empty; 2]);
                    let next = self.nodes.len() - 1;
                    self.nodes[node][side] = Record::Node(next);
                    next
                }
            };
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let count = self.nodes.len();
        let mut out = Vec::new();
        for record in self.nodes.iter().flatten() {
            let value = match record {
                Record::Empty => count,
                Record::Node(node) => *node,
                Record::Data(place) => count + 16 + place,
            };
            out.extend_from_slice(&u32::try_from(value).unwrap().to_be_bytes()[1..]);
        }
        out.extend_from_slice(&[0; 16]);
        out.extend_from_slice(&self.data);
        out.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
        out.extend_from_slice(&metadata(count));
        out
    }
}

/// A text, up to 28 bytes.
fn text(text: &str) -> Vec<u8> {
    [&[0x40 | u8::try_from(text.len()).unwrap()], text.as_bytes()].concat()
}

/// A map of texts to what is encoded already.
fn map(pairs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let head = vec![0xe0 | u8::try_from(pairs.len()).unwrap()];
    let pairs = pairs.iter().flat_map(|(name, value)| [text(name), value.clone()].concat());
    head.into_iter().chain(pairs).collect()
}

fn metadata(node_count: usize) -> Vec<u8> {
    let uint16 = |value: u8| vec![0xa1, value];
    let count = u32::try_from(node_count).unwrap().to_be_bytes();
    map(&[
        ("binary_format_major_version", uint16(2)),
        ("binary_format_minor_version", vec![0xa0]),
        ("build_epoch", vec![0x01, 0x02, 7]),
        ("database_type", text("Test")),
        ("description", map(&[])),
        ("ip_version", uint16(6)),
        ("languages", vec![0x00, 0x04]),
        ("node_count", [&[0xc4], &count[..]].concat()),
        ("record_size", uint16(24)),
    ])
}

#[test]
fn builds_a_table_from_either_form() {
    let code = |code: &str| map(&[("country_code", text(code))]);
    let nested = |code: &str| map(&[("country", map(&[("iso_code", text(code))]))]);
    let mut database = Database::new();
    database.insert("10.0.0.0", 96 + 8, &code("AA"));
    database.insert("192.0.2.0", 96 + 24, &nested("BB"));
    database.insert("198.51.100.7", 128, &code("cc"));
    database.insert("203.0.113.0", 96 + 24, &map(&[("city", text("nowhere"))]));
    database.insert("2001:db8::", 32, &nested("DD"));
    let file = std::env::temp_dir().join(format!("glacis-geo-{}.mmdb", std::process::id()));
    std::fs::write(&file, database.bytes()).unwrap();
    let ran = glacis(&format!("geo build {}", file.display()), b"");
    std::fs::remove_file(&file).unwrap();
    assert_eq!(ran.status, Some(0), "{}", ran.stderr);
    assert!(ran.stderr.starts_with("4 networks with a country, "), "{}", ran.stderr);
    let table = STANDARD.decode(ran.stdout.trim_ascii()).unwrap();
    let table = CountryTable::from_bytes(&table).unwrap();
    for (address, expected) in [
        ("10.255.255.255", "AA"),
        ("11.0.0.0", "ZZ"),
        ("192.0.2.1", "BB"),
        ("198.51.100.7", "CC"),
        ("198.51.100.8", "ZZ"),
        ("203.0.113.1", "ZZ"),
        ("2001:db8::1", "DD"),
        ("2001:db9::", "ZZ"),
    ] {
        assert_eq!(table.country(address.parse().unwrap()).as_str(), expected, "{address}");
    }
}

#[test]
fn builds_a_table_of_autonomous_systems() {
    let number = |number: u32| [&[0xc4][..], &number.to_be_bytes()].concat();
    let own = |system: u32| map(&[("autonomous_system_number", number(system))]);
    let mut database = Database::new();
    database.insert("10.0.0.0", 96 + 8, &own(64_496));
    database.insert("192.0.2.0", 96 + 24, &map(&[("asn", text("AS64497"))]));
    database.insert("203.0.113.0", 96 + 24, &map(&[("city", text("nowhere"))]));
    database.insert("2001:db8::", 32, &own(4_200_000_000));
    let file = std::env::temp_dir().join(format!("glacis-asn-{}.mmdb", std::process::id()));
    std::fs::write(&file, database.bytes()).unwrap();
    let all = glacis(&format!("geo build --asn {}", file.display()), b"");
    let some = glacis(&format!("geo build --asn --only AS64496,7 {}", file.display()), b"");
    let countries = glacis(&format!("geo build {}", file.display()), b"");
    std::fs::remove_file(&file).unwrap();
    assert_eq!((all.status, some.status), (Some(0), Some(0)), "{}{}", all.stderr, some.stderr);
    assert!(all.stderr.starts_with("3 networks of 3 autonomous systems, "), "{}", all.stderr);
    assert_eq!(countries.status, Some(1));
    let table =
        |text: &str| AsnTable::from_bytes(&STANDARD.decode(text.trim_ascii()).unwrap()).unwrap();
    let (all, some) = (table(&all.stdout), table(&some.stdout));
    for (address, expected, of_some) in [
        ("10.255.255.255", 64_496, 64_496),
        ("192.0.2.1", 64_497, 0),
        ("203.0.113.1", 0, 0),
        ("2001:db8::1", 4_200_000_000, 0),
    ] {
        let address = address.parse().unwrap();
        assert_eq!((all.number(address), some.number(address)), (expected, of_some), "{address}");
    }
}
