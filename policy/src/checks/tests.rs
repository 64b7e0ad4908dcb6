//! Checks with a host of the test's own.

use super::*;
use crate::facts::fake::Fake;
use crate::shared::memory::Memory;

const T0: u64 = 1_700_000_000_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// What a host was asked for.
#[derive(Debug, Default)]
struct Seen {
    now_ns: u64,
    /// Whether Envoy makes calls.
    calls: bool,
    called: Vec<String>,
    logged: Vec<String>,
    events: Vec<Event>,
}

impl Host for Seen {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn http_call(&mut self, call: &HttpCall<'_>) -> Option<u64> {
        self.called.push(format!("{} {:?}", call.cluster, call.fields[2]));
        self.calls.then_some(u64::from(u32::MAX) + self.called.len() as u64)
    }

    fn lease_call(&mut self, call: &LeaseCall<'_>) -> Option<u64> {
        self.called.push(format!("{} {:?}", call.cluster, call.token));
        self.calls.then_some(u64::from(u32::MAX) + self.called.len() as u64)
    }

    fn log_error(&mut self, message: &str) {
        self.logged.push(message.to_owned());
    }

    fn happened(&mut self, event: Event) {
        self.events.push(event);
    }
}

fn checks(config: &str, shared: &Memory) -> Checks {
    Checks::new(Config::parse(config.as_bytes()).unwrap(), shared, [7; 16], 1).unwrap()
}

fn judge<'r>(checks: &Checks, request: &'r Fake, now_ns: u64, shared: &Memory) -> Judged<'r> {
    let arrival = Arrival { source: Some(b"192.0.2.1:80"), end_of_stream: false, now_ns };
    checks.judge(request, &arrival, shared, || Some(b"id".to_vec()))
}

fn response(status: &str, body: &str) -> Response {
    let (status, body) = (status.as_bytes().to_vec(), Some(body.as_bytes().to_vec()));
    Response { status, etag: Vec::new(), digest: Vec::new(), body }
}

const LIST: &str = r#"{"address_lists": {"feeds": [
    {"name": "drop", "cluster": "feed", "path": "/drop.txt", "refresh_seconds": 1, "format": "plain"}
]}}"#;

