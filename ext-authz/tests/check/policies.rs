//! Who may do what: a configuration, and a table of requests with what becomes of them.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use envoy_types::pb::{
    envoy::service::auth::v3::{CheckResponse, check_response::HttpResponse},
    google::protobuf::value::Kind,
};
use serde_json::json;

use crate::harness::{Asked, Service};

/// SHA-256 of `acme-old`, `acme-new` and `shop-key`.
const CONFIG: &str = r#"
networks:
  files: [blocked.txt]
  entries: ["10.0.0.0/8 tag=office", "10.66.0.0/16 deny", "10.66.0.1 allow"]
api_keys:
  from: [{header: x-api-key}, {header: authorization, scheme: Bearer}, {query: key}, {cookie: key}]
  clients:
  - name: acme
    keys:
    - {hash: "sha256:48bd6392ce02329046a218ab6e718a0e1a245627e202f47d063f6a66c566367b", expires: 2020-01-31}
    - {hash: "sha256:6bba026a70f2c1131acaa1243400982036ab6341918452ac3f8c77d6fd1ca868"}
    scopes: [read, write]
  - name: shop
    keys: [{hash: "sha256:44cfdcdd88354fa1412781f5a01a901c9112db33bfa8b165fbec9b618d9cf112"}]
    scopes: [read]
    rate: {requests: 2, per_seconds: 3600}
ambiguous_paths: normalize
policies:
- {name: assets, match: {paths: ["/static/**"], methods: [GET, HEAD]}}
- {name: secret, match: {paths: ["/secret"]}, action: deny}
- {name: office, match: {paths: ["/admin/**"]}, require: {tags: [office]}}
- {name: write, match: {paths: ["/api/**"], methods: [POST]}, require: {api_key: {scopes: [write]}}}
- {name: read, match: {paths: ["/api/**"]}, require: {api_key: {}}}
- name: token
  match: {hosts: ["*.token.example"]}
  require: {jwt: {scopes: [read], claims: {roles: [admin]}}}
"#;

const BLOCKED: (&str, &str) = ("blocked.txt", "198.51.100.0/24 deny\n");

/// The verdict as it stands in metadata: `allow`, or why not.
pub(crate) fn verdict(answer: &CheckResponse) -> String {
    let fact = |name: &str| {
        let facts = answer.dynamic_metadata.as_ref()?.fields.get("glacis.authz")?;
        let Some(Kind::StructValue(facts)) = &facts.kind else { return None };
        match &facts.fields.get(name)?.kind {
            Some(Kind::StringValue(text)) => Some(text.clone()),
            _ => None,
        }
    };
    let verdict = fact("verdict").unwrap();
    let policy = fact("policy").map(|policy| format!(" by {policy}")).unwrap_or_default();
    let client = fact("client").map(|client| format!(" of {client}")).unwrap_or_default();
    let why = fact("reason").map(|reason| format!(" {reason}")).unwrap_or_default();
    format!("{verdict}{why}{policy}{client}")
}

/// What changes in a request that passes: headers set, headers removed, parameters removed.
fn changes(answer: &CheckResponse) -> String {
    let Some(HttpResponse::OkResponse(ok)) = &answer.http_response else { panic!("{answer:?}") };
    let set = ok.headers.iter().map(|option| {
        let header = option.header.as_ref().unwrap();
        format!("{}={}", header.key, header.value)
    });
    let removed = ok.headers_to_remove.iter().map(|name| format!("-{name}"));
    let parameters = ok.query_parameters_to_remove.iter().map(|name| format!("?-{name}"));
    set.chain(removed).chain(parameters).collect::<Vec<_>>().join(" ")
}

/// Status, headers and body of a refusal.
fn refusal(answer: &CheckResponse) -> (i32, Vec<(String, String)>, String) {
    let Some(HttpResponse::DeniedResponse(denied)) = &answer.http_response else {
        panic!("{answer:?}")
    };
    let headers = denied.headers.iter().map(|option| {
        let header = option.header.clone().unwrap();
        (header.key, header.value)
    });
    (denied.status.as_ref().unwrap().code, headers.collect(), denied.body.clone())
}

