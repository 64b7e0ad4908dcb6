//! Bans, and lists for wasm-filters.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use glacis_limits::{
    asn::AsnTable,
    geo::{Country, CountryTable},
    network_list::NetworkList,
};

use serde_json::Value;

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

/// Bans by hand: in pages, with networks of IPv4, within their bounds.
#[tokio::test]
async fn bans_by_hand() {
    let service = Service::start(CONFIG, &[("block.txt", "")]);
    let put = |body: &str| service.send("PUT", "/bans", body);
    let remove = |body: &str| service.send("POST", "/bans/remove", body);
    for (network, seconds) in [("192.0.2.0/24", 60), ("10.0.0.1", 600), ("2001:db8::/32", 60)] {
        let (status, told) =
            put(&format!("{{\"network\": \"{network}\", \"seconds\": {seconds}}}"));
        assert_eq!(status, 200, "{told}");
        let told: Value = serde_json::from_str(&told).unwrap();
        assert_eq!((&told["network"], &told["shared"]), (&network.into(), &true.into()), "{told}");
    }
    for (from, expected) in [
        ("192.0.2.77", "deny banned"),
        ("192.0.3.1", "allow"),
        ("10.0.0.1", "deny banned"),
        ("2001:db8:ffff::1", "deny banned"),
        // Who is allowed by a list is not banned.
        ("192.0.2.200", "allow"),
    ] {
        let answer = service.check(&Asked::get("/").from(from)).await.unwrap();
        assert_eq!(verdict(&answer), expected, "{from}");
    }
    let page = |query: &str| -> (Vec<String>, Value, Value) {
        let told: Value = serde_json::from_str(&service.get(&format!("/bans{query}")).1).unwrap();
        let of = |ban: &Value| ban["network"].as_str().unwrap().to_owned();
        let bans = told["bans"].as_array().unwrap().iter().map(of).collect();
        (bans, told["next"].clone(), told["total"].clone())
    };
    let all = ["10.0.0.1", "192.0.2.0/24", "2001:db8::/32"];
    assert_eq!(page(""), (all.map(str::to_owned).to_vec(), Value::Null, 3.into()));
    assert_eq!(page("?limit=2").1, "192.0.2.0/24");
    let last = (vec![all[2].to_owned()], Value::Null, 3.into());
    assert_eq!(page("?limit=2&after=192.0.2.0%2F24"), last);
    assert_eq!(page("?limit=3").1, Value::Null);
    // The filters' list has them, too.
    assert_eq!(NetworkList::parse(&service.list("bans", "").1, 10).unwrap().entries(), 3);
    let good = r#"{"network": "192.0.2.0/24"}"#;
    for expected in ["true", "false"] {
        let (status, told) = remove(good);
        assert!(status == 200 && told.contains(&format!("\"removed\":{expected}")), "{told}");
    }
    let answer = service.check(&Asked::get("/").from("192.0.2.77")).await.unwrap();
    assert_eq!(verdict(&answer), "allow");
    for (method, path, body, status) in [
        ("GET", "/bans?limit=1000", "", 200),
        ("GET", "/bans?limit=1001", "", 400),
        ("GET", "/bans?limit=0", "", 400),
        ("GET", "/bans?after=x", "", 400),
        ("GET", "/bans?other=1", "", 400),
        ("POST", "/bans", "{}", 405),
        ("GET", "/bans/remove", "", 405),
        ("PUT", "/bans", "{}", 400),
        ("PUT", "/bans", r#"{"network": "11.0.0.0/8", "seconds": 31622400}"#, 200),
        ("PUT", "/bans", r#"{"network": "11.0.0.0/8", "seconds": 31622401}"#, 400),
        ("PUT", "/bans", r#"{"network": "11.0.0.0/8", "seconds": 0}"#, 400),
        ("PUT", "/bans", r#"{"network": "12.0.0.0/7", "seconds": 1}"#, 400),
        ("PUT", "/bans", r#"{"network": "2002::/16", "seconds": 1}"#, 200),
        ("PUT", "/bans", r#"{"network": "2000::/15", "seconds": 1}"#, 400),
        ("PUT", "/bans", r#"{"network": "11.0.0.1/8", "seconds": 1}"#, 400),
        ("POST", "/bans/remove", r#"{"network": "x"}"#, 400),
        ("POST", "/bans/remove", r#"{"network": "10.0.0.1", "more": 1}"#, 400),
    ] {
        let (found, told) = service.send(method, path, body);
        assert_eq!(found, status, "{method} {path} {body}: {told}");
    }
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
