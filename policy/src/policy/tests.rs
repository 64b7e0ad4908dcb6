//! A policy over requests that a table describes.

use super::*;
use crate::facts::fake::Fake;
use crate::shared::memory::Memory;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::asn::AsnTable;
use glacis_limits::geo::CountryTable;
use std::net::IpAddr;

mod bots;
mod hostile;
mod length;
mod order;
mod shadow;
mod stale;

const T0: u64 = 1_700_000_000_000_000_000;

fn policy(config: &str) -> Policy {
    Policy::new(Config::parse(config.as_bytes()).unwrap(), [7; 16], 1)
}

fn judge(policy: &Policy, client: Option<&str>, fake: &Fake, shared: &Memory) -> Judgement {
    let client = client.map(|client| client.parse::<IpAddr>().unwrap().to_canonical());
    policy.judge(&mut Facts::new(fake, client), &[], T0, shared)
}

#[test]
fn lets_in_by_autonomous_system() {
    let networks = [("10.0.0.0", "10.255.255.255", 64_496), ("11.0.0.0", "11.0.0.255", 7)];
    let network = |(first, last, number): (&str, &str, u32)| {
        (first.parse().unwrap(), last.parse().unwrap(), number)
    };
    let table = AsnTable::new(&networks.map(network));
    let table = STANDARD.encode(table.to_bytes());
    check(
        &format!(r#"{{"asn": {{"table": "{table}", "deny": [64496]}}}}"#),
        &[
            (Some("10.1.2.3"), "denied:asn"),
            (Some("::ffff:10.1.2.3"), "denied:asn"),
            (Some("11.0.0.1"), "passed"),
            (Some("12.0.0.1"), "passed"),
            (None, "passed"),
        ],
    );
    check(
        &format!(r#"{{"asn": {{"table": "{table}", "allow": [7]}}}}"#),
        &[
            (Some("11.0.0.1"), "passed"),
            (Some("10.1.2.3"), "denied:asn"),
            (Some("12.0.0.1"), "denied:asn"),
            (None, "denied:asn"),
        ],
    );
    // A bucket for a system, whatever the address.
    check(
        &format!(
            r#"{{"asn": {{"table": "{table}"}}, "rate_limits": [
                {{"name": "each", "requests": 1, "key": ["asn"], "match": {{"asns": [7, 64496]}}}}
            ]}}"#
        ),
        &[
            (Some("10.0.0.1"), "passed"),
            (Some("10.9.9.9"), "limited:each"),
            (Some("11.0.0.1"), "passed"),
            (Some("11.0.0.2"), "limited:each"),
            (Some("12.0.0.1"), "passed"),
            (Some("12.0.0.1"), "passed"),
        ],
    );
    let config = policy(r#"{"asn": {"from_header": "X-Asn", "deny": [64496, 0]}}"#);
    let shared = Memory::default();
    for (value, expected) in [
        ("64496", "denied:asn"),
        ("AS64496", "denied:asn"),
        ("64497", "passed"),
        ("", "denied:asn"),
        ("64497x", "denied:asn"),
    ] {
        let fake = Fake { fields: vec![("x-asn", value)] };
        let judgement = judge(&config, Some("192.0.2.1"), &fake, &shared);
        assert_eq!(config.property(judgement.verdict, &[]), expected, "{value}");
    }
}

/// Requests in a row, and the property that each one gets.
#[track_caller]
fn check(config: &str, rows: &[(Option<&str>, &str)]) {
    let (policy, shared) = (policy(config), Memory::default());
    for (i, (client, expected)) in rows.iter().enumerate() {
        let judgement = judge(&policy, *client, &Fake::default(), &shared);
        assert_eq!(policy.property(judgement.verdict, &[]), *expected, "row {i} of {config}");
        assert!(!judgement.unrecorded);
    }
}