#[tokio::test]
async fn requests_and_what_becomes_of_them() {
    let service = Service::start(CONFIG, &[BLOCKED]);
    let get = |path: &str| Asked::get(path);
    let with = |path: &str, header: (&str, &str)| Asked::new("GET", path, &[header]);
    let new = ("x-api-key", "acme-new");
    let token = |claims| Asked::get("/").host("a.token.example").claims(claims);
    for (asked, expected) in [
        (get("/static/a"), "allow by assets"),
        (Asked::new("get", "/static/a", &[]), "allow by assets"),
        (get("/STATIC//a"), "deny no_policy"),
        // It could be /secret: what is open is not for it, what is closed is.
        (get("/static/..%2fsecret"), "deny policy by secret"),
        (get("/static/%2e%2e/other"), "deny no_policy"),
        (Asked::new("POST", "/static/a", &[]), "deny no_policy"),
        (get("/secret"), "deny policy by secret"),
        (get("/%73ecret/"), "deny policy by secret"),
        (get("/elsewhere"), "deny no_policy"),
        // What servers may trim is the path without it: what is closed is for it, what is open is not.
        (get("/secret%20"), "deny policy by secret"),
        (get("/secret."), "deny policy by secret"),
        (get("/admin./x").from("10.1.2.3"), "allow by office"),
        (get("/admin%20/x"), "deny wrong_network by office"),
        (get("/static./a"), "deny no_policy"),
        (get("/static%20/a"), "deny no_policy"),
        // An authority that is not plain has no host that policies could be for, whatever the path.
        (get("/static/a").host("a.token.example:8443"), "allow by assets"),
        (get("/static/a").host("x@shop.example"), "deny ambiguous_host"),
        (get("/").host("a.token.example.:80"), "deny no_token by token"),
        (get("/").host("a.token.example.."), "deny ambiguous_host"),
        (get("/").host("a.token.example:80:80"), "deny ambiguous_host"),
        (get("/").host("[a.token.example]"), "deny ambiguous_host"),
        (get("/").host("x@a.token.example"), "deny ambiguous_host"),
        (get("/admin/x"), "deny wrong_network by office"),
        (get("/admin/x").from("10.1.2.3"), "allow by office"),
        (get("/admin/x").from("::ffff:10.1.2.3"), "allow by office"),
        (get("/admin/x").from("10.66.0.2"), "deny network"),
        (get("/admin/x").from("10.66.0.1"), "allow by office"),
        (get("/static/a").from("198.51.100.7"), "deny network"),
        (get("/api/x"), "deny no_key by read"),
        (with("/api/x", new), "allow by read of acme"),
        (with("/api/x", ("x-api-key", "acme-old")), "deny wrong_key by read"),
        (with("/api/x", ("x-api-key", "nobody")), "deny wrong_key by read"),
        (with("/api/x", ("authorization", "Bearer acme-new")), "allow by read of acme"),
        (get("/api/x?a=1&key=acme-new"), "allow by read of acme"),
        (with("/api/x", ("cookie", "a=1; key=acme-new")), "allow by read of acme"),
        // Envoy would not take out a parameter whose name is spelled otherwise.
        (get("/api/x?%6bey=acme-new"), "deny ambiguous_key"),
        (get("/static/a?a=1&k%65y=acme-new"), "deny ambiguous_key"),
        (with("/api/x?ke%79=acme-new", new), "deny ambiguous_key"),
        (get("/api/x?%6bey=acme-new&key=acme-new"), "deny ambiguous_key"),
        (get("/api/x?%256bey=acme-new"), "deny no_key by read"),
        (Asked::new("POST", "/api/x", &[new]), "allow by write of acme"),
        (
            Asked::new("POST", "/api/x", &[("x-api-key", "shop-key")]),
            "deny key_scope by write of shop",
        ),
        // Many upstreams take it for POST.
        (
            Asked::new("post", "/api/x", &[("x-api-key", "shop-key")]),
            "deny key_scope by write of shop",
        ),
        (get("/").host("a.token.example"), "deny no_token by token"),
        (token(json!({"scope": "read", "roles": ["admin"]})), "allow by token"),
        (token(json!({"scope": "write", "roles": ["admin"]})), "deny wrong_claim by token"),
        (token(json!({"scope": "read", "roles": ["user"]})), "deny wrong_claim by token"),
    ] {
        let answer = service.check(&asked).await.unwrap();
        assert_eq!(verdict(&answer), expected, "{:?}", asked.http);
    }
}

