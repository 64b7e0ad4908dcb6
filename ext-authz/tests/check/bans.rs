//! Bans, and lists for wasm-filters.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use glacis_limits::{
    asn::AsnTable,
    geo::{Country, CountryTable},
    network_list::NetworkList,
};

use crate::harness::{Asked, Service};
use crate::policies::verdict;

const CONFIG: &str = r#"
otherwise: allow
policies: [{name: closed, match: {paths: ["/closed"]}, action: deny}]
networks: {entries: ["192.0.2.200 allow"]}
bans: [{name: knocking, reasons: [policy], capacity: 2, leak_seconds: 3600, ban_seconds: 60}]
lists: {listen: "127.0.0.1:0", files: {block: block.txt}}
"#;

#[tokio::test]
async fn who_is_refused_too_often_is_banned() {
    let service = Service::start(CONFIG, &[("block.txt", "198.51.100.0/24 deny\n")]);
    assert_eq!(service.list("bans", "").1, "");
    for (path, from, expected) in [
        ("/closed", "192.0.2.1", "deny policy by closed"),
        ("/closed", "192.0.2.1", "deny policy by closed"),
        ("/", "192.0.2.1", "allow"),
        ("/closed", "192.0.2.1", "deny policy by closed"),
        ("/", "192.0.2.1", "deny banned"),
        ("/", "192.0.2.2", "allow"),
        // Of IPv6 a client has a whole network, and is counted and banned with it.
        ("/closed", "2001:db8::1", "deny policy by closed"),
        ("/closed", "2001:db8::2", "deny policy by closed"),
        ("/closed", "2001:db8::3", "deny policy by closed"),
        ("/", "2001:db8::4", "deny banned"),
        ("/", "2001:db8:0:1::1", "allow"),
        // Who is allowed by a list is never banned.
        ("/closed", "192.0.2.200", "deny policy by closed"),
        ("/closed", "192.0.2.200", "deny policy by closed"),
        ("/closed", "192.0.2.200", "deny policy by closed"),
        ("/", "192.0.2.200", "allow"),
    ] {
        let answer = service.check(&Asked::get(path).from(from)).await.unwrap();
        assert_eq!(verdict(&answer), expected, "{path} {from}");
    }
    let (_, bans) = service.list("bans", "");
    let list = NetworkList::parse(&bans, 10).unwrap();
    assert_eq!(list.entries(), 2, "{bans}");
    let names: Vec<&str> = bans.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["192.0.2.1", "2001:db8::/64"]);
}

#[test]
fn lists_have_tags_and_digests() {
    const TEXT: &str = "198.51.100.0/24 deny\n";
    let service = Service::start(CONFIG, &[("block.txt", TEXT)]);
    let (head, body) = service.list("block", "");
    assert!(head.starts_with("http/1.1 200") && body == TEXT, "{head}");
    assert!(head.contains("repr-digest: sha-256=:"), "{head}");
    let etag = head.lines().find_map(|line| line.strip_prefix("etag: ")).unwrap();
    let (head, body) = service.list("block", &format!("if-none-match: {etag}\r\n"));
    assert!(head.starts_with("http/1.1 304") && body.is_empty(), "{head}");
    assert!(service.list("other", "").0.starts_with("http/1.1 404"));
}

#[tokio::test]
async fn countries_are_those_of_the_table() {
    let network = |first: &str, last: &str, country: &str| {
        (first.parse().unwrap(), last.parse().unwrap(), Country::parse(country).unwrap())
    };
    let table = CountryTable::new(vec![
        network("192.0.2.0", "192.0.2.255", "DE"),
        network("198.51.100.0", "198.51.100.255", "FR"),
    ]);
    let table = STANDARD.encode(table.to_bytes());
    let config = "otherwise: allow\ncountries: {table: countries.txt, deny: [fr]}\n\
                  policies: [{name: home, match: {paths: [/home]}, require: {countries: [DE]}}]\n";
    let service = Service::start(config, &[("countries.txt", &table)]);
    for (path, from, expected) in [
        ("/", "192.0.2.1", "allow"),
        ("/", "198.51.100.1", "deny country"),
        ("/home", "192.0.2.1", "allow by home"),
        ("/home", "203.0.113.1", "deny wrong_network by home"),
    ] {
        let answer = service.check(&Asked::get(path).from(from)).await.unwrap();
        assert_eq!(verdict(&answer), expected, "{path} {from}");
    }
}

#[tokio::test]
async fn autonomous_systems_are_those_of_the_table() {
    let network =
        |first: &str, last: &str, number| (first.parse().unwrap(), last.parse().unwrap(), number);
    let table = AsnTable::new(&[
        network("192.0.2.0", "192.0.2.255", 64_496),
        network("198.51.100.0", "198.51.100.255", 64_497),
    ]);
    let table = STANDARD.encode(table.to_bytes());
    let config = "otherwise: allow\nasn: {table: asn.txt, deny: [64497]}\n\
                  networks: {entries: [\"198.51.100.7 allow\"]}\n\
                  policies:\n\
                  - {name: home, match: {paths: [/home]}, require: {asns: [64496]}}\n\
                  - {name: hoster, match: {paths: [/login], asns: [64496]}, action: deny}\n\
                  rate_limits: [{name: system, requests: 2, per_seconds: 3600, key: [asn], \
                  match: {paths: [/limited], asns: [64496, 0]}}]\n";
    let service = Service::start(config, &[("asn.txt", &table)]);
    for (path, from, expected) in [
        ("/", "192.0.2.1", "allow"),
        ("/", "198.51.100.1", "deny asn"),
        ("/", "198.51.100.7", "allow"),
        ("/home", "192.0.2.1", "allow by home"),
        ("/home", "203.0.113.1", "deny wrong_network by home"),
        ("/login", "192.0.2.1", "deny policy by hoster"),
        ("/login", "203.0.113.1", "allow"),
        // All addresses of a system are one client.
        ("/limited", "192.0.2.1", "allow"),
        ("/limited", "192.0.2.2", "allow"),
        ("/limited", "192.0.2.3", "deny rate_limit"),
        ("/limited", "203.0.113.1", "allow"),
    ] {
        let answer = service.check(&Asked::get(path).from(from)).await.unwrap();
        assert_eq!(verdict(&answer), expected, "{path} {from}");
    }
}

#[test]
fn tables_and_patches_are_served() {
    const PATCHES: &str = r#"[{"id": "a", "cve": "CVE-2099-1", "title": "t", "rule": 9100001,
        "when": [{"target": "path", "equals": "/a"}]}]"#;
    let countries = STANDARD.encode(CountryTable::new(Vec::new()).to_bytes());
    let systems = STANDARD.encode(AsnTable::default().to_bytes());
    let config =
        "lists: {listen: \"127.0.0.1:0\", countries: c.txt, asn: a.txt, patches: p.json}\n";
    let files = [("c.txt", countries.as_str()), ("a.txt", &systems), ("p.json", PATCHES)];
    let service = Service::start(config, &files);
    for (name, text) in [("countries", countries.as_str()), ("asn", &systems), ("patches", PATCHES)]
    {
        let (head, body) = service.list(name, "");
        assert!(
            head.starts_with("http/1.1 200") && head.contains("repr-digest: sha-256=:"),
            "{head}"
        );
        assert_eq!(body, text);
    }
}