#[test]
fn lists() {
    let config = r#"{"address_lists": {"allow": ["10.1.0.0/16"], "deny": ["10.0.0.0/8"]}}"#;
    check(
        config,
        &[
            (Some("10.2.0.1"), "denied:list"),
            (Some("::ffff:10.2.0.1"), "denied:list"),
            (Some("10.1.0.1"), "allowed:list"),
            (Some("192.0.2.1"), "passed"),
            (None, "error:no-address"),
        ],
    );
    check("{}", &[(None, "passed"), (Some("192.0.2.1"), "passed")]);
    check(r#"{"address_lists": {"allow": ["::1"]}}"#, &[(None, "passed")]);
}

#[test]
fn limit() {
    let limit = r#"{
        "address_lists": {"allow": ["192.0.2.9"], "deny": ["192.0.2.8"]},
        "rate_limits": [{"requests": 2}]
    }"#;
    check(
        limit,
        &[
            (Some("192.0.2.1"), "passed"),
            // A denied request costs nothing, and an allowed one has no limit.
            (Some("192.0.2.8"), "denied:list"),
            (Some("192.0.2.9"), "allowed:list"),
            (Some("192.0.2.9"), "allowed:list"),
            (Some("192.0.2.9"), "allowed:list"),
            (Some("192.0.2.1"), "passed"),
            (Some("192.0.2.1"), "limited:per-address"),
            (Some("192.0.2.2"), "passed"),
            (None, "error:no-address"),
        ],
    );
    let shadow = r#"{"rate_limits": [{"requests": 1, "shadow": true}]}"#;
    let limited = "shadow:limited:per-address";
    check(shadow, &[(Some("192.0.2.1"), "passed"), (Some("192.0.2.1"), limited)]);
    let gcra = r#"{"rate_limits": [{"requests": 5, "cost": 3, "algorithm": "gcra"}]}"#;
    check(gcra, &[(Some("192.0.2.1"), "passed"), (Some("192.0.2.1"), "limited:per-address")]);
}

#[test]
fn fetched_lists() {
    let policy = policy(
        r#"{
            "failure_mode": "closed",
            "address_lists": {"deny": ["192.0.2.0/24"], "feeds": [
                {"name": "one", "cluster": "c", "path": "/", "required": true},
                {"name": "two", "cluster": "c", "path": "/"}
            ]},
            "rate_limits": [{"requests": 1, "match": {"tags": ["cloud"]}}]
        }"#,
    );
    let shared = Memory::default();
    let feeds = |text: &[&str]| -> Vec<Feed> {
        for (source, text) in policy.sources().iter().zip(text) {
            let key = format!("glacis.wasm/2/feed/{}", source.name);
            shared.put(&key, format!("c c /\n\n{text}").as_bytes()).unwrap();
        }
        let restored = |source: &Source| Feed::restored(source.clone(), &shared);
        policy.sources().iter().map(restored).collect()
    };
    let judge = |feeds: &[Feed], client: Option<&str>| {
        let (fake, client) = (Fake::default(), client.map(|client| client.parse().unwrap()));
        let mut facts = Facts::new(&fake, client);
        let verdict = policy.judge(&mut facts, feeds, T0, &shared).verdict;
        (policy.property(verdict, feeds).into_owned(), facts.tags)
    };
    let none = feeds(&[]);
    assert_eq!(judge(&none, Some("192.0.2.1")).0, "denied:list");
    assert_eq!(judge(&none, Some("10.0.0.1")).0, "error:no-list");
    assert_eq!(judge(&none, None).0, "error:no-address");
    let both = feeds(&[
        "10.0.0.0/8 deny\n192.0.2.7 allow\n198.51.100.0/24 tag=cloud tag=x",
        "10.0.0.1 allow\n10.0.0.2 deny until=7\n198.51.100.0/24 tag=x tag=y",
    ]);
    let tags = |tags: &[&str]| tags.iter().map(|tag| (*tag).to_owned()).collect::<Vec<_>>();
    let rows: &[(&str, &str, &[&str])] = &[
        ("10.0.0.1", "allowed:list", &[]),
        ("10.0.0.2", "denied:list", &[]),
        ("192.0.2.7", "allowed:list", &[]),
        ("192.0.2.8", "denied:list", &[]),
        ("198.51.100.1", "passed", &["cloud", "x", "y"]),
        ("198.51.100.1", "limited:per-address", &["cloud", "x", "y"]),
        ("203.0.113.1", "passed", &[]),
        ("203.0.113.1", "passed", &[]),
    ];
    for (i, (client, expected, expected_tags)) in rows.iter().enumerate() {
        let told = judge(&both, Some(client));
        assert_eq!(told, ((*expected).to_owned(), tags(expected_tags)), "row {i}");
    }
}