#[tokio::test]
async fn what_the_upstream_gets() {
    let service = Service::start(CONFIG, &[BLOCKED]);
    for (path, headers, expected) in [
        ("/static/a", &[][..], ""),
        (
            "/static/a",
            &[
                ("x-glacis-client", "forged"),
                ("X-Glacis-Client", "forged"),
                ("x-glacis-country", "DE"),
            ],
            "-x-glacis-client",
        ),
        // Upstreams take these for it as well.
        (
            "/api/x",
            &[("x-api-key", "acme-new"), ("X_Glacis-Client", "forged"), ("x.glacis_client", "a")],
            "x-glacis-client=acme -x_glacis-client -x.glacis_client -x-api-key",
        ),
        (
            "/api/x",
            &[("x-api-key", "acme-new"), ("x-glacis-client", "forged")],
            "x-glacis-client=acme -x-api-key",
        ),
        ("/api/x", &[("authorization", "Bearer acme-new")], "x-glacis-client=acme -authorization"),
        // A login that is not ours stays.
        ("/api/x?key=acme-new", &[("authorization", "Basic YTpi")], "x-glacis-client=acme ?-key"),
        ("/api/x", &[("cookie", "a=1; key=acme-new")], "x-glacis-client=acme cookie=a=1"),
        // A token for the upstream stays, too, where the key is elsewhere; a second key goes, and one that is over.
        (
            "/api/x?key=other",
            &[("x-api-key", "acme-new"), ("authorization", "Bearer a.b.c"), ("cookie", "key=no")],
            "x-glacis-client=acme -x-api-key",
        ),
        (
            "/api/x?key=acme-old",
            &[("x-api-key", "acme-new"), ("authorization", "Bearer shop-key")],
            "x-glacis-client=acme -x-api-key -authorization ?-key",
        ),
        // Keys in all places: the first decides, and the upstream gets none of them.
        (
            "/api/x?key=shop-key&a=1&key=acme-new",
            &[
                ("x-api-key", "acme-new"),
                ("cookie", "a=1; key=shop-key"),
                ("cookie", "key=acme-new"),
            ],
            "x-glacis-client=acme cookie=a=1 -x-api-key ?-key",
        ),
        // Where nobody asks for a key, a wrong one passes as it is, and one of several does not.
        ("/static/a", &[("x-api-key", "nobody")], ""),
        ("/static/a", &[("x-api-key", "nobody"), ("x-api-key", "shop-key")], "-x-api-key"),
    ] {
        let answer = service.check(&Asked::new("GET", path, headers)).await.unwrap();
        assert_eq!(changes(&answer), expected, "{path} {headers:?}");
    }
}

#[tokio::test]
async fn what_a_refused_client_is_told() {
    let service = Service::start(CONFIG, &[BLOCKED]);
    let id = ("x-request-id", "id-1");
    for (path, headers, status, expected) in [
        (
            "/secret",
            &[id][..],
            403,
            &["content-type: application/problem+json", "cache-control: no-store"][..],
        ),
        (
            "/secret",
            &[id, ("accept", "text/html")],
            403,
            &["content-type: text/html; charset=utf-8"],
        ),
        ("/api/x", &[id], 401, &["www-authenticate: Bearer"]),
    ] {
        let answer = service.check(&Asked::new("GET", path, headers)).await.unwrap();
        let (found, headers, body) = refusal(&answer);
        assert_eq!(found, status, "{path}");
        let headers: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        for line in expected {
            assert!(
                headers.iter().any(|header| header == line),
                "{path}: no {line} in {headers:?}"
            );
        }
        assert!(
            body.contains("id-1") && !body.contains("secret") && !body.contains("policy"),
            "{body}"
        );
    }
    // Of a token it is said that one is needed, as of a key.
    let answer = service.check(&Asked::get("/").host("a.token.example")).await.unwrap();
    let (status, headers, _) = refusal(&answer);
    assert_eq!(status, 401);
    assert!(headers.contains(&("www-authenticate".to_owned(), "Bearer".to_owned())), "{headers:?}");
}

