//! A policy over requests, and a host, that say whatever they like.

use super::*;

/// A host and a client that send whatever they like, at any time of the clock.
struct Hostile(std::cell::Cell<u64>);

impl Hostile {
    fn next(&self) -> u64 {
        let mixed = self.0.get().wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        self.0.set(mixed);
        mixed >> 33
    }

    /// Nothing, pieces of what has a meaning somewhere, or any bytes.
    fn bytes(&self) -> Option<Vec<u8>> {
        const PIECES: [&[u8]; 18] = [
            b"/",
            b"..",
            b"%2e",
            b"%",
            b"%%",
            b";",
            b"=",
            b"&",
            b"?",
            b"#",
            b"\\",
            b",",
            b":",
            b"]",
            b"[::1]",
            b"\xff\xfe",
            b"\0",
            b"a",
        ];
        let piece = |_| match self.next() % 4 {
            0 => vec![self.next().to_le_bytes()[0]],
            _ => PIECES[usize::try_from(self.next()).unwrap() % PIECES.len()].to_vec(),
        };
        let length = [0, 1, 7, 40, 3_000][usize::try_from(self.next()).unwrap() % 5];
        (!self.next().is_multiple_of(8)).then(|| (0..length).flat_map(piece).collect())
    }
}

impl crate::facts::Request for Hostile {
    fn header(&self, _name: &str) -> Option<Cow<'_, [u8]>> {
        self.bytes().map(Cow::Owned)
    }

    fn headers(&self, _name: &str) -> Vec<Vec<u8>> {
        [self.bytes(), self.bytes()].into_iter().flatten().collect()
    }

    fn headers_like(&self, name: &str) -> Vec<Vec<u8>> {
        self.headers(name)
    }

    fn metadata(&self, _keys: &[String]) -> Option<Vec<u8>> {
        self.bytes()
    }

    fn filter_state(&self, _name: &str) -> Option<Vec<u8>> {
        self.bytes()
    }
}

/// No bytes anywhere make the module panic, answer what is not to be said, or grow.
#[test]
fn hostile_heads_and_hosts() {
    let table = countries();
    let policy = policy(&format!(
        r#"{{
            "trusted_hops": 1, "geo": {{"table": "{table}", "deny": ["FR"]}},
            "address_lists": {{"deny": ["10.0.0.0/8"]}},
            "bots": {{"signatures": [{{"name": "a", "contains": "a/%", "action": "deny"}}],
                      "tls_fingerprints": {{"ja4": ["a_b_c"]}}}},
            "virtual_patches": [{{"id": "p", "cve": "CVE-1-1", "title": "t", "rule": 9100001,
                "when": [{{"target": "path", "contains": "/../"}},
                         {{"target": "query", "contains": "="}}]}},
                {{"id": "q", "cve": "CVE-1-1", "title": "t", "rule": 9100002, "when": [
                         {{"target": "argument", "name": "a", "contains": "a"}},
                         {{"target": "header", "name": "h", "suffix": "/"}}]}}],
            "rate_limits": [
                {{"name": "a", "requests": 3, "table_entries": 64, "key": ["client_address",
                  "host", "method", "country", {{"header": "h"}}, {{"cookie": "c"}},
                  {{"path": ["/a/{{b}}", "/**"]}}, {{"jwt_claim": "sub"}}]}},
                {{"name": "b", "requests": 3, "table_entries": 64, "algorithm": "gcra",
                  "match": {{"paths": ["/**"]}}}},
                {{"name": "c", "requests": 1, "match": {{"hosts": ["a"], "methods": ["A"]}}}}
            ]
        }}"#
    ));
    let shared = Memory::default();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 1..=1_500u64 {
        let hostile = Hostile(std::cell::Cell::new(seed << 20));
        let (source, forwarded) = (hostile.bytes(), hostile.bytes());
        let source = match seed % 3 {
            0 => Some(format!("192.0.{}.{}:1", seed % 4, seed % 8).into_bytes()),
            _ => source,
        };
        let client = crate::address::client(source.as_deref(), forwarded.as_deref(), 1);
        let now_ns = [0, T0, u64::MAX, hostile.next() << 33, T0 + seed][(seed % 5) as usize];
        shared.broken.set(seed % 50 == 0);
        shared.lost_writes.set(u32::try_from(seed % 11).unwrap());
        if seed % 7 == 0 {
            let key =
                format!("glacis.wasm/2/{}/{:x}", ["b/a", "g/b"][(seed % 2) as usize], seed % 8);
            let _ = shared.put(&key, &hostile.bytes().unwrap_or_default());
        }
        let judgement = policy.judge(&mut Facts::new(&hostile, client), &[], now_ns, &shared);
        seen.insert(policy.property(judgement.verdict, &[]).into_owned());
        let id = || hostile.bytes();
        if let Some(answer) = crate::answer::Answer::new(&judgement, policy.rate_limits(), id) {
            crate::json::parse(answer.body.as_bytes()).unwrap();
            let plain = |value: &str| value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
            assert!(answer.fields.iter().all(|(_, value)| plain(value)), "{answer:?}");
        }
    }
    assert!(shared.keys() <= 24, "{} keys", shared.keys());
    assert!(seen.len() >= 6, "it has to come everywhere: {seen:?}");
}
