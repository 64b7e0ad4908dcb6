//! Calls of gRPC whose messages are judged one by one: each row is what comes of such a call, piece by piece.

#![allow(clippy::unwrap_used, reason = "tests: helpers fail as assertions do")]

use core::time::Duration;
use std::sync::Arc;

use glacis_engine::{Input, Limits, NoFiles, Program, RuleEngine};
use glacis_inspector::{
    Decision, End, GrpcBodies, Header, Inspector, Rejection, RequestHead, ResponseHead,
    ResponseInspection, Settings, TruncatedBody,
};

const RULES: &str = r#"
    SecRuleEngine On
    SecRequestBodyAccess On
    SecRequestBodyLimit 64
    SecRule REQUEST_HEADERS:Content-Type "@beginsWith application/grpc" "id:1,phase:1,pass,nolog,ctl:requestBodyProcessor=GRPC"
    SecRule REQUEST_HEADERS:x-note "@contains attack" "id:2,phase:2,deny,status:403,log"
    SecRule ARGS "@contains warn" "id:4,phase:2,pass,log"
    SecRule ARGS "@contains attack" "id:3,phase:2,deny,status:403,log"
    SecRule REQBODY_ERROR "@eq 1" "id:5,phase:2,deny,status:400,log"
    SecRule RESPONSE_HEADERS:x-leak "@streq 1" "id:6,phase:3,deny,status:502,log"
"#;

/// A frame around a message with one text.
fn text(text: &str) -> Vec<u8> {
    let length = u8::try_from(text.len()).unwrap();
    [&[0, 0, 0, 0, length + 2, 0x0a, length], text.as_bytes()].concat()
}

fn settings() -> Settings {
    Settings { response: ResponseInspection::Headers, ..Settings::default() }
}

fn inspector(settings: Settings) -> Inspector {
    let input = Input::Text { name: "rules".to_owned(), text: RULES.to_owned() };
    let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
    Inspector::new(Arc::new(program), Arc::new(settings))
}

/// Begins a call with a header; says what is decided, and whether messages are awaited.
fn begin(inspector: &mut Inspector, note: &str, more: (&str, &str)) -> (String, bool) {
    let pairs = [
        (":method", "POST"),
        (":path", "/shop.Orders/Place"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("x-note", note),
        more,
    ];
    let headers =
        pairs.map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() });
    let head = RequestHead {
        headers: &headers,
        protocol: Some("HTTP/2"),
        end_of_stream: false,
        id: "1",
        time: Duration::from_secs(1),
        source: None,
        destination: None,
        user: None,
        lot: 0,
        audit_lot: 0,
    };
    let mut decision = inspector.request_headers(&head);
    if decision == Decision::NeedBody && inspector.has_messages() {
        decision = inspector.begin_messages(&head);
    }
    (word(&decision), inspector.awaits_messages())
}

fn word(decision: &Decision) -> String {
    match decision {
        Decision::Continue => "on".to_owned(),
        Decision::NeedBody => "body".to_owned(),
        Decision::Reply(reply) => format!("{} {:?}", reply.status, reply.grpc_status),
    }
}

const NONE: (&str, &str) = ("x-none", "");

/// What is decided of each piece, the last one of which ends the body, and the verdict, what was inspected and left out,
/// and the rules of the receipt.
#[track_caller]
fn check(settings: Settings, pieces: &[&[u8]], expected: &[&str], receipt: &str) {
    let mut inspector = inspector(settings);
    assert_eq!(begin(&mut inspector, "", NONE), ("on".to_owned(), true));
    let mut found = Vec::new();
    for (number, piece) in pieces.iter().enumerate() {
        let end = if number + 1 == pieces.len() { End::Last } else { End::More };
        found.push(word(&inspector.messages(piece, end)));
    }
    assert_eq!(found, expected);
    let outcome = inspector.finish(Duration::from_secs(2));
    let seen = &outcome.receipt;
    let left_out = seen.uninspected.map_or("all", |left_out| left_out.name());
    let rules: Vec<String> = seen.rules.iter().map(ToString::to_string).collect();
    let found = format!("{} {} {left_out} {}", seen.verdict, seen.inspected, rules.join(","));
    assert_eq!(found.trim_end(), receipt);
}