/// A limit by key that leaves out who has none: also who has several, or a wrong one first, is limited.
#[tokio::test]
async fn a_wrong_key_is_no_way_around_a_limit() {
    const KEYED: &str = r#"
otherwise: allow
api_keys:
  from: [{header: x-api-key}, {query: key}]
  clients:
  - {name: acme, keys: [{hash: "sha256:6bba026a70f2c1131acaa1243400982036ab6341918452ac3f8c77d6fd1ca868"}]}
rate_limits: [{name: keyed, requests: 1, per_seconds: 3600, key: [api_key], absent: skip}]
"#;
    let service = Service::start(KEYED, &[]);
    for (path, keys, from, expected) in [
        ("/", &[][..], "192.0.2.1", "allow"),
        ("/", &[], "192.0.2.1", "allow"),
        ("/", &["acme-new"], "192.0.2.1", "allow of acme"),
        ("/", &["acme-new"], "192.0.2.2", "deny rate_limit of acme"),
        ("/", &["acme-new", "other"], "192.0.2.1", "allow"),
        ("/", &["other", "acme-new"], "192.0.2.1", "deny rate_limit"),
        ("/?key=acme-new", &["other"], "192.0.2.2", "allow"),
        ("/?key=acme-new", &["other"], "192.0.2.2", "deny rate_limit"),
    ] {
        let headers: Vec<_> = keys.iter().map(|key| ("x-api-key", *key)).collect();
        let answer = service.check(&Asked::new("GET", path, &headers).from(from)).await.unwrap();
        assert_eq!(verdict(&answer), expected, "{path} {keys:?} {from}");
    }
}

