//! Documents that are accepted, and what is told of those that are not.

use super::lists::LIST_ENTRIES_MAX;
use super::*;
use crate::rate_limit::Absent;
use crate::table::Algorithm;

fn burst(limit: &RateLimit) -> u32 {
    match limit.algorithm {
        Algorithm::TokenBucket(bucket) => bucket.burst(),
        Algorithm::Gcra(gcra) => gcra.burst(),
    }
}

#[test]
fn defaults() {
    let config = Config::parse(b"{}").unwrap();
    assert!(config.lists.allow.is_empty() && config.lists.deny.is_empty());
    assert_eq!((config.trusted_hops, config.failure_mode), (0, FailureMode::Open));
    assert!(config.rate_limits.is_empty());

    assert_eq!(config.pending_bodies, None);
    let config = Config::parse(br#"{"pending_bodies": {}}"#).unwrap();
    assert_eq!(
        config.pending_bodies,
        Some(Settings { per_client: 64, mib_per_client: 128, shadow: false })
    );

    let config = Config::parse(br#"{"rate_limits": [{"requests": 7}]}"#).unwrap();
    let limit = &config.rate_limits[0];
    assert_eq!(limit.name.as_str(), "per-address");
    assert_eq!((limit.requests, limit.per_seconds, burst(limit)), (7, 1, 7));
    assert_eq!((limit.ipv4_prefix, limit.ipv6_prefix, limit.table_entries), (32, 64, 16_384));
    assert!(!limit.shadow && !limit.headers_on_allowed);
}

/// Each document of README.md is one that is accepted.
#[test]
fn examples_of_the_readme() {
    const README: &str = include_str!("../../../wasm-filter/README.md");
    let table = glacis_limits::geo::CountryTable::new(Vec::new()).to_bytes();
    let table = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, table);
    let fenced = README.split("```").skip(1).step_by(2);
    let (mut documents, mut plugins, mut feeds) = (0, 0, 0);
    for block in fenced {
        let (kind, text) = block.split_once('\n').unwrap();
        let document = match (kind, text.split_once("value: |\n")) {
            ("json", _) => text,
            ("yaml", Some((_, plugin))) => plugin,
            ("", _) => {
                feeds += 1;
                glacis_limits::network_list::NetworkList::parse(text, 9).unwrap();
                continue;
            }
            _ => continue,
        };
        (documents, plugins) =
            if kind == "json" { (documents + 1, plugins) } else { (documents, plugins + 1) };
        Config::parse(document.replace("BASE64", &table).as_bytes()).unwrap();
    }
    assert_eq!((documents, plugins, feeds), (1, 1, 1));
}

#[test]
fn every_field() {
    let config = Config::parse(
        br#"{
            "address_lists": {"allow": ["192.0.2.7"], "deny": ["10.0.0.0/8", "2001:db8::/32"]},
            "trusted_hops": 2,
            "failure_mode": "closed",
            "rate_limits": [{
                "name": "login", "requests": 1e2, "per_seconds": 60.0, "burst": 200,
                "algorithm": "token-bucket", "cost": 5,
                "key": ["client_address", "host", "method", {"header": "X-Key"},
                        {"cookie": "id", "absent": "shared"}, {"path": ["/a/{b}"]},
                        {"jwt_claim": "sub", "payload": "p", "absent": "skip"},
                        {"metadata": ["f", "k", "l"], "absent": "address"}],
                "match": {"methods": ["post"], "paths": ["/a/**"], "hosts": ["A.example"]},
                "ipv4_prefix": 24, "ipv6_prefix": 56, "table_entries": 1024, "shadow": true,
                "headers_on_allowed": true
            }]
        }"#,
    )
    .unwrap();
    assert_eq!((config.lists.allow.ranges(), config.lists.deny.ranges()), (1, 2));
    assert_eq!((config.trusted_hops, config.failure_mode), (2, FailureMode::Closed));
    let limit = &config.rate_limits[0];
    assert_eq!(limit.name.as_str(), "login");
    assert_eq!((limit.requests, limit.per_seconds, burst(limit)), (100, 60, 200));
    assert_eq!((limit.ipv4_prefix, limit.ipv6_prefix, limit.table_entries), (24, 56, 1024));
    assert!(limit.shadow && limit.headers_on_allowed);
    assert_eq!((limit.cost, limit.key.len()), (5, 8));
    assert_eq!(limit.key[3], KeyPart::Header("x-key".to_owned(), Absent::Address));
    let claim = ["envoy.filters.http.jwt_authn", "p", "sub"].map(str::to_owned).to_vec();
    assert_eq!(limit.key[6], KeyPart::Metadata(claim, Absent::Skip));
    assert_eq!(limit.applies.methods, [b"POST"]);
    assert_eq!(limit.applies.hosts, [b"a.example"]);
}

