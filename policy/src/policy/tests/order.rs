//! In which order the checks are made, and what each leaves to the next.

use super::*;

/// A request that notes for which fields it is asked.
struct Watched(Fake, std::cell::RefCell<Vec<String>>);

impl crate::facts::Request for Watched {
    fn header(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        self.1.borrow_mut().push(name.to_owned());
        self.0.header(name)
    }

    fn headers(&self, name: &str) -> Vec<Vec<u8>> {
        self.1.borrow_mut().push(format!("all {name}"));
        self.0.headers(name)
    }

    fn headers_like(&self, name: &str) -> Vec<Vec<u8>> {
        self.1.borrow_mut().push(format!("like {name}"));
        self.0.headers_like(name)
    }

    fn expect_many_fields(&self) {
        self.1.borrow_mut().push("many".to_owned());
    }

    fn metadata(&self, keys: &[String]) -> Option<Vec<u8>> {
        self.0.metadata(keys)
    }

    fn filter_state(&self, name: &str) -> Option<Vec<u8>> {
        self.0.filter_state(name)
    }
}

/// A client over its limit is rejected before anything looks at its headers, and one on a list before that.
#[test]
fn cheap_checks_come_first() {
    use Check::{Asn, Bots, Country, Limits, Lists, Patches, PendingBodies};
    let order = [Lists, Limits, PendingBodies, Country, Asn, Bots, Patches];
    assert_eq!(ORDER, order);
    let table = countries();
    let checks = format!(
        r#""address_lists": {{"deny": ["192.0.2.66"]}}, "geo": {{"table": "{table}", "deny": ["FR"]}},
           "bots": {{}}, "virtual_patches": [{{"id": "p", "cve": "CVE-1-1", "title": "t", "rule": 9100001,
           "when": [{{"target": "path", "contains": "/x"}}]}}]"#
    );
    let limit =
        |rest: &str| policy(&format!(r#"{{{checks}, "rate_limits": [{{"requests": 1{rest}}}]}}"#));
    let by_address = limit("");
    let by_tag = limit(r#", "match": {"tags": ["bot.scanner.sqlmap"]}"#);
    let fields = vec![("user-agent", "sqlmap/1"), (":path", "/x")];
    let all = ["many", "user-agent", ":path"];
    let rows: [(&Policy, &str, &str, &[&str]); 7] = [
        (&by_address, "192.0.2.66", "denied:list", &[]),
        (&by_address, "192.0.2.1", "denied:country", &[]),
        (&by_address, "192.0.2.1", "limited:per-address", &[]),
        (&by_address, "10.0.0.1", "denied:bot.scanner.sqlmap", &all[..2]),
        (&by_address, "10.0.0.1", "limited:per-address", &[]),
        // A limit by a sign of bots is the exception: somebody has to look for them.
        (&by_tag, "10.0.0.2", "denied:bot.scanner.sqlmap", &all[..2]),
        (&by_tag, "10.0.0.2", "limited:per-address", &all[..2]),
    ];
    let shared = Memory::default();
    for (i, (policy, client, expected, asked)) in rows.into_iter().enumerate() {
        let watched = Watched(Fake { fields: fields.clone() }, Default::default());
        let mut facts = Facts::new(&watched, client.parse().ok());
        let verdict = policy.judge(&mut facts, &[], T0, &shared).verdict;
        assert_eq!(policy.property(verdict, &[]), expected, "row {i}");
        assert_eq!(*watched.1.borrow(), asked, "row {i}");
    }
}

/// A check that cannot decide and lets pass does not turn off those after it.
#[test]
fn undecided_checks_leave_the_others_on() {
    let policy = policy(
        r#"{"address_lists": {"deny": ["192.0.2.66"]}, "bots": {}, "rate_limits": [
            {"name": "a", "requests": 1},
            {"name": "key", "requests": 1, "key": [{"header": "x-key", "absent": "skip"}]}]}"#,
    );
    let shared = Memory::default();
    let rows: [(&[(&str, &str)], &str); 4] = [
        (&[], "error:no-address"),
        (&[("user-agent", "sqlmap/1")], "denied:bot.scanner.sqlmap"),
        (&[("x-key", "a")], "error:no-address"),
        (&[("x-key", "a")], "limited:key"),
    ];
    for (i, (fields, expected)) in rows.into_iter().enumerate() {
        let judgement = judge(&policy, None, &Fake { fields: fields.to_vec() }, &shared);
        assert_eq!(policy.property(judgement.verdict, &[]), expected, "row {i}");
    }
}

/// Bodies that are awaited count for a client as long as its request may go on.
#[test]
fn pending_bodies() {
    let checks = r#""address_lists": {"allow": ["192.0.2.9"]}, "bots": {}"#;
    let policy_of =
        |pending: &str| policy(&format!(r#"{{{checks}, "pending_bodies": {pending}}}"#));
    let (bounded, watching) =
        (policy_of(r#"{"per_client": 1}"#), policy_of(r#"{"per_client": 1, "shadow": true}"#));
    const LIMITED: &str = "limited:pending_bodies";
    const SHADOW: &str = "shadow:limited:pending_bodies";
    type Row<'a> = (&'a Policy, Option<&'a str>, bool, &'a str, &'a str, bool);
    let rows: &[Row<'_>] = &[
        // What is denied later waits for nothing.
        (&bounded, Some("192.0.2.1"), true, "sqlmap/1", "denied:bot.scanner.sqlmap", false),
        (&bounded, Some("192.0.2.1"), true, "", "passed", true),
        (&bounded, Some("192.0.2.1"), true, "", LIMITED, false),
        (&bounded, Some("192.0.2.1"), false, "", "passed", false),
        (&bounded, Some("192.0.2.2"), true, "", "passed", true),
        (&bounded, Some("192.0.2.9"), true, "", "allowed:list", false),
        (&bounded, Some("192.0.2.9"), true, "", "allowed:list", false),
        (&bounded, None, true, "", "error:no-address", false),
        (&bounded, None, false, "", "passed", false),
        // A /64 is one client.
        (&bounded, Some("2001:db8::1"), true, "", "passed", true),
        (&bounded, Some("2001:db8::2"), true, "", LIMITED, false),
        (&bounded, Some("2001:db8:0:1::2"), true, "", "passed", true),
        (&watching, Some("198.51.100.1"), true, "", "passed", true),
        (&watching, Some("198.51.100.1"), true, "", SHADOW, true),
    ];
    let shared = Memory::default();
    for (i, (policy, client, awaits_body, agent, expected, counted)) in rows.iter().enumerate() {
        let agent: &'static str = (*agent).to_owned().leak();
        let fake = Fake { fields: vec![("user-agent", agent)] };
        let mut facts = Facts::new(&fake, client.map(|client| client.parse().unwrap()));
        facts.awaits_body = *awaits_body;
        let judgement = policy.judge(&mut facts, &[], T0, &shared);
        assert_eq!(policy.property(judgement.verdict, &[]), *expected, "row {i}");
        assert_eq!(judgement.pending.is_some(), *counted, "row {i}");
    }
}