#[tokio::test]
async fn limits_count_and_tell() {
    const LIMITS: &str = r#"
otherwise: allow
networks: {entries: ["192.0.2.200 allow"]}
rate_limits:
- {name: per-address, requests: 2, per_seconds: 3600, headers_on_allowed: true, match: {paths: ["/limited"]}}
- {name: tenant, requests: 1, per_seconds: 3600, key: [{header: x-tenant}, method], match: {paths: ["/tenant"]}}
- {name: trial, requests: 1, per_seconds: 3600, shadow: true, match: {paths: ["/trial"]}}
- {name: cookie, requests: 1, per_seconds: 3600, key: [{cookie: session}], absent: skip, match: {paths: ["/cookie"]}}
- {name: user, requests: 1, per_seconds: 3600, key: [{jwt_claim: sub}], absent: skip, match: {paths: ["/user"]}}
- {name: window, requests: 1, per_seconds: 3600, algorithm: sliding_window, match: {paths: ["/window"]}}
- {name: key, requests: 1, per_seconds: 3600, key: [{header: x-key}], absent: skip, match: {paths: ["/key"]}}
"#;
    let service = Service::start(LIMITS, &[]);
    let tenant = |name: &str| Asked::new("GET", "/tenant", &[("x-tenant", name)]);
    let cookie = |field: &str| Asked::new("GET", "/cookie", &[("cookie", field)]);
    let user = |name: &str| Asked::get("/user").claims(json!({ "sub": name }));
    let twice = |one: &str, other: &str| {
        Asked::new("GET", "/tenant", &[("x-tenant", one), ("x-tenant", other)])
    };
    let key = |values: &[&str]| {
        let headers: Vec<_> = values.iter().map(|value| ("x-key", *value)).collect();
        Asked::new("GET", "/key", &headers)
    };
    for (asked, expected) in [
        (Asked::get("/limited"), "allow"),
        (Asked::get("/limited%20"), "deny ambiguous_path"),
        (Asked::get("/limited."), "deny ambiguous_path"),
        (Asked::get("//LIMITED;a?b").from("192.0.2.2"), "deny ambiguous_path"),
        (Asked::get("/limited/"), "allow"),
        (Asked::get("/limited"), "deny rate_limit"),
        (Asked::get("/limited").from("192.0.2.2"), "allow"),
        (Asked::get("/limited").from("2001:db8::1"), "allow"),
        (Asked::get("/limited").from("2001:db8::2"), "allow"),
        (Asked::get("/limited").from("2001:db8::3"), "deny rate_limit"),
        (Asked::get("/limited").from("192.0.2.200"), "allow"),
        (Asked::get("/limited").from("192.0.2.200"), "allow"),
        (Asked::get("/limited").from("192.0.2.200"), "allow"),
        (tenant("a"), "allow"),
        (tenant("a"), "deny rate_limit"),
        (Asked::new("get", "/tenant", &[("x-tenant", "a")]), "deny rate_limit"),
        (tenant("b"), "allow"),
        // Without the header it counts by address: leaving it out is no way around.
        (Asked::get("/tenant"), "allow"),
        (Asked::get("/tenant"), "deny rate_limit"),
        // Nor are several of which nobody knows which one counts.
        (twice("c", "d"), "deny rate_limit"),
        (twice("c", "d").from("192.0.2.7"), "allow"),
        (twice("c", "e").from("192.0.2.7"), "deny rate_limit"),
        // The same twice is one, and an address as the value is not the address itself.
        (twice("a", "a"), "deny rate_limit"),
        // Nor is another way to write the value, or a name that servers fold into this one.
        (tenant("\"a\""), "deny rate_limit"),
        (tenant(" %61 "), "deny rate_limit"),
        (tenant("a, a"), "deny rate_limit"),
        (tenant("c, d"), "deny rate_limit"),
        (Asked::new("GET", "/tenant", &[("X_Tenant", "a")]), "deny rate_limit"),
        (cookie("session=s"), "allow"),
        (cookie("session=s"), "deny rate_limit"),
        (cookie("session=\"%73\""), "deny rate_limit"),
        (cookie("session=junk1; session=s"), "allow"),
        (cookie("session=junk2; session=s"), "deny rate_limit"),
        (tenant("192.0.2.8"), "allow"),
        (Asked::get("/tenant").from("192.0.2.8"), "allow"),
        (Asked::get("/trial"), "allow"),
        (Asked::get("/trial"), "allow"),
        (user("alice"), "allow"),
        (user("alice"), "deny rate_limit"),
        (user("bob"), "allow"),
        (Asked::get("/user"), "allow"),
        (Asked::get("/user"), "allow"),
        (Asked::get("/window"), "allow"),
        (Asked::get("/window"), "deny rate_limit"),
        // Who has no key is not limited, who has two is.
        (key(&[]), "allow"),
        (key(&[]), "allow"),
        (key(&["a"]), "allow"),
        (key(&["a"]), "deny rate_limit"),
        (key(&["a", "b"]), "allow"),
        (key(&["c", "a"]), "deny rate_limit"),
    ] {
        let answer = service.check(&asked).await.unwrap();
        assert_eq!(verdict(&answer), expected, "{:?} {:?}", asked.http.path, asked.context.source);
    }
    let (status, headers, _) = refusal(&service.check(&Asked::get("/limited")).await.unwrap());
    assert_eq!(status, 429);
    for (name, expected) in [
        ("ratelimit-policy", "\"per-address\";q=2;w=3600"),
        ("ratelimit", "\"per-address\";r=0;t=3600"),
    ] {
        let value =
            headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
        assert_eq!(value, Some(expected), "{headers:?}");
    }
    let wait =
        headers.iter().find(|(name, _)| name == "retry-after").unwrap().1.parse::<u32>().unwrap();
    assert!((1_700..=1_800).contains(&wait), "{wait}");
    assert!(
        (service.metric("glacis_authz_limits_total{limit=\"trial\",result=\"shadow\"}") - 1.0)
            .abs()
            < 0.5
    );
}

