//! Lists that are too old.

use super::*;

/// A required list that is too old decides nothing any more.
#[test]
fn stale_lists() {
    let feed = |rest: &str| {
        policy(&format!(
            r#"{{"failure_mode": "open", "address_lists": {{"feeds": [{{"name": "one", "cluster": "c",
                "path": "/", "format": "plain", "max_age_seconds": 100{rest}}}]}}}}"#
        ))
    };
    let rows = [
        (feed(r#", "required": true"#), "error:stale-list"),
        (feed(r#", "required": true, "shadow": true"#), "passed"),
        (feed(""), "passed"),
    ];
    for (policy, expected) in rows {
        let shared = Memory::default();
        shared.put("glacis.wasm/2/feed/one", b"c c / plain deny\n\n10.0.0.1").unwrap();
        let mut feeds = vec![Feed::restored(policy.sources()[0].clone(), &shared)];
        for (now_ns, expected) in [(T0, "passed"), (T0 + 101 * SECOND_NS, expected)] {
            feeds[0].watch(now_ns);
            let fake = Fake::default();
            let mut facts = Facts::new(&fake, "192.0.2.1".parse().ok());
            let verdict = policy.judge(&mut facts, &feeds, now_ns, &shared).verdict;
            assert_eq!(policy.property(verdict, &feeds), expected);
            assert_eq!(verdict.goes_on(), expected == "passed");
        }
    }
}
