//! Receipts: what is decided, and what is said of it, where bodies are whole, cut off, too large or not there.

#![allow(clippy::unwrap_used, reason = "tests: helpers fail as assertions do")]

use core::time::Duration;
use std::sync::Arc;

use glacis_engine::{Deadline, Input, Limits, NoFiles, Program, RuleEngine};
use glacis_inspector::{
    BodyOverflow, Decision, End, First, FirstVerdict, Header, Inspector, Receipt, Rejection,
    RequestHead, ResponseHead, ResponseInspection, Sample, Settings, TruncatedBody,
};

const RULES: &str = r#"
    SecRuleEngine On
    SecRequestBodyAccess On
    SecRequestBodyLimit 10
    SecResponseBodyAccess On
    SecResponseBodyMimeType text/html
    SecRule ARGS:q "@contains attack" "id:1,phase:2,deny,status:403,log"
    SecRule REQUEST_HEADERS:x-trailer "@contains attack" "id:4,phase:2,deny,status:403,log"
    SecRule RESPONSE_HEADERS:x-trailer "@contains secret" "id:5,phase:4,deny,status:503,log"
    SecRule RESPONSE_HEADERS:x-leak "@streq 1" "id:2,phase:3,deny,status:502,log"
    SecRule RESPONSE_BODY "@contains secret" "id:3,phase:4,deny,status:503,log"
"#;