/// Every message begins with the path and ends with what to write.
#[test]
fn problems() {
    let rows = [
        ("", "$: there is no configuration; write a JSON object, at least {}"),
        (" \n", "$: there is no configuration"),
        (
            "{",
            "$: it cannot be read as JSON: EOF while parsing an object at line 1 column 1; it \
             begins with \"{\"; write JSON text, in a google.protobuf.StringValue",
        ),
        ("\n)\n\raddress_lists", "it begins with \"\\n)\\n\\raddress_lists\"; write JSON text"),
        ("[]", "$: it is a list; write a JSON object"),
        (r#"{"trusted_hops": 1, "trusted_hops": 2}"#, "\"trusted_hops\" stands twice"),
        (
            r#"{"deny": []}"#,
            "deny: there is no such field; the fields here are address_lists, geo, asn, bots, virtual_patches, virtual_patch_feed, trusted_hops",
        ),
        (r#"{"trusted_hops": -1}"#, "trusted_hops: it is a number that is negative"),
        (r#"{"trusted_hops": 17}"#, "trusted_hops: it is 17; write a whole number from 0 to 16"),
        (r#"{"trusted_hops": "1"}"#, "trusted_hops: it is \"1\"; write a whole number"),
        (r#"{"trusted_hops": null}"#, "trusted_hops: it is null; write a whole number"),
        (
            r#"{"failure_mode": "fail"}"#,
            "failure_mode: it is \"fail\"; write \"open\" or \"closed\"",
        ),
        (
            r#"{"guard": {}, "failure_mode": "closed"}"#,
            "failure_mode: a guard looks at nothing else; remove it, or configure another",
        ),
        (r#"{"rate_limits": [], "guard": {}}"#, "rate_limits: a guard looks at nothing else"),
        (r#"{"address_lists": []}"#, "address_lists: it is a list; write a JSON object"),
        (
            r#"{"address_lists": {"block": []}}"#,
            "address_lists.block: there is no such field; the fields here are allow, deny, feeds",
        ),
        (r#"{"address_lists": {"deny": "::1"}}"#, "address_lists.deny: it is \"::1\"; write a"),
        (r#"{"address_lists": {"deny": [7]}}"#, "address_lists.deny[0]: it is 7; write addresses"),
        (
            r#"{"address_lists": {"allow": ["::1", "10.0.0.1/8"]}}"#,
            "address_lists.allow[1]: \"10.0.0.1/8\": it has bits set outside of its prefix; \
             write 10.0.0.0/8 for the network or 10.0.0.1/32 for the one address",
        ),
        (r#"{"rate_limits": [true]}"#, "rate_limits[0]: it is true; write a JSON object"),
        (r#"{"rate_limits": [{}]}"#, "rate_limits[0].requests: it is missing; write how many"),
        (
            r#"{"rate_limits": [{"requests": 0}]}"#,
            "rate_limits[0].requests: it is 0; write a whole number from 1 to 1000000000",
        ),
        (
            r#"{"rate_limits": [{"requests": 1.5}]}"#,
            "rate_limits[0].requests: it is a number that is",
        ),
        (
            r#"{"bots": {"scanners": "ban"}}"#,
            "bots.scanners: it is \"ban\"; write \"deny\", \"tag\" or",
        ),
        (
            r#"{"bots": {"bot": 1}}"#,
            "bots.bot: there is no such field; the fields here are scanners",
        ),
        (
            r#"{"bots": {"signatures": [{"contains": "ab"}]}}"#,
            "bots.signatures[0].name: it is missing; write a text",
        ),
        (
            r#"{"bots": {"signatures": [{"name": "a", "contains": "ab"}]}}"#,
            "bots.signatures[0].contains: \"ab\": write 3 to 128 visible characters",
        ),
        (
            r#"{"bots": {"signatures": [{"name": "a b", "contains": "abc"}]}}"#,
            "bots.signatures[0].name: \"a b\": write 1 to 64 letters, digits",
        ),
        (
            r#"{"bots": {"crawlers": {"networks": {"google": []}}}}"#,
            "bots.crawlers.networks.google: there is no such field; the fields here are amazonbot",
        ),
        (
            r#"{"bots": {"crawlers": {"networks": {"googlebot": ["x"]}, "action": "off"}}}"#,
            "bots.crawlers.action: it is \"off\"; write \"deny\" or \"tag\"",
        ),
        (
            r#"{"bots": {"browser_score": {"threshold": 11}}}"#,
            "bots.browser_score.threshold: it is 11; write a whole number from 1 to 10",
        ),
        (
            r#"{"bots": {"tls_fingerprints": {"ja3": ["ab"]}}}"#,
            "bots.tls_fingerprints.ja3[0]: \"ab\": write 32 digits",
        ),
        (
            r#"{"bots": {"tls_fingerprints": {"ja4": ["a_b"]}}}"#,
            "bots.tls_fingerprints.ja4[0]: \"a_b\": write three groups",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "per_seconds": 86401}]}"#,
            "rate_limits[0].per_seconds: it is 86401; write a whole number from 1 to 86400",
        ),
        (
            r#"{"rate_limits": [{"requests": 7, "per_seconds": 86400, "burst": 1000000000}]}"#,
            "rate_limits[0].burst: 1000000000: the burst is too large for this rate; write at most",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "name": "a b"}]}"#,
            "rate_limits[0].name: \"a b\": the name has the character ' '; write only letters",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "ipv4_prefix": 33}]}"#,
            "rate_limits[0].ipv4_prefix: it is 33; write a whole number from 8 to 32",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "ipv6_prefix": 0}]}"#,
            "rate_limits[0].ipv6_prefix: it is 0; write a whole number from 16 to 128",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "table_entries": 1048577}]}"#,
            "rate_limits[0].table_entries: it is 1048577; write a whole number from 8 to 1048576",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "shadow": "yes"}]}"#,
            "rate_limits[0].shadow: it is \"yes\"; write true or false",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "headers_on_allowed": 1}]}"#,
            "rate_limits[0].headers_on_allowed: it is 1; write true or false",
        ),
        (
            r#"{"address_lists": {"feeds": [{"name": "a", "path": "x", "cluster": "c"}]}}"#,
            "address_lists.feeds[0].path: it does not begin with '/'; write such as",
        ),
        (
            r#"{"address_lists": {"feeds": [{"name": "a b", "path": "/", "cluster": "c"}]}}"#,
            "address_lists.feeds[0].name: \"a b\": write 1 to 1024 visible characters",
        ),
        (
            r#"{"address_lists": {"feeds": [{"name": "a", "path": "/"}]}}"#,
            "address_lists.feeds[0].cluster: it is missing; write a text",
        ),
        (
            r#"{"address_lists": {"feeds": [{"name": "a", "path": "/", "cluster": "c"},
                                            {"name": "a", "path": "/", "cluster": "c"}]}}"#,
            "address_lists.feeds[1].name: \"a\" is the name of another feed, too; write",
        ),
        (
            r#"{"address_lists": {"feeds": [{"name": "a", "path": "/", "cluster": "c",
                "refresh_seconds": 0, "timeout_ms": 1, "required": 1}]}}"#,
            "feeds[0].timeout_ms: it is 1; write a whole number from 10 to 60000",
        ),
        (
            r#"{"address_lists": {"feeds": [{"name": "a", "path": "/", "cluster": "c", "format": "csv"}]}}"#,
            "address_lists.feeds[0].format: it is \"csv\"; write \"glacis\" or \"plain\"",
        ),
        (
            r#"{"address_lists": {"feeds": [{"name": "a", "path": "/", "cluster": "c", "action": "deny"}]}}"#,
            "address_lists.feeds[0].action: only a plain list has one; write \"format\": \"plain\"",
        ),
        (
            r#"{"address_lists": {"feeds": [{"name": "a", "path": "/", "cluster": "c", "format": "plain",
                "action": "drop"}]}}"#,
            "address_lists.feeds[0].action: it is \"drop\"; write \"deny\", \"allow\" or \"tag\"",
        ),
        (
            r#"{"address_lists": {"feeds": [{"name": "a/b", "path": "/", "cluster": "c", "format": "plain",
                "action": "tag"}]}}"#,
            "address_lists.feeds[0].action: the tag is the name of the list; write that without '/'",
        ),
        (
            r#"{"address_lists": {"feeds": [{"name": "a", "path": "/", "cluster": "c", "max_age_seconds": 59}]}}"#,
            "address_lists.feeds[0].max_age_seconds: it is 59; write at least refresh_seconds, 60",
        ),
        (
            r#"{"virtual_patch_feed": {"path": "/", "cluster": "c", "max_age_seconds": 31536001}}"#,
            "virtual_patch_feed.max_age_seconds: it is 31536001; write a whole number from 1 to 31536000",
        ),
        (
            r#"{"virtual_patch_feed": {"path": "/", "cluster": "c", "format": "plain"}}"#,
            "virtual_patch_feed.format: there is no such field",
        ),
        (
            r#"{"address_lists": {"shadow": 1}}"#,
            "address_lists.shadow: it is 1; write true or false",
        ),
        (
            r#"{"address_lists": {"feeds": [{"name": "a", "path": "/", "cluster": "c", "shadow": 1}]}}"#,
            "address_lists.feeds[0].shadow: it is 1; write true or false",
        ),
        (
            r#"{"geo": {"from_header": "a", "shadow": "on"}}"#,
            "geo.shadow: it is \"on\"; write true or false",
        ),
        (
            r#"{"asn": {"from_header": "a", "shadow": null}}"#,
            "asn.shadow: it is null; write true or false",
        ),
        (
            r#"{"virtual_patch_shadow": ["a"]}"#,
            "virtual_patch_shadow: it is a list; write true or false",
        ),
        (
            r#"{"virtual_patch_feed": {"cluster": "c", "path": "/", "shadow": true}}"#,
            "virtual_patch_feed.shadow: there is no such field",
        ),
        (
            r#"{"virtual_patches": [{"id": "a", "cve": "CVE-2099-1", "shadow": 1}]}"#,
            "virtual_patches[0]: in shadow: write true or false",
        ),
        (
            r#"{"virtual_patches": [{"id": "slow", "cve": "CVE-2099-1", "title": "t", "rule": 9100001,
                "when": [{"target": "query", "regex": "a+"}]}]}"#,
            "virtual_patches[0]: in when[0].regex: the patch \"slow\" begins with a pattern",
        ),
        (r#"{"virtual_patches": [7]}"#, "virtual_patches[0]: write an object"),
        (r#"{"virtual_patches": [{"id": "a b"}]}"#, "virtual_patches[0]: in id: write letters"),
        (r#"{"geo": {}}"#, "geo: write one of table, from_header and feed"),
        (r#"{"geo": {"table": "", "from_header": "a"}}"#, "geo: write one of table"),
        (r#"{"geo": {"table": "?"}}"#, "geo.table: it is not base64: "),
        (
            r#"{"geo": {"table": "AAAA"}}"#,
            "geo.table: it is not a map of networks of this version; write what `glacis geo",
        ),
        (r#"{"geo": {"from_header": "a:"}}"#, "geo.from_header: \"a:\": write the name of"),
        (
            r#"{"geo": {"from_header": "a", "deny": ["DEU"]}}"#,
            "geo.deny[0]: \"DEU\": write countries such as \"DE\", or \"ZZ\" for unknown",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "key": ["country"]}]}"#,
            "rate_limits: a limit asks for the country, but nothing says which it is",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "match": {"asns": [7]}}]}"#,
            "rate_limits: a limit asks for the autonomous system, but nothing says which it is",
        ),
        (
            r#"{"first_verdict": {"seclang": "", "match": {"countries": ["DE"]}}}"#,
            "first_verdict.match: it asks for the country, but nothing says which it is; write",
        ),
        (r#"{"rate_limits": {}}"#, "rate_limits: it is an object; write a list of rate limits"),
        (
            r#"{"rate_limits": [{"requests": 1}, {"requests": 1}]}"#,
            "rate_limits[1].name: \"per-address\" is the name of another limit, too; write",
        ),
        (
            r#"{"pending_bodies": {"mib_per_client": 1048577}}"#,
            "pending_bodies.mib_per_client: it is 1048577; write a whole number from 0 to 1048576",
        ),
        (
            r#"{"pending_bodies": {"per_client": 0}}"#,
            "pending_bodies.per_client: it is 0; write a whole number from 1 to 65535",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "name": "pending_bodies"}]}"#,
            "rate_limits[0].name: \"pending_bodies\" is what pending bodies are counted under",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "algorithm": "leaky"}]}"#,
            "rate_limits[0].algorithm: it is \"leaky\"; write \"token-bucket\" or \"gcra\"",
        ),
        (
            r#"{"rate_limits": [{"requests": 5, "cost": 6}]}"#,
            "rate_limits[0].cost: it is 6; write a whole number from 1 to 5",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "key": []}]}"#,
            "rate_limits[0].key: it has no (valid) part; write parts such as",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "key": ["path"]}]}"#,
            "rate_limits[0].key[0]: it is \"path\"; write \"client_address\", \"host\"",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "key": [{"header": "a", "cookie": "b"}]}]}"#,
            "rate_limits[0].key[0]: it is not one part; write \"client_address\"",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "key": [{"header": "a\u0000b"}]}]}"#,
            "rate_limits[0].key[0].header: \"a\\0b\": write 1 to 256 bytes without control",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "key": [{"cookie": "a", "absent": "no"}]}]}"#,
            "rate_limits[0].key[0].absent: it is \"no\"; write \"address\", \"shared\"",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "key": [{"header": "a", "payload": "b"}]}]}"#,
            "rate_limits[0].key[0].payload: only a jwt_claim has one; remove it",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "key": [{"path": []}]}]}"#,
            "rate_limits[0].key[0].path: it has no (valid) one; write templates such as",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "key": [{"path": ["/"], "absent": "skip"}]}]}"#,
            "rate_limits[0].key[0].absent: every request has a path; remove it",
        ),
        (
            r#"{"rate_limits": [{"requests": 9, "cost": 5, "lease": {
                "cluster": "c", "local_requests": 4}}]}"#,
            "rate_limits[0].lease.local_requests: it is 4; write a whole number from 5 to",
        ),
        (
            r#"{"rate_limits": [{"requests": 7, "per_seconds": 86400, "lease": {
                "cluster": "c", "local_requests": 999999937}}]}"#,
            "rate_limits[0].lease.local_requests: 999999937: the burst is too large for this",
        ),
        (
            r#"{"rate_limits": [{"requests": 7, "lease": {"cluster": "c", "token": "short"}}]}"#,
            "rate_limits[0].lease.token: it is too short; write 16 to 1024 characters",
        ),
        (
            r#"{"rate_limits": [{"requests": 7, "lease": {
                "cluster": "c", "token": "sixteen letters!"}}]}"#,
            "rate_limits[0].lease.token: \"sixteen letters!\": write 1 to 1024 visible characters",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "key": [{"metadata": ["a"]}]}]}"#,
            "rate_limits[0].key[0].metadata: write the keys such as [\"filter.name\"",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "match": {"paths": ["login"]}}]}"#,
            "rate_limits[0].match.paths[0]: \"login\": a path begins with '/'; write such",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "match": {"methods": "GET"}}]}"#,
            "rate_limits[0].match.methods: it is \"GET\"; write a list of methods",
        ),
        (
            r#"{"rate_limits": [{"requests": 1, "rate": 1}]}"#,
            "rate_limits[0].rate: there is no such",
        ),
    ];
    for (text, expected) in rows {
        let message = Config::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(message.contains(expected), "{text}\n{message}");
    }
}

