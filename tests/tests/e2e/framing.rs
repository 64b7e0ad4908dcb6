//! Every way to frame a request ends in a verdict: attacks get 403 and harmless requests 200, on the closed and on
//! the open route, with the guard and without it. Nothing that a client sends may leave the decision to the failure
//! mode, since on an open route that means "pass".

mod held;
mod modes;
mod requests;
mod responses;

use std::net::Ipv4Addr;
use std::sync::Mutex;
use std::thread::scope;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_tests::frames;
use glacis_tests::http;
use glacis_tests::stack::{Ports, Processor, Stack, quickstart};
use serde_json::Value;

use self::requests::{
    Attack, Framing, PROBE, Parts, Sent, Trailers, over_http1, over_http2, upgrades,
};
use crate::support::{Own, client, eventually, folder, native, shared};

/// Requests at once. Rows with pauses spend most of their time on waiting.
const AT_ONCE: usize = 4;

/// How often a row may fail. A machine that stands still for a second, as one that compiles may, makes every processor
/// unhealthy for a moment; what is wrong with a framing is wrong each time.
const ATTEMPTS: usize = 3;
const HEALS: Duration = Duration::from_secs(20);

/// How a request was answered.
#[derive(Debug)]
struct Answer {
    /// 0 if there was no answer.
    status: u16,
    body: Vec<u8>,
}

/// Sends a framed request as the client `from`.
fn send(stack: &Stack, from: Ipv4Addr, sent: &Sent) -> Answer {
    match sent {
        Sent::Http2(frames) => {
            let connection = frames::Connection::open(from, stack.proxy());
            let answer = connection.and_then(|mut connection| connection.exchange(frames));
            let answer = answer.unwrap_or_default();
            Answer { status: answer.status, body: answer.body }
        }
        Sent::Http1 { method, pieces } => {
            let answer = send_pieces(stack, from, method, pieces);
            answer.unwrap_or(Answer { status: 0, body: Vec::new() })
        }
    }
}

fn send_pieces(stack: &Stack, from: Ipv4Addr, method: &str, pieces: &[Vec<u8>]) -> Option<Answer> {
    let mut connection = http::Connection::open(Some(from), stack.proxy()).ok()?;
    let (last, first) = pieces.split_last()?;
    for piece in first {
        // An answer may come, and the connection end, before everything is sent.
        let _ = connection.write(piece);
        std::thread::sleep(requests::PAUSE);
    }
    let mut answer = connection.exchange(last, method).ok()?;
    while (100..200).contains(&answer.status) && answer.status != 101 {
        answer = connection.exchange(&[], method).ok()?;
    }
    Some(Answer { status: answer.status, body: answer.body })
}

/// A row that was sent.
struct Row<'a> {
    framing: &'a Framing,
    attack: Attack,
    route: &'static str,
    parts: Parts,
}

impl Row<'_> {
    /// The statuses that may come.
    fn statuses(&self) -> &'static [u16] {
        match (self.attack, self.framing.trailers) {
            (Attack::None, _) => self.framing.harmless,
            // Envoy takes trailers of HTTP/1.1 away by default: they reach nobody.
            (Attack::Trailer, Trailers::Dropped) => self.framing.harmless,
            (Attack::Trailer, Trailers::AfterBody) => &[200, 403],
            (Attack::Query | Attack::Header | Attack::Body | Attack::Trailer, _) => {
                self.framing.hostile
            }
        }
    }

    /// What is wrong with the answer, if anything is.
    fn fault(&self, answer: &Answer) -> Option<String> {
        let (name, attack, route) = (self.framing.name, self.attack, self.route);
        let row = format!("{name}, {attack:?}, {route:?}");
        let expected = self.statuses();
        if !expected.contains(&answer.status) {
            return Some(format!("{row}: {} instead of {expected:?}", answer.status));
        }
        if answer.status != 200 || !self.framing.is_echoed {
            return None;
        }
        let echoed: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let body = STANDARD.decode(echoed["body_base64"].as_str().unwrap_or("?"));
        let wanted = if self.framing.has_body { &self.parts.body[..] } else { &[] };
        let is_whole = body.as_deref() == Ok(wanted);
        let has_probe = echoed.to_string().contains(PROBE);
        (!is_whole || has_probe).then(|| format!("{row}: the upstream got {echoed}"))
    }
}

/// Every framing with every attack that it has a place for.
fn rows<'a>(framings: &'a [Framing], routes: &[&'static str]) -> Vec<Row<'a>> {
    let mut rows = Vec::new();
    for framing in framings {
        for attack in Attack::ALL {
            let has_place = match attack {
                Attack::None | Attack::Query | Attack::Header => true,
                Attack::Body => framing.has_body,
                Attack::Trailer => framing.trailers != Trailers::None,
            };
            for route in routes.iter().filter(|_| has_place) {
                let parts = Parts::new(route, attack);
                rows.push(Row { framing, attack, route, parts });
            }
        }
    }
    rows
}

/// Sends every row and holds it against what has to come; and that nothing reached an upstream without a receipt.
#[track_caller]
fn check(stack: &Stack, framings: &[Framing], routes: &[&'static str]) {
    let rows = rows(framings, routes);
    let passed = Mutex::new(Vec::new());
    let mut wrong = Vec::new();
    let mut waiting: Vec<&Row<'_>> = rows.iter().collect();
    for _ in 0..ATTEMPTS {
        eventually("a healthy processor", HEALS, || stack.processor_is_healthy().unwrap());
        let failed = Mutex::new(Vec::new());
        let queue = Mutex::new(waiting.into_iter().map(|row| (row, client())));
        scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    loop {
                        let next = queue.lock().unwrap().next();
                        let Some((row, from)) = next else { return };
                        let answer = send(stack, from, &(row.framing.frame)(&row.parts));
                        match row.fault(&answer) {
                            Some(fault) => failed.lock().unwrap().push((row, fault)),
                            None if answer.status != 200 => {}
                            None => passed.lock().unwrap().push(from.to_string()),
                        }
                    }
                });
            }
        });
        (waiting, wrong) = failed.into_inner().unwrap().into_iter().unzip();
    }
    wrong.extend(without_receipt(stack, &passed.into_inner().unwrap()));
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