#[test]
fn each_message_is_judged_before_its_last_byte_goes_on() {
    let (fine, attack) = (text("fine"), text("an attack"));
    check(settings(), &[&fine, &fine, b""], &["on", "on", "on"], "allow body all");
    check(settings(), &[&attack], &["403 Some(7)"], "deny body all 3");
    check(settings(), &[&fine, &attack], &["on", "403 Some(7)"], "deny body all 3");
    let both = [&fine[..], &attack].concat();
    check(settings(), &[&both], &["403 Some(7)"], "deny body all 3");
    // Wherever it is cut, and in pieces of one byte, the last of which is refused.
    for cut in 1..both.len() {
        check(settings(), &[&both[..cut], &both[cut..]], &["on", "403 Some(7)"], "deny body all 3");
    }
    let pieces: Vec<&[u8]> = both.chunks(1).collect();
    let mut expected = vec!["on"; both.len()];
    *expected.last_mut().unwrap() = "403 Some(7)";
    check(settings(), &pieces, &expected, "deny body all 3");
    // A record of the last message, and of none before it.
    check(settings(), &[&text("warn"), b""], &["on", "on"], "allow body all 4");
    check(settings(), &[&text("warn"), &fine], &["on", "on"], "allow body all");
}

/// As many as are judged together, and one more: an attack in either is found, and neither needs an evaluation each.
#[test]
fn short_messages_are_judged_together() {
    let text_of_rules = RULES.replace("SecRequestBodyLimit 64", "");
    let input = Input::Text { name: "rules".to_owned(), text: text_of_rules };
    let program = Program::build(&[input], &NoFiles, Limits::default()).unwrap();
    let inspector = &mut Inspector::new(Arc::new(program), Arc::new(settings()));
    for (before, together) in [(0, true), (62, true), (63, false), (640, false)] {
        let calls = [text("warn"), text("").repeat(before), text("an attack")].concat();
        begin(inspector, "", NONE);
        assert_eq!(word(&inspector.messages(&calls, End::More)), "403 Some(7)", "{before}");
        let rules: Vec<String> =
            inspector.matched_rules().map(|rule| rule.id.to_string()).collect();
        assert_eq!(rules, if together { vec!["4", "3"] } else { vec!["3"] }, "{before}");
    }
    // Together they have as many bytes as are judged so, or one more.
    for (bytes, together) in [(4_096, true), (4_097, false)] {
        let attack = text("an attack");
        let warn = text("warn");
        let rest = bytes - attack.len() - warn.len() - 5 - 3;
        let length = [u8::try_from(rest & 0x7f).unwrap() | 0x80, u8::try_from(rest >> 7).unwrap()];
        let frame = u32::try_from(rest + 3).unwrap().to_be_bytes();
        let filler = [&[0], &frame[..], b"\x0a", &length, &vec![b'z'; rest]].concat();
        begin(inspector, "", NONE);
        let calls = [warn, filler, attack].concat();
        assert_eq!(calls.len(), bytes);
        assert_eq!(word(&inspector.messages(&calls, End::More)), "403 Some(7)", "{bytes}");
        let rules = inspector.matched_rules().count();
        assert_eq!(rules, if together { 2 } else { 1 }, "{bytes}");
    }
}

#[test]
fn what_is_no_message_is_refused_when_it_is_known() {
    let fine = text("fine");
    check(settings(), &[&fine[..8]], &["400 Some(3)"], "deny body all 5");
    check(settings(), &[&fine, b"\x02"], &["on", "400 Some(3)"], "deny body all 5");
    check(settings(), &[b"{", b"}"], &["400 Some(3)", "on"], "deny body all 5");
    // Between messages that come together.
    let both = [&fine[..], b"\x80\0\0\0\0"].concat();
    check(settings(), &[&both, &fine], &["400 Some(3)", "on"], "deny body all 5");
}

