//! Checks in shadow mode.

use super::*;

/// Header fields of a request.
type Sent = &'static [(&'static str, &'static str)];

/// Checks in shadow mode block nothing; the first that would have is noted, unless another blocks.
#[test]
fn shadow_of_everything() {
    let patch = |id: &str, path: &str, shadow: bool| {
        format!(
            r#"{{"id": "{id}", "cve": "CVE-2099-1", "title": "t", "rule": 9100001, "shadow": {shadow},
                "when": [{{"target": "path", "prefix": "{path}"}}]}}"#
        )
    };
    let config = |lists: bool, geo: bool, asn: bool, patches: bool, limit: bool| {
        let (a, b) = (patch("a", "/a", false), patch("b", "/a/b", true));
        format!(
            r#"{{"address_lists": {{"deny": ["192.0.2.0/24"], "shadow": {lists}}},
                "geo": {{"from_header": "x-country", "deny": ["KP"], "shadow": {geo}}},
                "asn": {{"from_header": "x-asn", "deny": [7], "shadow": {asn}}},
                "virtual_patches": [{a}, {b}], "virtual_patch_shadow": {patches},
                "rate_limits": [{{"requests": 1, "shadow": {limit}}}]}}"#
        )
    };
    let all = config(true, true, true, true, true);
    let bad: Sent = &[("x-country", "KP"), ("x-asn", "7"), (":path", "/a/b")];
    let long: &str = String::leak(format!("/{}", "x".repeat(9_000)));
    let long: Sent = vec![(":path", long)].leak();
    let rows: &[(&str, &str, Sent, &str)] = &[
        (&all, "192.0.2.1", bad, "shadow:denied:list"),
        (&all, "10.1.0.1", bad, "shadow:denied:country"),
        (&all, "10.1.0.2", &bad[1..], "shadow:denied:asn"),
        (&all, "10.1.0.3", &bad[2..], "shadow:denied:patch:a"),
        (&all, "10.1.0.4", long, "shadow:denied:uri-too-long"),
        (&all, "10.1.0.5", &[], "passed"),
        // What would have refused first is noted: a limit before all but lists.
        (&all, "10.1.0.5", bad, "shadow:limited:per-address"),
        (&all, "192.0.2.1", bad, "shadow:denied:list"),
        // What still refuses, refuses.
        (&config(true, true, true, true, false), "10.0.0.3", bad, "shadow:denied:country"),
        (&config(true, true, true, true, false), "10.0.0.3", bad, "limited:per-address"),
        (&config(true, true, true, false, true), "192.0.2.1", bad, "denied:patch:a"),
        (&config(true, true, false, true, true), "192.0.2.1", bad, "denied:asn"),
        (&config(true, false, true, true, true), "192.0.2.1", bad, "denied:country"),
        (&config(false, true, true, true, true), "192.0.2.1", bad, "denied:list"),
        (&config(true, true, true, false, true), "10.0.0.4", long, "denied:uri-too-long"),
    ];
    let shared = Memory::default();
    for (i, (config, client, fields, expected)) in rows.iter().enumerate() {
        let (policy, fake) = (policy(config), Fake { fields: fields.to_vec() });
        let verdict = judge(&policy, Some(client), &fake, &shared).verdict;
        assert_eq!(policy.property(verdict, &[]), *expected, "row {i}");
        assert_eq!(
            verdict.goes_on(),
            !expected.starts_with("denied") && !expected.starts_with("limited")
        );
    }
    // Nobody is undecided because of a list that would refuse nothing.
    let closed =
        r#"{"failure_mode": "closed", "address_lists": {"deny": ["::/0"], "shadow": true}}"#;
    check(closed, &[(None, "passed"), (Some("::1"), "shadow:denied:list")]);
}

/// One patch in shadow mode: another that describes the request still refuses it, wherever it stands.
#[test]
fn shadow_of_one_patch_or_list() {
    let patch = |id: &str, path: &str, shadow: bool| {
        format!(
            r#"{{"id": "{id}", "cve": "CVE-2099-1", "title": "t", "rule": 9100001, "shadow": {shadow},
                "when": [{{"target": "path", "prefix": "{path}"}}]}}"#
        )
    };
    let (a, b) = (patch("a", "/a", true), patch("b", "/a/b", false));
    let policy = policy(&format!(
        r#"{{"failure_mode": "closed", "virtual_patches": [{a}, {b}], "address_lists": {{"feeds": [
            {{"name": "one", "cluster": "c", "path": "/", "shadow": true, "required": true}}]}}}}"#
    ));
    let shared = Memory::default();
    let judge = |client: Option<&str>, path: &'static str| {
        let restored = |source: &Source| Feed::restored(source.clone(), &shared);
        let feeds: Vec<Feed> = policy.sources().iter().map(restored).collect();
        let fake = Fake { fields: vec![(":path", path)] };
        let mut facts = Facts::new(&fake, client.map(|client| client.parse().unwrap()));
        let verdict = policy.judge(&mut facts, &feeds, T0, &shared).verdict;
        policy.property(verdict, &feeds).into_owned()
    };
    for (path, expected) in
        [("/a", "shadow:denied:patch:a"), ("/a/b", "denied:patch:b"), ("/", "passed")]
    {
        // The list is required, but would refuse nothing.
        assert_eq!(judge(Some("10.0.0.1"), path), expected, "{path}");
        assert_eq!(judge(None, path), expected, "{path}");
    }
    shared.put("glacis.wasm/2/feed/one", b"c c /\n\n10.0.0.0/8 deny\n10.1.0.0/16 allow").unwrap();
    for (client, expected) in
        [("10.0.0.1", "shadow:denied:list"), ("10.1.0.1", "allowed:list"), ("11.0.0.1", "passed")]
    {
        assert_eq!(judge(Some(client), "/"), expected, "{client}");
    }
    assert_eq!(judge(Some("10.0.0.1"), "/a/b"), "denied:patch:b");
}