/// What a host says.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A request without a body.
    Get(&'static str),
    /// A form that is so long.
    Post(&'static str, &'static str),
    Body(&'static str, End),
    Overflow,
    Absent,
    /// One field, and whether rules see it.
    Trailers((&'static str, &'static str), bool),
    ResponseTrailers((&'static str, &'static str)),
    /// A limit of the host.
    Reject(Rejection),
    /// A request of which the host has no room to evaluate even the headers.
    TurnDown(Rejection),
    /// What follows is evaluated too late.
    Late,
    /// Its status, and a field.
    Response(&'static str, (&'static str, &'static str)),
    ResponseBody(&'static str, End),
    ResponseOverflow,
}

use Step::{
    Absent, Body, Get, Late, Overflow, Post, Reject, Response, ResponseBody, ResponseOverflow,
    ResponseTrailers, Trailers, TurnDown,
};

const HTML: (&str, &str) = ("content-type", "text/html");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// A POST whose length is not announced.
const OPEN: Step = Post("/", "");

/// What is said once its headers have come.
const WAITS: &str = "more: pending/headers";

fn inspector(settings: Settings) -> Inspector {
    let input = Input::Text { name: "test".into(), text: RULES.to_owned() };
    let program = Program::build(&[input], &NoFiles, Limits::default());
    let program = program.map_err(|errors| errors.to_string()).unwrap();
    Inspector::new(Arc::new(program), Arc::new(settings))
}

/// The user whom the host names is the one whom rules see.
#[test]
fn the_user_of_the_host_is_remote_user() {
    let rules = r#"SecRuleEngine On
        SecRule REMOTE_USER "@streq jane" "id:1,phase:1,deny""#;
    let input = Input::Text { name: "test".into(), text: rules.to_owned() };
    let program = Program::build(&[input], &NoFiles, Limits::default());
    let program = Arc::new(program.map_err(|errors| errors.to_string()).unwrap());
    let mut inspector = Inspector::new(program, Arc::new(Settings::default()));
    // "jane:x"
    let sent = headers(&[(":path", "/"), ("authorization", "Basic amFuZTp4")]);
    for (user, denied) in [(None, true), (Some("eve"), false), (Some("jane"), true)] {
        let head = RequestHead {
            headers: &sent,
            protocol: None,
            end_of_stream: true,
            id: "1",
            time: Duration::ZERO,
            source: None,
            destination: None,
            user,
            lot: 0,
            audit_lot: 0,
        };
        let decision = inspector.request_headers(&head);
        assert_eq!(matches!(decision, Decision::Reply(_)), denied, "{user:?}: {decision:?}");
    }
}

/// A host that does not know the user calls no request clean whose rules look at the user.
#[test]
fn rules_about_users_give_no_clean_first_verdict() {
    let sent = headers(&[(":path", "/"), ("host", "a.example")]);
    let head = RequestHead {
        headers: &sent,
        protocol: None,
        end_of_stream: true,
        id: "1",
        time: Duration::ZERO,
        source: None,
        destination: None,
        user: None,
        lot: 0,
        audit_lot: 0,
    };
    for (rule, expected) in [
        (r#"SecRule ARGS:a "@streq b" "id:1,phase:1,deny""#, First::Clean),
        (r#"SecRule REMOTE_USER "@streq jane" "id:1,phase:1,deny""#, First::Suspect),
        (r#"SecRule ARGS:a "@streq %{remote_user}" "id:1,phase:1,deny""#, First::Suspect),
    ] {
        let input = Input::Text { name: "test".into(), text: format!("SecRuleEngine On\n{rule}") };
        let program = Program::build(&[input], &NoFiles, Limits::default());
        let program = Arc::new(program.map_err(|errors| errors.to_string()).unwrap());
        assert_eq!(FirstVerdict::new(program, 0).judge(&head), expected, "{rule}");
    }
}

fn request(inspector: &mut Inspector, fields: &[(&str, &str)], end_of_stream: bool) -> Decision {
    inspector.request_headers(&RequestHead {
        headers: &headers(fields),
        protocol: Some("HTTP/2"),
        end_of_stream,
        id: "request-1",
        time: Duration::ZERO,
        source: None,
        destination: None,
        user: None,
        lot: 0,
        audit_lot: 0,
    })
}

fn headers<'a>(fields: &[(&'a str, &'a str)]) -> Vec<Header<'a>> {
    let header = |(name, value): &(&'a str, &'a str)| Header {
        name: name.as_bytes(),
        value: value.as_bytes(),
    };
    fields.iter().map(header).collect()
}

fn take(inspector: &mut Inspector, step: Step) -> Decision {
    match step {
        Get(path) => request(inspector, &[(":method", "GET"), (":path", path)], true),
        Post(path, length) => {
            let fields = [(":method", "POST"), (":path", path), FORM, ("content-length", length)];
            let announced = fields.get(..if length.is_empty() { 3 } else { 4 });
            request(inspector, announced.unwrap_or_default(), false)
        }
        Body(text, end) => inspector.request_body(text.as_bytes(), end),
        Overflow => inspector.request_body_overflow(Rejection::BodyOverflow),
        Absent => inspector.request_body_absent(),
        Trailers(field, are_seen) => {
            let (decision, seen) = inspector.request_trailers(&headers(&[field]));
            assert_eq!(seen, are_seen, "{field:?}");
            decision
        }
        ResponseTrailers(field) => inspector.response_trailers(&headers(&[field])),
        Reject(rejection) => inspector.reject(rejection).unwrap_or(Decision::Continue),
        TurnDown(rejection) => inspector.turn_down(
            &RequestHead {
                headers: &headers(&[(":method", "GET"), (":path", "/?q=attack")]),
                protocol: Some("HTTP/2"),
                end_of_stream: true,
                id: "request-1",
                time: Duration::ZERO,
                source: None,
                destination: None,
                user: None,
                lot: 0,
                audit_lot: 0,
            },
            rejection,
        ),
        Late => {
            inspector.set_deadline(Some(Deadline::new(|| 1, 1)));
            Decision::Continue
        }
        Response(status, field) => inspector.response_headers(&ResponseHead {
            headers: &headers(&[(":status", status), field]),
            end_of_stream: false,
        }),
        ResponseBody(text, end) => inspector.response_body(text.as_bytes(), end),
        ResponseOverflow => inspector.response_body_overflow(),
    }
}

/// Verdict, what was inspected, what was not, the phase that refused, what would refuse, and for which limit.
fn words(receipt: &Receipt<'_>) -> String {
    let mut words = format!("{}/{}", receipt.verdict, receipt.inspected);
    if let Some(reason) = receipt.uninspected {
        words += &format!(" {}", reason.name());
    }
    if let Some(phase) = receipt.phase {
        words += &format!(" by {}", phase.number());
    }
    if let Some(would_deny) = receipt.would_deny {
        words += &format!(" would deny by {}", would_deny.rule.0);
    }
    if let Some(reason) = receipt.reason {
        words += &format!(" for {}", reason.name());
    }
    words
}

/// Goes through an exchange, and compares what is said after each step.
#[track_caller]
fn check(settings: &Settings, steps: &[(Step, &str)]) {
    let mut inspector = inspector(settings.clone());
    for (step, expected) in steps {
        let decided = match take(&mut inspector, *step) {
            Decision::Continue => "on".to_owned(),
            Decision::NeedBody => "more".to_owned(),
            Decision::Reply(reply) => reply.status.to_string(),
        };
        let told = format!("{decided}: {}", words(&inspector.receipt()));
        assert_eq!(told, *expected, "{step:?} of {steps:?}, {settings:?}");
    }
}

#[test]
fn bodies() {
    let default = Settings::default();
    let truncated = |truncated_body| Settings { truncated_body, ..Settings::default() };
    let (part, pass) = (truncated(TruncatedBody::Inspect), truncated(TruncatedBody::Pass));
    let rule_engine = Some(RuleEngine::DetectionOnly);
    let detection = Settings { rule_engine, ..Settings::default() };
    let piece = (Body("q=f", End::More), "more: pending/partial");
    for (settings, steps) in [
        (&default, &[(Get("/"), "on: allow/headers")][..]),
        (&default, &[(Get("/?q=attack"), "403: deny/headers by 2")]),
        (&detection, &[(Get("/"), "on: allow/headers")]),
        (&detection, &[(Get("/?q=attack"), "on: allow/headers would deny by 1")]),
        (
            &detection,
            &[(OPEN, WAITS), (Body("q=attack", End::Last), "on: allow/body would deny by 1")],
        ),
        (&default, &[(OPEN, WAITS), piece, (Body("ine", End::Last), "on: allow/body")]),
        (&default, &[(OPEN, WAITS), (Body("q=attack", End::Last), "403: deny/body by 2")]),
        // Beyond the limit of the engine, which does not wait for the end.
        (
            &default,
            &[
                (OPEN, WAITS),
                (Body("q=012345678", End::More), "413: reject/partial by 2 for body_too_large"),
            ],
        ),
        (
            &default,
            &[
                (OPEN, WAITS),
                (
                    Body("q=fine", End::Truncated),
                    "413: reject/partial body_truncated by 2 for body_too_large",
                ),
            ],
        ),
        (
            &detection,
            &[(OPEN, WAITS), (Body("q=fine", End::Truncated), "on: allow/partial body_truncated")],
        ),
        (
            &part,
            &[(OPEN, WAITS), (Body("q=fine", End::Truncated), "on: allow/partial body_truncated")],
        ),
        (
            &part,
            &[
                (OPEN, WAITS),
                (Body("q=attack", End::Truncated), "403: deny/partial body_truncated by 2"),
            ],
        ),
        // Left out as a whole, where that can be: else what is there is looked at.
        (
            &pass,
            &[
                (OPEN, WAITS),
                (Body("q=attack", End::Truncated), "on: allow/headers body_too_large"),
            ],
        ),
        (
            &pass,
            &[
                (OPEN, WAITS),
                piece,
                (Body("ine", End::Truncated), "on: allow/partial body_truncated"),
            ],
        ),
        (&pass, &[(OPEN, WAITS), (Body("q=attack", End::Last), "403: deny/body by 2")]),
        (&pass, &[(Post("/", "10"), WAITS)]),
        (&pass, &[(Post("/", "11"), "on: allow/headers body_too_large")]),
        (&pass, &[(Post("/?q=attack", "11"), "403: deny/headers body_too_large by 2")]),
        (&default, &[(Post("/", "11"), WAITS)]),
        // A piece that nobody asked for changes nothing.
        (
            &default,
            &[(Get("/"), "on: allow/headers"), (Body("q=attack", End::Last), "on: allow/headers")],
        ),
    ] {
        check(settings, steps);
    }
}

const ATTACK: (&str, &str) = ("x-trailer", "attack");

/// Rules see trailers before the verdict, and the host learns when they do not.
#[test]
fn trailers() {
    let default = Settings::default();
    let full = Settings { response: ResponseInspection::Full, ..Settings::default() };
    let rule_engine = Some(RuleEngine::DetectionOnly);
    let detection = Settings { rule_engine, ..Settings::default() };
    let off = Settings { rule_engine: Some(RuleEngine::Off), ..Settings::default() };
    let piece = (Body("q=f", End::More), "more: pending/partial");
    let last = (Body("q=f", End::Last), "on: allow/body");
    let fine = ("x-trailer", "fine");
    let ok = (Get("/"), "on: allow/headers");
    let page = (Response("200", HTML), "more: allow/headers");
    let secret = ("x-trailer", "secret");
    for (settings, steps) in [
        // Headers and trailers, and nothing between.
        (&default, &[(OPEN, WAITS), (Trailers(fine, true), "on: allow/body")][..]),
        (&default, &[(OPEN, WAITS), (Trailers(ATTACK, true), "403: deny/body by 2")]),
        (
            &default,
            &[(Post("/?q=attack", ""), WAITS), (Trailers(fine, true), "403: deny/body by 2")],
        ),
        (&detection, &[(OPEN, WAITS), (Trailers(ATTACK, true), "on: allow/body would deny by 4")]),
        (&default, &[(OPEN, WAITS), piece, (Trailers(fine, true), "on: allow/body")]),
        (&default, &[(OPEN, WAITS), piece, (Trailers(ATTACK, true), "403: deny/body by 2")]),
        // After the verdict.
        (
            &default,
            &[(OPEN, WAITS), last, (Trailers(ATTACK, false), "on: allow/body request_trailers")],
        ),
        (
            &off,
            &[
                (OPEN, "on: allow/none engine_off"),
                (Trailers(ATTACK, true), "on: allow/none engine_off"),
            ],
        ),
        // Of responses.
        (&full, &[ok, page, (ResponseTrailers(fine), "on: allow/headers")]),
        (&full, &[ok, page, (ResponseTrailers(secret), "503: deny/headers by 4")]),
        (
            &full,
            &[
                ok,
                page,
                (ResponseBody("a", End::Last), "on: allow/headers"),
                (ResponseTrailers(secret), "on: allow/headers response_trailers"),
            ],
        ),
        (&default, &[ok, (ResponseTrailers(secret), "on: allow/headers")]),
    ] {
        check(settings, steps);
    }
}

/// A limit is no attack, and where rules may not block it is no refusal either.
#[test]
fn limits_of_the_host() {
    let default = Settings { block_status: Some(499), ..Settings::default() };
    let rule_engine = Some(RuleEngine::DetectionOnly);
    let detection = Settings { rule_engine, ..Settings::default() };
    let attack = (Post("/?q=attack", ""), WAITS);
    for (settings, steps) in [
        (
            &default,
            &[
                (OPEN, WAITS),
                (Reject(Rejection::QueueFull), "503: reject/headers by 2 for queue_full"),
            ][..],
        ),
        (&detection, &[(OPEN, WAITS), (Reject(Rejection::QueueFull), "on: pending/headers")]),
        (
            &default,
            &[(TurnDown(Rejection::MaxStreams), "503: reject/headers by 1 for max_streams")],
        ),
        (&detection, &[(TurnDown(Rejection::MaxStreams), "on: allow/headers overload")]),
        (&detection, &[(TurnDown(Rejection::Late), "on: allow/headers late")]),
        (
            &default,
            &[
                attack,
                (Late, "on: pending/headers"),
                (Body("q=attack", End::Last), "503: reject/body late by 2 for late"),
            ],
        ),
        (
            &detection,
            &[
                attack,
                (Late, "on: pending/headers"),
                (Body("q=attack", End::Last), "on: allow/body late"),
            ],
        ),
        // What a rule has refused it has refused.
        (
            &default,
            &[
                (Get("/?q=attack"), "499: deny/headers by 2"),
                (Reject(Rejection::QueueFull), "on: deny/headers by 2"),
            ],
        ),
    ] {
        check(settings, steps);
    }
}

#[test]
fn bodies_without_room_and_bodies_that_are_not_there() {
    let default = Settings::default();
    let pass = Settings { body_overflow: BodyOverflow::Pass, ..Settings::default() };
    let rule_engine = Some(RuleEngine::DetectionOnly);
    let detection = Settings { rule_engine, ..Settings::default() };
    let off = Settings { rule_engine: Some(RuleEngine::Off), ..Settings::default() };
    let unseen = Settings { sample: Sample::percent(0).unwrap(), ..Settings::default() };
    let piece = (Body("q=f", End::More), "more: pending/partial");
    let attack = (Post("/?q=attack", ""), WAITS);
    for (settings, steps) in [
        (
            &default,
            &[
                (OPEN, WAITS),
                (Overflow, "503: reject/headers body_overflow by 2 for body_overflow"),
            ][..],
        ),
        (
            &default,
            &[
                (OPEN, WAITS),
                piece,
                (Overflow, "503: reject/partial body_overflow by 2 for body_overflow"),
            ],
        ),
        (&detection, &[(OPEN, WAITS), (Overflow, "on: allow/headers body_overflow")]),
        (&pass, &[(OPEN, WAITS), (Overflow, "on: allow/headers body_overflow")]),
        (&pass, &[attack, (Overflow, "403: deny/headers body_overflow by 2")]),
        (&default, &[(Get("/"), "on: allow/headers"), (Overflow, "on: allow/headers")]),
        (&default, &[(OPEN, WAITS), (Absent, "on: allow/headers body_not_sent")]),
        (&default, &[attack, (Absent, "403: deny/headers body_not_sent by 2")]),
        // What has come is there.
        (&default, &[(OPEN, WAITS), piece, (Absent, "on: pending/partial")]),
        (&default, &[(Get("/"), "on: allow/headers"), (Absent, "on: allow/headers")]),
        (&off, &[(OPEN, "on: allow/none engine_off")]),
        (&off, &[(Get("/?q=attack"), "on: allow/none engine_off")]),
        (&unseen, &[(OPEN, "on: allow/none not_sampled")]),
        (&unseen, &[(Get("/?q=attack"), "on: allow/none not_sampled")]),
    ] {
        check(settings, steps);
    }
}

#[test]
fn responses() {
    let default = Settings::default();
    let of = |response| Settings { response, ..Settings::default() };
    let (heads, full) = (of(ResponseInspection::Headers), of(ResponseInspection::Full));
    let rule_engine = Some(RuleEngine::DetectionOnly);
    let detection = Settings { rule_engine, ..heads.clone() };
    let get = (Get("/"), "on: allow/headers");
    let asked = (Response("200", HTML), "more: allow/headers");
    let leak = Response("200", ("x-leak", "1"));
    for (settings, steps) in [
        (&default, &[get, (leak, "on: allow/headers")][..]),
        (&heads, &[get, (leak, "502: deny/headers by 3")]),
        (&detection, &[get, (leak, "on: allow/headers would deny by 2")]),
        (&heads, &[get, (Response("200", HTML), "on: allow/headers")]),
        (&full, &[get, (Response("101", HTML), "on: allow/headers")]),
        (&full, &[get, (Response("200", ("content-type", "image/png")), "on: allow/headers")]),
        (
            &full,
            &[
                get,
                asked,
                (ResponseBody("a sec", End::More), "more: allow/headers"),
                (ResponseBody("ret", End::Last), "503: deny/headers by 4"),
            ],
        ),
        (&full, &[get, asked, (ResponseBody("fine", End::Last), "on: allow/headers")]),
        (
            &full,
            &[
                get,
                asked,
                (ResponseBody("fine", End::Truncated), "on: allow/headers response_truncated"),
            ],
        ),
        (
            &full,
            &[
                get,
                asked,
                (
                    ResponseBody("a secret", End::Truncated),
                    "503: deny/headers response_truncated by 4",
                ),
            ],
        ),
        (&full, &[get, asked, (ResponseOverflow, "on: allow/headers response_truncated")]),
        (&full, &[get, (ResponseOverflow, "on: allow/headers")]),
        // A response is no verdict on a request whose body has not come.
        (&full, &[(OPEN, WAITS), (Response("200", HTML), "more: pending/headers body_not_sent")]),
    ] {
        check(settings, steps);
    }
}

/// At the end it is said that a body has never come.
#[test]
fn the_end() {
    for (steps, expected) in [
        (&[Get("/")][..], "allow/headers"),
        (&[OPEN], "pending/headers body_not_sent"),
        (&[OPEN, Body("q=f", End::More)], "pending/partial body_not_sent"),
        (&[OPEN, Body("q=fine", End::Last)], "allow/body"),
    ] {
        let mut inspector = inspector(Settings::default());
        for step in steps {
            take(&mut inspector, *step);
        }
        let outcome = inspector.finish(Duration::ZERO);
        assert_eq!(words(&outcome.receipt), expected, "{steps:?}");
    }
}

/// Only where rules may not block does anything pass without a verdict.
#[test]
fn without_a_verdict() {
    for (engine, expected) in [
        (RuleEngine::On, None),
        (RuleEngine::DetectionOnly, Some("allow/headers late")),
        (RuleEngine::Off, Some("allow/none late")),
    ] {
        let settings = Settings { rule_engine: Some(engine), ..Settings::default() };
        let mut inspector = inspector(settings);
        take(&mut inspector, OPEN);
        let receipt = inspector.receipt_without_verdict();
        assert_eq!(receipt.as_ref().map(words).as_deref(), expected, "{engine:?}");
    }
}