/// What is required and not there yet counts for requests without an address, too.
#[test]
fn required_patches() {
    let policy = policy(
        r#"{"failure_mode": "open",
            "virtual_patch_feed": {"cluster": "c", "path": "/", "required": true}}"#,
    );
    let shared = Memory::default();
    let restored = |source: &Source| Feed::restored(source.clone(), &shared);
    let expect = |expected: &str| {
        let feeds: Vec<Feed> = policy.sources().iter().map(restored).collect();
        for client in [None, Some("192.0.2.1")] {
            let fake = Fake::default();
            let mut facts = Facts::new(&fake, client.map(|client| client.parse().unwrap()));
            let verdict = policy.judge(&mut facts, &feeds, T0, &shared).verdict;
            assert_eq!(policy.property(verdict, &feeds), expected, "{client:?}");
            assert_eq!(verdict.goes_on(), expected == "passed", "it fails closed");
        }
    };
    expect("error:no-list");
    shared.put("glacis.wasm/2/patches/patches", b"c c /\n\n[]").unwrap();
    expect("passed");
}

/// All header fields are fetched at once where most requests are looked at as a whole.
#[test]
fn whole_heads() {
    let limit = |rest: &str| format!(r#"{{"rate_limits": [{{"requests": 1, {rest}}}]}}"#);
    let rows = [
        ("{}".to_owned(), false),
        // Bots are looked for behind the limits, which need none of the fields.
        (r#"{"bots": {}}"#.to_owned(), false),
        (limit(r#""match": {"tags": ["bot.tool.curl"]}"#), true),
        (limit(r#""key": ["client_address", "host", "method"]"#), false),
        (limit(r#""key": ["client_address", "host", {"cookie": "a"}]"#), true),
        (limit(r#""key": ["host", {"header": "a"}]"#), true),
        (limit(r#""key": [{"header": "a"}], "match": {"tags": ["a"]}"#), true),
        (limit(r#""key": [{"header": "a"}], "match": {"paths": ["/a"]}"#), false),
    ];
    for (config, expected) in rows {
        assert_eq!(policy(&config).looks_at_many_fields(), expected, "{config}");
    }
}

/// A table of three networks, as a configuration has it.
fn countries() -> String {
    let network = |(first, last, country): (&str, &str, &str)| {
        (first.parse().unwrap(), last.parse().unwrap(), Country::parse(country).unwrap())
    };
    let networks = [
        ("10.0.0.0", "10.255.255.255", "DE"),
        ("192.0.2.0", "192.0.2.255", "FR"),
        ("2001:db8::", "2001:db8::ffff", "FR"),
    ];
    let table = CountryTable::new(networks.map(network).to_vec());
    STANDARD.encode(table.to_bytes())
}

#[test]
fn lets_in_by_country() {
    let table = countries();
    let geo = |rest: &str| format!(r#"{{"geo": {{"table": "{table}", {rest}}}}}"#);
    check(
        &geo(r#""deny": ["fr"]"#),
        &[
            (Some("10.0.0.1"), "passed"),
            (Some("192.0.2.1"), "denied:country"),
            (Some("::ffff:192.0.2.1"), "denied:country"),
            (Some("2001:db8::1"), "denied:country"),
            (Some("11.0.0.1"), "passed"),
            (None, "passed"),
        ],
    );
    check(
        &geo(r#""allow": ["DE"], "header": true"#),
        &[
            (Some("10.0.0.1"), "passed"),
            (Some("192.0.2.1"), "denied:country"),
            (Some("11.0.0.1"), "denied:country"),
            (None, "denied:country"),
        ],
    );
    let known = r#""allow": ["DE", "ZZ"], "deny": ["DE"]"#;
    let rows = [(Some("10.0.0.1"), "denied:country"), (Some("11.0.0.1"), "passed")];
    check(&geo(known), &rows);
    // One bucket for each country, and only for one of them.
    check(
        &format!(
            r#"{{"geo": {{"table": "{table}"}}, "rate_limits": [
                {{"name": "each", "requests": 2, "key": ["country"]}},
                {{"name": "fr", "requests": 1, "match": {{"countries": ["FR"]}}}}
            ]}}"#
        ),
        &[
            (Some("10.0.0.1"), "passed"),
            (Some("10.0.0.2"), "passed"),
            (Some("10.0.0.3"), "limited:each"),
            (Some("192.0.2.1"), "passed"),
            (Some("192.0.2.1"), "limited:fr"),
            (Some("11.0.0.1"), "passed"),
        ],
    );
}

#[test]
fn virtual_patches() {
    let policy = policy(
        r#"{"virtual_patches": [
            {"id": "old", "cve": "CVE-1999-1", "title": "t", "rule": 9100001,
             "expires": "2000-01-01", "when": [{"target": "path", "prefix": "/"}]},
            {"id": "new", "cve": "CVE-2099-1", "title": "t", "rule": 9100002, "when": [
                {"target": "method", "equals": "post"}, {"target": "path", "suffix": "/x"},
                {"target": "argument", "name": "a", "contains": "<"},
                {"target": "header", "name": "X-H", "prefix": "h"}]}
        ], "rate_limits": [{"requests": 4}]}"#,
    );
    let shared = Memory::default();
    let rows: &[(&str, &str, &[&str], &str)] = &[
        ("POST", "/%2558?b=1&A=%3C", &["H"], "denied:patch:new"),
        ("POST", "/%2558?b=1&A=%3C", &["h2"], "denied:patch:new"),
        ("POST", "/%2558?b=1&A=%3C", &["no", "h"], "denied:patch:new"),
        ("POST", "/x?a=1&b=%3C", &["h"], "passed"),
        // What a patch denies has cost its tokens, and who has none left is asked nothing else.
        ("GET", "/x?a=%3C", &["h"], "limited:per-address"),
        ("POST", "/%2558?b=1&A=%3C", &["H"], "limited:per-address"),
    ];
    for (i, (method, path, values, expected)) in rows.iter().enumerate() {
        let mut fields = vec![(":method", *method), (":path", *path)];
        fields.extend(values.iter().map(|value| ("x-h", *value)));
        let judgement = judge(&policy, Some("192.0.2.1"), &Fake { fields }, &shared);
        assert_eq!(policy.property(judgement.verdict, &[]), *expected, "row {i}");
    }
}

/// Envoy's own geoip filter has said it. Where several values differ, a client has added one: nothing is known.
#[test]
fn countries_and_systems_of_a_header() {
    let geo = |rest: &str| policy(&format!(r#"{{"geo": {{"from_header": "X-Origin", {rest}}}}}"#));
    let asn = |rest: &str| policy(&format!(r#"{{"asn": {{"from_header": "X-Origin", {rest}}}}}"#));
    let (allows, denies) = (geo(r#""allow": ["DE"]"#), geo(r#""deny": ["KP", "ZZ"]"#));
    let (allows_asn, denies_asn) = (asn(r#""allow": [7]"#), asn(r#""deny": [8, 0]"#));
    type Passes<'a> = (&'a [&'static str], [bool; 2]);
    type Row<'a> = (Passes<'a>, Passes<'a>);
    let rows: [Row<'_>; 8] = [
        ((&["DE"], [true, true]), (&["7"], [true, true])),
        ((&["de"], [true, true]), (&["AS7"], [true, true])),
        ((&["KP"], [false, false]), (&["8"], [false, false])),
        ((&["FR"], [false, true]), (&["9"], [false, true])),
        ((&["DE", "de"], [true, true]), (&["AS7", "7, 7"], [true, true])),
        ((&["DE", "KP"], [false, false]), (&["7", "8"], [false, false])),
        ((&["KP, DE"], [false, false]), (&["8,7"], [false, false])),
        ((&[], [false, false]), (&["x"], [false, false])),
    ];
    let passes = |policy: &Policy, values: &[&'static str]| {
        let fake = Fake { fields: values.iter().map(|value| ("x-origin", *value)).collect() };
        judge(policy, Some("192.0.2.1"), &fake, &Memory::default()).verdict == Verdict::Passed
    };
    for ((countries, expected), (systems, expected_of_systems)) in rows {
        let found = [&allows, &denies].map(|policy| passes(policy, countries));
        assert_eq!(found, expected, "{countries:?}");
        let found = [&allows_asn, &denies_asn].map(|policy| passes(policy, systems));
        assert_eq!(found, expected_of_systems, "{systems:?}");
    }
}

#[test]
fn a_network_shares_a_bucket() {
    let config = r#"{"rate_limits": [{"requests": 1, "ipv4_prefix": 24, "ipv6_prefix": 48}]}"#;
    check(
        config,
        &[
            (Some("192.0.2.1"), "passed"),
            (Some("192.0.2.200"), "limited:per-address"),
            (Some("192.0.3.1"), "passed"),
            (Some("2001:db8:0:1::1"), "passed"),
            (Some("2001:db8:0:2::1"), "limited:per-address"),
            (Some("2001:db8:1::1"), "passed"),
        ],
    );
}

/// Several limits: each with its requests and its key, asked in their order.
#[test]
fn several_limits() {
    let policy = policy(
        r#"{"rate_limits": [
            {"name": "login", "requests": 2,
             "match": {"methods": ["POST"], "paths": ["/login"], "hosts": ["shop.example"]}},
            {"name": "key", "requests": 3, "shadow": true,
             "key": [{"header": "x-key", "absent": "skip"}]},
            {"name": "all", "requests": 4}
        ]}"#,
    );
    let shared = Memory::default();
    let post = &[(":method", "POST"), (":authority", "shop.example:80")];
    let login = [post as &[_], &[(":path", "/x/../LOGIN?a")]].concat();
    let elsewhere = [post as &[_], &[(":path", "/login/help")]].concat();
    let keyed = vec![("x-key", "a")];
    let rows: &[(&str, &Vec<_>, &str, usize)] = &[
        ("192.0.2.1", &login, "passed", 2),
        ("192.0.2.1", &login, "passed", 2),
        // What the first limit refuses costs nothing at the third.
        ("192.0.2.1", &login, "limited:login", 1),
        ("192.0.2.1", &login, "limited:login", 1),
        ("192.0.2.1", &elsewhere, "passed", 1),
        ("192.0.2.1", &elsewhere, "passed", 1),
        ("192.0.2.1", &elsewhere, "limited:all", 1),
        ("192.0.2.2", &keyed, "passed", 2),
        ("192.0.2.3", &keyed, "passed", 2),
        ("192.0.2.4", &keyed, "passed", 2),
        ("192.0.2.5", &keyed, "shadow:limited:key", 2),
        // A limit behind one that only watches still refuses.
        ("192.0.2.1", &keyed, "limited:all", 2),
    ];
    for (i, (client, fields, expected, asked)) in rows.iter().enumerate() {
        let fake = Fake { fields: fields.to_vec() };
        let judgement = judge(&policy, Some(client), &fake, &shared);
        assert_eq!(policy.property(judgement.verdict, &[]), *expected, "row {i}");
        assert_eq!(judgement.standings.len(), *asked, "row {i}");
    }
}

#[test]
fn failure_modes() {
    for (word, mode) in [("open", FailureMode::Open), ("closed", FailureMode::Closed)] {
        let policy =
            policy(&format!(r#"{{"failure_mode": "{word}", "rate_limits": [{{"requests": 1}}]}}"#));
        let (fake, shared) = (Fake::default(), Memory::default());
        let verdict = judge(&policy, None, &fake, &shared).verdict;
        assert_eq!(verdict, Verdict::Undecided(Reason::NoAddress, mode));
        shared.broken.set(true);
        let verdict = judge(&policy, Some("192.0.2.1"), &fake, &shared).verdict;
        assert_eq!(verdict, Verdict::Undecided(Reason::SharedData, mode));
    }
}

#[test]
fn a_request_that_lost_every_race_is_told() {
    let policy = policy(r#"{"rate_limits": [{"requests": 1}]}"#);
    let shared = Memory::default();
    shared.lost_writes.set(u32::MAX);
    let judgement = judge(&policy, Some("192.0.2.1"), &Fake::default(), &shared);
    assert_eq!(judgement.verdict, Verdict::Passed);
    assert!(judgement.unrecorded);
}

/// The seed decides where a client falls, so that nobody can work it out beforehand.
#[test]
fn the_seed_matters() {
    let policy = policy(r#"{"rate_limits": [{"requests": 1}]}"#);
    let fake = Fake::default();
    let facts = Facts::new(&fake, "192.0.2.1".parse().ok());
    let fingerprint = |seed| facts.fingerprint(&policy.rate_limits()[0], seed);
    assert_eq!(fingerprint([1; 16]), fingerprint([1; 16]));
    assert_ne!(fingerprint([1; 16]), fingerprint([2; 16]));
}