#[test]
fn all_problems_at_once_but_not_without_end() {
    let text = r#"{"x": 1, "trusted_hops": 99, "rate_limits": [{"y": 2}]}"#;
    let message = Config::parse(text.as_bytes()).unwrap_err().to_string();
    for path in ["x: ", "trusted_hops: ", "rate_limits[0].y: ", "rate_limits[0].requests: "] {
        assert!(message.contains(path), "{path} in {message}");
    }
    let many = format!(r#"{{"address_lists": {{"deny": [{}"no"]}}}}"#, "\"no\",".repeat(1_000));
    let message = Config::parse(many.as_bytes()).unwrap_err().to_string();
    assert!(message.ends_with(" | there is more") && message.len() < 8_000, "{message}");
}

#[test]
fn limits() {
    let entries = |n: usize| {
        let list = vec!["\"::1\""; n].join(",");
        Config::parse(format!(r#"{{"address_lists": {{"deny": [{list}]}}}}"#).as_bytes())
    };
    assert!(entries(LIST_ENTRIES_MAX).is_ok());
    let message = entries(LIST_ENTRIES_MAX + 1).unwrap_err().to_string();
    assert!(message.contains("address_lists.deny: it has 65537 values; write at most"));

    let mut long = b"{}".to_vec();
    long.resize(CONFIG_BYTES_MAX, b' ');
    assert!(Config::parse(&long).is_ok());
    long.push(b' ');
    let message = Config::parse(&long).unwrap_err().to_string();
    assert!(message.contains("$: it has more than 8388608 bytes"), "{message}");

    let deep = "[".repeat(100_000);
    let message = Config::parse(deep.as_bytes()).unwrap_err().to_string();
    assert!(message.contains("recursion limit exceeded"), "{message}");
    let wide =
        format!("{{{}}}", (0..300).map(|i| format!("\"{i}\":1")).collect::<Vec<_>>().join(","));
    let message = Config::parse(wide.as_bytes()).unwrap_err().to_string();
    assert!(message.contains("too many fields"), "{message}");
}