/// Requests that policies refuse count where the policy, or the file, says so: over the limit they are 429.
#[tokio::test]
async fn limits_before_policies() {
    const ORDER: &str = r#"
api_keys:
  clients:
  - {name: acme, keys: [{hash: "sha256:6bba026a70f2c1131acaa1243400982036ab6341918452ac3f8c77d6fd1ca868"}]}
networks: {entries: ["192.0.2.200 allow", "192.0.2.100 deny"]}
policies:
- {name: first, match: {paths: ["/first"]}, require: {api_key: {}}, limit: before_policies}
- {name: last, match: {paths: ["/last"]}, require: {api_key: {}}, limit: after_policies}
- {name: same, match: {paths: ["/same"]}, require: {api_key: {}}}
rate_limits: [{name: few, requests: 2, per_seconds: 3600, headers_on_allowed: true}]
"#;
    let key = [("x-api-key", "acme-new")];
    for (by_default, same, otherwise) in [
        ("", "deny no_key by same", "deny no_policy"),
        ("limit: before_policies\n", "deny rate_limit by same", "deny rate_limit"),
    ] {
        let service = Service::start(&format!("{by_default}{ORDER}"), &[]);
        for (path, headers, from, expected) in [
            // Each of these counts once.
            ("/first", &[][..], "192.0.2.1", "deny no_key by first"),
            ("/first", &[("x-api-key", "guess")], "192.0.2.1", "deny wrong_key by first"),
            ("/first", &[], "192.0.2.1", "deny rate_limit by first"),
            ("/first", &[("x-api-key", "guess")], "192.0.2.1", "deny rate_limit by first"),
            // The right key is found no sooner than the limit allows.
            ("/first", &key, "192.0.2.1", "deny rate_limit by first of acme"),
            ("/first", &key, "192.0.2.2", "allow by first of acme"),
            ("/first", &key, "192.0.2.2", "allow by first of acme"),
            ("/first", &key, "192.0.2.2", "deny rate_limit by first of acme"),
            // Nothing of a limit is used up by these, and one that is over says nothing of them.
            ("/last", &[], "192.0.2.1", "deny no_key by last"),
            ("/last", &[], "192.0.2.3", "deny no_key by last"),
            ("/last", &[], "192.0.2.3", "deny no_key by last"),
            ("/last", &[], "192.0.2.3", "deny no_key by last"),
            ("/last", &key, "192.0.2.3", "allow by last of acme"),
            ("/same", &[], "192.0.2.1", same),
            ("/other", &[], "192.0.2.1", otherwise),
            // What comes before limits costs nothing, and who is out of limits is not counted.
            ("/first", &[], "192.0.2.100", "deny network"),
            ("/first;a", &[], "192.0.2.4", "deny ambiguous_path"),
            ("/first", &[], "192.0.2.200", "deny no_key by first"),
            ("/first", &[], "192.0.2.200", "deny no_key by first"),
            ("/first", &[], "192.0.2.200", "deny no_key by first"),
        ] {
            let asked = Asked::new("GET", path, headers).from(from);
            let answer = service.check(&asked).await.unwrap();
            assert_eq!(verdict(&answer), expected, "{by_default}{path} {headers:?} {from}");
        }
        // A request that passes is told where it stands, whenever limits were asked.
        let asked = Asked::new("GET", "/first", &key).from("192.0.2.5");
        let answer = service.check(&asked).await.unwrap();
        let Some(HttpResponse::OkResponse(ok)) = &answer.http_response else {
            panic!("{answer:?}")
        };
        let told = ok.response_headers_to_add.iter().filter_map(|option| option.header.as_ref());
        let told: Vec<&str> = told.map(|header| header.key.as_str()).collect();
        assert_eq!(told, ["ratelimit-policy", "ratelimit"]);
    }
}

#[tokio::test]
async fn a_client_has_its_own_limit() {
    let service = Service::start(CONFIG, &[BLOCKED]);
    let shop = Asked::new("GET", "/api/x", &[("x-api-key", "shop-key")]);
    for expected in
        ["allow by read of shop", "allow by read of shop", "deny rate_limit by read of shop"]
    {
        // From anywhere: the key is what counts.
        let answer = service.check(&shop.clone().from("203.0.113.9")).await.unwrap();
        assert_eq!(verdict(&answer), expected);
    }
    assert!(service.metric("glacis_authz_limits_total{limit=\"client\",result=\"refused\"}") > 0.5);
}

/// A rule of the head, one of the query and one of the body.
const RULES: &str = r#"
otherwise: allow
profile: plain
profiles:
  plain:
    directives: |
      SecRule REQUEST_HEADERS:x-probe "@streq 1" "id:1,phase:1,deny,status:406"
      SecRule REQUEST_HEADERS:x-probe "@streq 2" "id:6,phase:1,deny,status:199"
      SecRule ARGS_GET "@contains attack" "id:2,phase:2,deny,log"
      SecRule ARGS_POST "@contains attack" "id:3,phase:2,deny,log"
  looks: {mode: detection, directives: 'SecRule ARGS "@contains attack" "id:4,phase:2,deny,log"'}
  lenient: {partial_body: partial, directives: 'SecRule ARGS_POST "@contains attack" "id:5,phase:2,deny,log"'}
"#;