/// Requests of these clients that an upstream has answered and that have no receipt which says `allow`.
fn without_receipt(stack: &Stack, clients: &[String]) -> Vec<String> {
    let mut lines = Vec::new();
    eventually("a line in the access log for each", Duration::from_secs(15), || {
        let is_ours = |line: &Value| { clients.iter() }.any(|from| line["client"] == **from);
        lines = stack.access_log().unwrap().into_iter().filter(is_ours).collect();
        lines.len() >= clients.len()
    });
    let uninspected = { lines.iter() }
        .filter(|line| line["details"] == "via_upstream" && line["glacis"]["verdict"] != "allow");
    uninspected.map(|line| format!("without a receipt: {line}")).collect()
}

/// Both routes of the quickstart: the closed one and the one that fails open.
const ROUTES: [&str; 2] = ["", "/open"];

#[test]
fn http2_with_the_guard() {
    check(shared(), &over_http2(), &ROUTES);
}

#[test]
fn http1_with_the_guard() {
    check(shared(), &over_http1(Trailers::Dropped), &ROUTES);
}

#[test]
fn upgrades_with_the_guard() {
    check(shared(), &upgrades(), &ROUTES);
}

#[test]
fn natively() {
    let own = Own::native("framing-native", &[], &[KEEP_TRAILERS, UPSTREAM]);
    check(&own.0, &over_http2(), &ROUTES);
    check(&own.0, &over_http1(Trailers::Seen), &ROUTES);
}

/// Each evaluation, of headers as well, on a thread of its own.
#[test]
fn natively_on_threads() {
    let keys = ["inline_header_bytes: 0", "inline_body_bytes: 0"];
    let own = Own::native("framing-native-threads", &keys, &[KEEP_TRAILERS, UPSTREAM]);
    check(&own.0, &over_http2(), &ROUTES);
    check(&own.0, &over_http1(Trailers::Seen), &ROUTES);
    let own = Own::native("framing-native-upgrades", &keys, &[]);
    check(&own.0, &upgrades(), &ROUTES);
}

#[test]
fn upgrades_natively() {
    check(native(), &upgrades(), &ROUTES);
}

/// Where only the processor stands between a client and the upstream, as with attachments that have no guard.
#[test]
fn without_the_guard() {
    let own = without_a_guard("framing-no-guard", Processor::ExtProc, &[KEEP_TRAILERS, UPSTREAM]);
    check(&own.0, &over_http2(), &ROUTES);
    check(&own.0, &over_http1(Trailers::Seen), &ROUTES);
}

#[test]
fn upgrades_without_the_guard() {
    let own = without_a_guard("framing-upgrades", Processor::ExtProc, &[]);
    check(&own.0, &upgrades(), &ROUTES);
}

/// With the guard, where Envoy keeps trailers of HTTP/1.1.
#[test]
fn http1_trailers_with_the_guard() {
    let own = Own::start("framing-trailers", Processor::ExtProc, &[KEEP_TRAILERS, UPSTREAM]);
    check(&own.0, &over_http1(Trailers::Seen), &ROUTES);
}

/// Envoy takes trailers of HTTP/1.1 away unless it is set up so.
const KEEP_TRAILERS: (&str, &str) = (
    "          codec_type: AUTO",
    "          http_protocol_options: {enable_trailers: true}\n          codec_type: AUTO",
);

/// Trailers reach an upstream that speaks HTTP/2.
const UPSTREAM: (&str, &str) = (
    "  - name: sample-upstream\n    connect_timeout: 1s\n",
    r#"  - name: sample-upstream
    connect_timeout: 1s
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        "@type": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {http2_protocol_options: {}}
"#,
);

/// The quickstart without the filter that looks for receipts.
fn without_a_guard(name: &str, processor: Processor, edits: &[(&str, &str)]) -> Own {
    let ports = Ports::free().unwrap();
    let config = quickstart(&ports, edits).unwrap();
    let (before, rest) = config.split_once("          # 3. The guard.").unwrap();
    let (_, after) =
        rest.split_once("          - name: envoy.filters.http.router\n").expect("a router");
    let of_route = "                  envoy.filters.http.rbac:\n";
    let (between, rest) = after.split_once(of_route).expect("a route with a guard of its own");
    let (_, end) = rest.split_once("rbac: {shadow_rules: *receipt}\n").expect("shadow rules");
    let config = format!("{before}          - name: envoy.filters.http.router\n{between}{end}");
    assert!(!config.contains("rbac:"), "a guard is left");
    Own(Stack::start_config(&folder(name), ports, processor, &config).unwrap())
}
