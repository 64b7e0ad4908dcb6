//! Requests that are too long for virtual patches.

use super::*;

/// A request that is longer than patches look at is answered 414 while there is one.
#[test]
fn too_long_for_patches() {
    let patch = |rest: &str| {
        format!(
            r#"{{"virtual_patches": [{{"id": "a", "cve": "CVE-2099-1", "title": "t", "rule": 9100001{rest},
                "when": [{{"target": "path", "equals": "/attack"}}]}}], "rate_limits": [{{"requests": 1}}]}}"#
        )
    };
    let (path, query) = ("a".repeat(8_191), "b".repeat(16_382));
    let segments = "/a".repeat(255);
    let rows = [
        (format!("/{path}"), "passed"),
        (format!("/{path}a"), "denied:uri-too-long"),
        (format!("/?{query}"), "passed"),
        (format!("/?{query}b"), "denied:uri-too-long"),
        (segments.clone(), "passed"),
        (format!("{segments}%2fa"), "denied:uri-too-long"),
    ];
    let expired = r#", "expires": "2000-01-01""#;
    for (target, expected) in rows {
        let fake = || Fake { fields: vec![(":path", String::leak(target.clone()))] };
        for (config, expected) in [(patch(""), expected), (patch(expired), "passed")] {
            let (policy, shared) = (policy(&config), Memory::default());
            let judgement = judge(&policy, Some("192.0.2.1"), &fake(), &shared);
            assert_eq!(policy.property(judgement.verdict, &[]), expected, "{}", target.len());
        }
    }
}