/// At the limit of request bodies, and one byte above it.
#[test]
fn messages_that_are_too_large() {
    let of = |bytes: usize| text(&"z".repeat(bytes - 7));
    let (fits, larger) = (of(64), of(65));
    check(settings(), &[&fits], &["on"], "allow body all");
    check(settings(), &[&larger], &["413 Some(8)"], "reject body all");
    // It is known from its first bytes.
    check(settings(), &[&larger[..5], b""], &["413 Some(8)", "on"], "reject body all");
    let pass = || Settings { truncated_body: TruncatedBody::Pass, ..settings() };
    let attack = text("an attack");
    let behind = [&larger[..], &attack].concat();
    check(pass(), &[&larger, &fits], &["on", "on"], "allow body body_too_large");
    for cut in 1..=larger.len() {
        let pieces = [&behind[..cut], &behind[cut..]];
        check(pass(), &pieces, &["on", "403 Some(7)"], "deny body body_too_large 3");
    }
    let partial = || Settings { truncated_body: TruncatedBody::Inspect, ..settings() };
    check(partial(), &[&larger, &fits], &["400 Some(3)", "on"], "deny partial body_truncated 5");
}

/// Where rules may not block, the first attack is the record of the call, and everything passes.
#[test]
fn messages_pass_where_rules_look_on() {
    let (fine, attack) = (text("fine"), text("an attack"));
    let looks_on = || Settings { rule_engine: Some(RuleEngine::DetectionOnly), ..settings() };
    check(looks_on(), &[&fine, &attack, &fine], &["on", "on", "on"], "allow body all 3");
    let larger = [&text(&"z".repeat(58))[..], &attack].concat();
    check(looks_on(), &[&larger, &fine], &["on", "on"], "allow partial body_truncated 5");
}

/// Messages go on coming when the answer has begun, and its headers are inspected.
#[test]
fn the_response_is_inspected_beside() {
    for (leak, expected, then) in [("0", "on", "403 Some(7)"), ("1", "502 Some(14)", "on")] {
        let mut inspector = inspector(settings());
        begin(&mut inspector, "", NONE);
        assert_eq!(inspector.messages(&text("fine"), End::More), Decision::Continue);
        let pairs = [(":status", "200"), ("x-leak", leak)];
        let headers =
            pairs.map(|(name, value)| Header { name: name.as_bytes(), value: value.as_bytes() });
        let head = ResponseHead { headers: &headers, end_of_stream: false };
        assert_eq!(word(&inspector.response_headers(&head)), expected);
        assert_eq!(word(&inspector.messages(&text("attack"), End::More)), then);
    }
}

#[test]
fn which_bodies_are_judged_so() {
    for (note, more, pass, expected) in [
        ("", NONE, false, ("on", true)),
        // Its headers are judged at once.
        ("attack", NONE, false, ("403 Some(7)", false)),
        ("", NONE, true, ("on", false)),
        // Compressed as a whole: its messages cannot be told apart.
        ("", ("content-encoding", "gzip"), false, ("body", false)),
    ] {
        let grpc = if pass { GrpcBodies::Pass } else { GrpcBodies::Inspect };
        let mut inspector = inspector(Settings { grpc, ..settings() });
        let found = begin(&mut inspector, note, more);
        assert_eq!((&*found.0, found.1), expected, "{note} {more:?} {pass}");
    }
}

#[test]
fn a_host_without_room_rejects_the_call() {
    let mut inspector = inspector(settings());
    begin(&mut inspector, "", NONE);
    assert_eq!(inspector.messages(&text("fine")[..9], End::More), Decision::Continue);
    assert_eq!(inspector.pending_bytes(), 9);
    let decision = inspector.messages_overflow(Rejection::BodyOverflow);
    assert_eq!(word(&decision), "503 Some(14)");
    assert!(!inspector.awaits_messages());
}