#[tokio::test]
async fn rules_see_heads_and_bodies() {
    const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
    let service = Service::start(RULES, &[]);
    let post = |body: &str, partial: Option<&str>| {
        let length = body.len().to_string();
        let mut headers = vec![FORM, ("content-length", length.as_str())];
        headers.extend(partial.map(|partial| ("x-envoy-auth-partial-body", partial)));
        Asked::new("POST", "/", &headers).body(body)
    };
    let text = Asked { ..post("q=attack", Some("false")) }.text_body();
    for (asked, status, facts) in [
        (Asked::get("/?q=plain"), 200, "headers"),
        (Asked::new("GET", "/", &[("x-probe", "1")]), 406, "headers"),
        // No status of a refusal: Envoy is told one that is.
        (Asked::new("GET", "/", &[("x-probe", "2")]), 403, "headers"),
        (Asked::get("/?q=attack"), 403, "headers"),
        (Asked::get("/?q=attack").profile("looks"), 200, "headers"),
        (Asked::get("/?q=attack").profile("lenient"), 200, "headers"),
        // A name that nobody has is no way out.
        (Asked::get("/?q=attack").profile("other"), 403, "headers"),
        (post("q=plain", Some("false")), 200, "body"),
        (post("q=attack", Some("false")), 403, "body"),
        (text, 403, "body"),
        (post("q=plain", Some("true")), 413, "partial"),
        (post("q=plain", Some("true")).profile("lenient"), 200, "partial"),
        (post("q=attack", Some("true")).profile("lenient"), 403, "partial"),
        // Only announced: what a client says of it makes no body.
        (Asked::new("POST", "/", &[FORM, ("content-length", "8")]), 200, "headers"),
        (
            Asked::new(
                "POST",
                "/",
                &[FORM, ("content-length", "8"), ("x-envoy-auth-partial-body", "false")],
            ),
            200,
            "headers",
        ),
    ] {
        let answer = service.check(&asked).await.unwrap();
        let found = match &answer.http_response {
            Some(HttpResponse::DeniedResponse(_)) => refusal(&answer).0,
            _ => 200,
        };
        let told = format!("{:?}", answer.dynamic_metadata);
        assert_eq!(found, status, "{:?}: {told}", asked.http);
        assert!(told.contains(&format!("StringValue(\"{facts}\")")), "{:?}: {told}", asked.http);
    }
    assert!(service.metric("glacis_authz_uninspected_total{reason=\"body_not_sent\"}") > 1.5);
    for (profile, expected) in [("looks", "looks"), ("other", "plain")] {
        let answer = service.check(&Asked::get("/").profile(profile)).await.unwrap();
        let told = format!("{:?}", answer.dynamic_metadata);
        assert!(told.contains(&format!("StringValue(\"{expected}\")")), "{profile}: {told}");
    }
}