/// A call that Envoy does not make, one that fails, and one with a list.
#[test]
fn a_list_comes_with_an_answer() {
    let (shared, fake) = (Memory::default(), Fake::default());
    let checks = checks(LIST, &shared);
    assert!(checks.needs_ticks() && !checks.leases());
    let mut host = Seen { now_ns: T0, ..Seen::default() };
    checks.tick(&mut host, &shared);
    assert_eq!((host.called.len(), host.logged.len()), (1, 1), "{host:?}");
    assert_eq!(host.events, [Event::ListFailed]);
    let mut host = Seen { now_ns: T0 + 11 * SECOND_NS, calls: true, ..Seen::default() };
    checks.tick(&mut host, &shared);
    checks.tick(&mut host, &shared);
    assert_eq!(host.called, [r#"feed (":path", "/drop.txt")"#], "one at a time");
    let number = u64::from(u32::MAX) + 1;
    assert!(checks.awaits_list(number) && !checks.awaits_list(1));
    let other = checks.take_list(1, || unreachable!(), &mut host, &shared);
    assert!(!other && !checks.take_answer(number, None, &mut host, &shared));
    assert!(checks.take_list(number, || response("500", ""), &mut host, &shared));
    assert_eq!(host.events, [Event::ListFailed, Event::ListEntries(0)]);
    assert_eq!(judge(&checks, &fake, host.now_ns, &shared).verdict, "passed");

    let mut host = Seen { now_ns: T0 + 22 * SECOND_NS, calls: true, ..Seen::default() };
    checks.tick(&mut host, &shared);
    assert!(checks.take_list(number, || response("200", "192.0.2.1"), &mut host, &shared));
    assert_eq!(host.events, [Event::ListChanged, Event::ListEntries(1)]);
    let judged = judge(&checks, &fake, host.now_ns, &shared);
    assert_eq!(
        (&*judged.verdict, judged.class, judged.check),
        ("denied:list", Class::Denied, "lists")
    );
    assert_eq!(judged.notes, [Note::verdict("denied:list")]);
    assert!(!judged.goes_on() && judged.answer.unwrap().body.contains("\"id\""));
}

/// What a request leaves behind, by what the configuration asks for.
#[test]
fn notes() {
    let fake = Fake { fields: vec![("x-country", "DE"), ("user-agent", "sqlmap/1.8")] };
    let rows = [
        ("{}", "glacis.wasm=passed"),
        (r#"{"geo": {"from_header": "x-country"}}"#, "glacis.wasm=passed glacis.country=DE"),
        (
            r#"{"geo": {"from_header": "x-country", "header": true}, "asn": {"from_header": "x", "header": true}}"#,
            "glacis.wasm=passed glacis.country=DE>x-glacis-country glacis.asn=0>x-glacis-asn",
        ),
        (r#"{"bots": {}}"#, "glacis.wasm=denied:bot.scanner.sqlmap glacis.tags=bot.scanner.sqlmap"),
        (
            r#"{"bots": {"header": true, "scanners": "tag"}}"#,
            "glacis.wasm=passed glacis.tags=bot.scanner.sqlmap glacis.bot_score=0>x-glacis-bot-score",
        ),
    ];
    for (config, expected) in rows {
        let shared = Memory::default();
        let judged = judge(&checks(config, &shared), &fake, T0, &shared).notes;
        let shown = judged.iter().map(|note| {
            let header = note.header.map(|name| format!(">{name}")).unwrap_or_default();
            format!("{}={}{header}", note.state.unwrap_or("-"), note.text)
        });
        assert_eq!(shown.collect::<Vec<_>>().join(" "), expected, "{config}");
    }
}

/// A body grows to what its client may hold, and a MiB more; the news comes once.
#[test]
fn bodies() {
    const MIB: usize = 1 << 20;
    for (shadow, status) in [(false, Some(429)), (true, None)] {
        let (shared, fake) = (Memory::default(), Fake::default());
        let config = format!(
            r#"{{"pending_bodies": {{"per_client": 4, "mib_per_client": 2, "shadow": {shadow}}}}}"#
        );
        let checks = checks(&config, &shared);
        let mut pending = judge(&checks, &fake, T0, &shared).pending.unwrap();
        let mut grow = |bytes| checks.grow_pending(&mut pending, bytes, T0, &shared, || None);
        assert_eq!((grow(3 * MIB - 1), grow(0)), (None, None));
        let grown = grow(1).unwrap();
        assert_eq!(grown.answer.map(|answer| answer.status), status);
        if shadow {
            assert_eq!(grow(MIB), None, "it is counted once");
        }
        checks.end_pending(&pending, T0, &shared);
        assert_eq!(judge(&checks, &fake, T0, &shared).verdict, "passed");
    }
}

/// Wishes become one call, whatever comes of it.
#[test]
fn lenders_are_asked_at_ticks() {
    let (shared, fake) = (Memory::default(), Fake::default());
    let config = r#"{"rate_limits": [{"requests": 10, "per_seconds": 10, "lease": {
        "cluster": "authz", "token": "a-token-of-the-test", "unleased": 2}}]}"#;
    let checks = checks(config, &shared);
    assert!(checks.needs_ticks() && checks.leases());
    (0..3).for_each(|_| drop(judge(&checks, &fake, T0, &shared)));
    for (second, calls, failures) in [(1, false, 1), (20, true, 0)] {
        let now_ns = T0 + second * SECOND_NS;
        drop(judge(&checks, &fake, now_ns - SECOND_NS / 2, &shared));
        let mut host = Seen { now_ns, calls, ..Seen::default() };
        checks.tick(&mut host, &shared);
        assert_eq!(host.called, [r#"authz Some("a-token-of-the-test")"#]);
        let failed = host.events.iter().filter(|event| **event == Event::LeaseFailed).count();
        assert_eq!(failed, failures, "{host:?}");
        assert_eq!(host.logged.len(), failures);
        let number = u64::from(u32::MAX) + 1;
        assert_eq!(checks.take_answer(number, None, &mut host, &shared), calls);
    }
}
