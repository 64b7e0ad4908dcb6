//! A policy over requests that a table describes.

use super::*;
use crate::facts::fake::Fake;
use crate::shared::memory::Memory;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_limits::asn::AsnTable;
use glacis_limits::geo::CountryTable;
use std::net::IpAddr;

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
        r#"{"failure_mode": "closed",
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

const CURL: &[(&str, &str)] = &[("user-agent", "curl/8.5.0"), ("accept", "*/*")];
const CHROME: &str =
    "Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/130.0.0.0 Safari/537.36";

type Row<'a> = (&'a str, &'a [(&'static str, &'static str)], &'a str, &'a str);

/// Each row: the client, what it sends, the verdict, and the tags.
#[track_caller]
fn check_bots(config: &str, rows: &[Row<'_>]) {
    let (policy, shared) = (policy(config), Memory::default());
    for (i, (client, fields, expected, tags)) in rows.iter().enumerate() {
        let fake = Fake { fields: fields.to_vec() };
        let mut facts = Facts::new(&fake, client.parse().ok());
        let verdict = policy.judge(&mut facts, &[], T0, &shared).verdict;
        let told = (policy.property(verdict, &[]), facts.tags.join(","));
        assert_eq!(told, ((*expected).into(), (*tags).to_owned()), "row {i} of {config}");
    }
}

#[test]
fn bots() {
    let sqlmap: &[_] = &[("user-agent", "SQLMap/1.8#stable (https://sqlmap.org)")];
    let named_only: &[_] = &[("user-agent", CHROME)];
    let google: &[_] = &[("user-agent", "Mozilla/5.0 (compatible; Googlebot/2.1) curl/8")];
    let tagged = "bot.tool.curl";
    let both = "bot.claims.googlebot,bot.tool.curl";
    check_bots(
        r#"{"address_lists": {"allow": ["10.0.0.9"]}, "bots": {}}"#,
        &[
            ("10.0.0.1", sqlmap, "denied:bot.scanner.sqlmap", "bot.scanner.sqlmap"),
            ("10.0.0.9", sqlmap, "allowed:list", ""),
            ("10.0.0.1", CURL, "passed", tagged),
            ("10.0.0.1", named_only, "passed", "bot.headers"),
            ("10.0.0.1", google, "passed", both),
            ("10.0.0.1", &[], "passed", "bot.no-agent"),
        ],
    );
    check_bots(
        r#"{"bots": {
            "scanners": "tag", "tools": "off", "shadow": true,
            "signatures": [{"name": "nikto", "contains": "nikto", "action": "off"},
                           {"name": "mine", "contains": "mybot", "action": "deny"}],
            "crawlers": {"networks": {"googlebot": ["192.0.2.0/24"]}, "action": "deny"},
            "browser_score": {"threshold": 6}}, "rate_limits": [
                {"requests": 1, "match": {"tags": ["bot.outside.googlebot"]}}]}"#,
        &[
            ("10.0.0.1", sqlmap, "passed", "bot.scanner.sqlmap"),
            ("10.0.0.1", &[("user-agent", "Nikto/2")], "passed", ""),
            ("10.0.0.1", CURL, "passed", ""),
            ("10.0.0.1", named_only, "passed", ""),
            (
                "10.0.0.1",
                &[("user-agent", "MyBot MYBOT")],
                "shadow:denied:bot.signature.mine",
                "bot.signature.mine",
            ),
            ("192.0.2.1", google, "passed", "bot.verified.googlebot"),
            // A tag of a bot is one for limits.
            ("10.0.0.1", google, "shadow:denied:bot.outside.googlebot", "bot.outside.googlebot"),
            ("10.0.0.1", google, "limited:per-address", "bot.outside.googlebot"),
        ],
    );
    check_bots(
        r#"{"bots": {"browser_score": {"threshold": 5, "action": "deny"}, "tls_fingerprints": {
            "ja3": ["0123456789ABCDEF0123456789abcdef"], "ja4": ["t13d_b_C", "t13d_a_b"]}}}"#,
        &[
            ("10.0.0.1", named_only, "denied:bot.headers", "bot.headers"),
            ("10.0.0.1", &[("user-agent", "x"), ("glacis.ja4", "t13d_a_c")], "passed", ""),
            (
                "10.0.0.1",
                &[("user-agent", "x"), ("glacis.ja4", "t13d_b_c")],
                "denied:bot.tls",
                "bot.tls",
            ),
            (
                "10.0.0.1",
                &[("user-agent", "x"), ("glacis.ja3", "0123456789abcdef0123456789abcdef")],
                "denied:bot.tls",
                "bot.tls",
            ),
        ],
    );
}

/// Who browses or calls an API by ordinary means is not refused by what is there by default,
/// nor is any of our own tools.
#[test]
fn ordinary_clients_are_not_refused_as_bots() {
    let policy = policy(r#"{"bots": {}}"#);
    let agents = [
        CHROME,
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/17.5 Safari/605.1.15",
        "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) Mobile/15E148",
        "Opera/9.80 (Windows NT 6.1) Presto/2.12 Version/12.18",
        "curl/8.5.0",
        "Wget/1.21.4",
        "Go-http-client/1.1",
        "Go-http-client/2.0",
        "Java/17.0.9",
        "Java-http-client/21.0.1",
        "Apache-HttpClient/5.2 (Java/17.0.9)",
        "okhttp/4.12.0",
        "python-requests/2.31.0",
        "Python-urllib/3.12",
        "python-httpx/0.27.0",
        "Python/3.11 aiohttp/3.9.5",
        "axios/1.7.2",
        "node",
        "undici",
        "aws-sdk-go-v2/1.30.0 os/linux lang/go#1.22",
        "Boto3/1.34.0 md/Botocore#1.34.0",
        "grpc-java-netty/1.64.0",
        "grpc-go/1.64.0",
        "PostmanRuntime/7.39.0",
        "kube-probe/1.30",
        "ELB-HealthChecker/2.0",
        "Prometheus/2.53.0",
        "Envoy/HC",
        "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
        "MyApp/3 CFNetwork/1494 Darwin/23.4.0",
        "Dalvik/2.1.0 (Linux; U; Android 13)",
        "",
    ];
    let accepts: [&[(&str, &str)]; 3] = [
        &[],
        &[("accept", "*/*")],
        &[("accept", "text/html"), ("accept-language", "en"), ("accept-encoding", "gzip")],
    ];
    for (agent, accept) in agents.iter().flat_map(|agent| accepts.map(|accept| (agent, accept))) {
        let fields = [accept, &[("user-agent", agent), (":scheme", "https")]].concat();
        let judgement = judge(&policy, Some("192.0.2.1"), &Fake { fields }, &Memory::default());
        assert_eq!(policy.property(judgement.verdict, &[]), "passed", "{agent} {accept:?}");
    }
}

/// Envoy's own geoip filter has said it.
#[test]
fn countries_of_a_header() {
    let policy = policy(r#"{"geo": {"from_header": "X-Country", "allow": ["DE"]}}"#);
    for (value, expected) in
        [("DE", "passed"), ("de", "passed"), ("FR", "denied:country"), ("DE,FR", "denied:country")]
    {
        let fake = Fake { fields: vec![("x-country", value)] };
        let judgement = judge(&policy, Some("192.0.2.1"), &fake, &Memory::default());
        assert_eq!(policy.property(judgement.verdict, &[]), expected, "{value}");
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