/// What is wrong, and what the message has to name.
#[test]
fn wrong_configurations_are_refused() {
    const BAN: &str =
        "{name: knocking, reasons: [policy], capacity: 1, leak_seconds: 1, ban_seconds: 1}";
    let hash = "sha256:44cfdcdd88354fa1412781f5a01a901c9112db33bfa8b165fbec9b618d9cf112";
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("ext-authz-wrong");
    std::fs::create_dir_all(&folder).unwrap();
    for (text, words) in [
        ("policies: [{name: a, match: {paths: [a]}}]", &["policies[0].match.paths", "'/'"][..]),
        ("policies: [{name: a, require: {api_keys: {}}}]", &["line 1", "api_key"]),
        ("networks: {entries: [a]}", &["networks.entries", "line 1"]),
        ("networks: {files: [absent.txt]}", &["networks.files", "absent.txt"]),
        ("countries: {deny: [DE]}", &["countries.table", "geo build"]),
        ("asn: {deny: [7]}", &["asn.table", "geo build --asn"]),
        ("rate_limits: [{name: a, requests: 1, key: [asn]}]", &["asn.table"]),
        ("rate_limits: [{name: a, requests: 1, match: {countries: [DE]}}]", &["countries.table"]),
        ("lists: {files: {bans: a}}", &["lists.files.bans", "another name"]),
        ("lists: {files: {asn: a}}", &["lists.files.asn", "another name"]),
        ("lists: {countries: absent.txt}", &["lists.countries", "absent.txt"]),
        ("lists: {countries: config.yaml}", &["lists.countries", "base64"]),
        ("lists: {patches: config.yaml}", &["lists.patches", "JSON"]),
        ("api_keys: {from: [{header: a, query: b}]}", &["api_keys.from"]),
        ("api_keys: {from: [{query: \"api[key]\"}]}", &["api_keys.from", "one spelling"]),
        ("api_keys: {clients: [{name: a, keys: [{hash: abc}]}]}", &["clients[0].keys", "hash-key"]),
        (
            &format!("api_keys: {{clients: [{{name: \"a b\", keys: [{{hash: \"{hash}\"}}]}}]}}"),
            &["clients[0].name"],
        ),
        (
            "api_keys: {clients: [{name: a, keys: [{hash: a, expires: soon}]}]}",
            &["soon", "2027-01-31"],
        ),
        (
            "api_keys: {clients: [{name: a, keys: [{hash: a, expires: 2027-1-31}]}]}",
            &["\"2027-1-31\" is no day"],
        ),
        ("rate_limits: [{name: a, requests: 0}]", &["rate_limits[0].requests"]),
        (
            "rate_limits: [{name: a, requests: 1}, {name: a, requests: 2}]",
            &["rate_limits", "\"a\""],
        ),
        ("rate_limits: [{name: a, requests: 1, key: []}]", &["rate_limits[0].key"]),
        (
            "rate_limits: [{name: a, requests: 1, key: [{path: []}]}]",
            &["rate_limits[0].key", "/users/{id}"],
        ),
        ("rate_limits: [{name: client/a, requests: 1}]", &["rate_limits[0].name", "another name"]),
        ("rate_limits: [{name: ban/a, requests: 1}]", &["rate_limits[0].name", "another name"]),
        ("rate_limits: [{name: quota/a, requests: 1}]", &["rate_limits[0].name", "another name"]),
        (
            "rate_limits: [{name: a, requests: 1, burst: 2, algorithm: fixed_window}]",
            &["rate_limits[0].burst", "remove it"],
        ),
        (
            "rate_limits: [{name: a, requests: 1, match: {paths: [a]}}]",
            &["rate_limits[0].match.paths", "'/'"],
        ),
        (
            "policies: [{name: a, match: {hosts: ['*example.com']}}]",
            &["policies[0].match.hosts", "*.NAME"],
        ),
        (&format!("bans: [{BAN}, {BAN}]"), &["bans", "\"knocking\""]),
        (&format!("bans: [{}]", [BAN; 65].join(", ")), &["bans", "at most 64"]),
        (&format!("bans: [{}]", BAN.replace("policy", "banned")), &["bans[0].reasons", "no_key"]),
        ("rate_limits: [{name: a, requests: 1, cost: 2}]", &["rate_limits[0].cost"]),
        ("store: {redis: {nodes: []}}", &["store.redis.nodes: name at least one address"]),
        ("limit: first", &["line 1", "before_policies"]),
        ("profile: a", &["profile"]),
        ("profiles: {a: {}}", &["profiles.a.rules"]),
        ("profiles: {a: {directives: SecRul}}", &["profiles.a", "SecRul"]),
    ] {
        let path = folder.join("config.yaml");
        std::fs::write(&path, text).unwrap();
        let check = Command::new(env!("CARGO_BIN_EXE_glacis-ext-authz"))
            .args(["--check", "--config"])
            .arg(&path)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&check.stderr).into_owned();
        assert!(!check.status.success(), "{text}");
        for word in words {
            assert!(told.contains(word), "{text}: no {word} in {told}");
        }
    }
}

/// The command's hash is the one that a configuration takes.
#[test]
fn keys_are_hashed_by_the_command() {
    let run = |arguments: &[&str], input: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_glacis-ext-authz"));
        let mut child =
            command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    let hash = run(&["hash-key"], "acme-new\n");
    assert_eq!(
        hash.trim(),
        "sha256:6bba026a70f2c1131acaa1243400982036ab6341918452ac3f8c77d6fd1ca868"
    );
    let made = run(&["new-key"], "");
    let (key, hash) = made.split_once('\n').unwrap();
    let key = key.strip_prefix("key: ").unwrap();
    assert_eq!(hash.trim(), format!("hash: {}", run(&["hash-key"], key).trim()));
    // One that is longer than keys may be has no hash.
    for (bytes, has_hash) in [(512, true), (513, false)] {
        assert_eq!(!run(&["hash-key"], &"a".repeat(bytes)).is_empty(), has_hash, "{bytes}");
    }
}
