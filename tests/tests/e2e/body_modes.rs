//! Every mode in which an operator can have Envoy send bodies: each is inspected, or refused and said.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glacis_tests::http::Request;
use glacis_tests::stack::Processor;
use serde_json::json;

use crate::support::{Own, client};

/// A name for each of the modes of `ProcessingMode.BodySendMode` in Envoy's API, and the settings of it for requests.
pub(crate) const OF_REQUESTS: &[(&str, &str)] = &[
    ("none", "request_body_mode: NONE"),
    ("buffered", "request_body_mode: BUFFERED"),
    ("partial", "request_body_mode: BUFFERED_PARTIAL"),
    ("streamed", "request_body_mode: STREAMED"),
    ("duplex", "request_body_mode: FULL_DUPLEX_STREAMED, request_trailer_mode: SEND"),
    ("grpc", "request_body_mode: GRPC, request_trailer_mode: SEND"),
];

/// The same for responses.
pub(crate) const OF_RESPONSES: &[(&str, &str)] = &[
    ("none", "response_body_mode: NONE"),
    ("buffered", "response_body_mode: BUFFERED"),
    ("partial", "response_body_mode: BUFFERED_PARTIAL"),
    ("streamed", "response_body_mode: STREAMED"),
    (
        "duplex",
        "response_body_mode: FULL_DUPLEX_STREAMED, response_trailer_mode: SEND, \
         request_body_mode: FULL_DUPLEX_STREAMED, request_trailer_mode: SEND",
    ),
    ("half", "response_body_mode: FULL_DUPLEX_STREAMED, response_trailer_mode: SEND"),
    ("grpc", "response_body_mode: GRPC, response_trailer_mode: SEND"),
];

/// A route for each mode, before that for everything else.
pub(crate) fn routes(modes: &[(&str, &str)]) -> String {
    let route = |(name, settings): &(&str, &str)| {
        let response = if settings.contains("response") { "SEND" } else { "SKIP" };
        format!(
            "              - name: {name}\n                match: {{prefix: /{name}/}}\n                \
             request_body_buffer_limit: 13107200\n                \
             route: {{cluster: sample-upstream, timeout: 0s, prefix_rewrite: /}}\n                \
             typed_per_filter_config:\n                  envoy.filters.http.ext_proc:\n                    \
             \"@type\": type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute\n                    \
             overrides: {{processing_mode: {{response_header_mode: {response}, {settings}}}}}\n"
        )
    };
    format!("{}{CLOSED}", modes.iter().map(route).collect::<String>())
}

pub(crate) const CLOSED: &str = "              - name: closed\n";

/// How often each alarm was raised, of those that were.
fn alarms(own: &Own) -> Vec<(String, u32)> {
    let metrics = own.0.ext_proc.as_ref().unwrap().metrics().unwrap();
    let alarms = metrics.iter().filter_map(|(name, count)| {
        let kind = name.strip_prefix("glacis_alarms_total{kind=\"")?.strip_suffix("\"}")?;
        (*count > 0.0).then(|| (kind.to_owned(), *count as u32))
    });
    alarms.collect()
}

/// What is answered on the route of each mode to a GET, to a body that is fine, and to one that is not; and the
/// alarms that come of the three.
type Row = (&'static str, [u16; 3], &'static [(&'static str, u32)]);

#[track_caller]
fn check(own: &Own, requests: &dyn Fn(&str) -> [Request; 3], rows: &[Row]) {
    let mut wrong = Vec::new();
    for (mode, statuses, expected) in rows {
        let before = alarms(own);
        let mut seen = [0; 3];
        for (seen, request) in seen.iter_mut().zip(requests(mode)) {
            let answer = own.0.send(client(), &request.browser());
            *seen = answer.as_ref().map_or(0, |answer| answer.status);
        }
        let mut raised = Vec::new();
        let counted = |name: &str, all: &[(String, u32)]| {
            all.iter().find(|(kind, _)| kind == name).map_or(0, |(_, count)| *count)
        };
        let is_right = || {
            let after = alarms(own);
            raised = after
                .iter()
                .map(|(kind, count)| (kind.clone(), count - counted(kind, &before)))
                .filter(|(_, count)| *count > 0)
                .collect::<Vec<_>>();
            let expected: Vec<_> =
                expected.iter().map(|(kind, count)| ((*kind).to_owned(), *count)).collect();
            raised == expected
        };
        // Streams end, and are counted, a moment after their answers.
        let mut is_right = is_right;
        let counted = (0..100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            is_right()
        });
        if seen != *statuses || !counted {
            wrong.push(format!("{mode}: {seen:?} instead of {statuses:?}, alarms {raised:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn of_request(mode: &str) -> [Request; 3] {
    let path = format!("/{mode}/echo");
    let post = |body: &str| Request::post(&path, "application/json", body);
    [Request::get(&path), post(r#"{"a": 1}"#), post(r#"{"a": "<script>alert(1)</script>"}"#)]
}

const IGNORED: &str = "mode_override_ignored";
const STREAMED: &str = "streamed_body";
const STREAMED_RESPONSE: &str = "streamed_response";
const UNSUPPORTED: &str = "unsupported_body_mode";

#[test]
fn of_requests() {
    for (name, setting, none) in [
        ("modes", "allow_mode_override: true", ([200, 200, 403], &[][..])),
        // Nobody sends bodies, whatever is asked for: the guard refuses.
        ("modes-fixed", "allow_mode_override: false", ([200, 503, 503], &[][..])),
    ] {
        let edits = [(CLOSED, &*routes(OF_REQUESTS)), ("allow_mode_override: true", setting)];
        let own = Own::start(name, Processor::ExtProc, &edits);
        let fine = [200, 200, 403];
        let rows: [Row; 6] = [
            ("none", none.0, none.1),
            ("buffered", fine, &[]),
            ("partial", fine, &[]),
            // What comes with its headers is judged with them.
            ("streamed", fine, &[(STREAMED, 2)]),
            ("duplex", fine, &[]),
            ("grpc", [503, 503, 503], &[(UNSUPPORTED, 3)]),
        ];
        check(&own, &of_request, &rows);
    }
}

/// A rule that looks at responses.
const RESPONSES: &str = "response: full\ndirectives: |\n  SecResponseBodyAccess On\n  \
    SecRule RESPONSE_BODY \"@contains leaked-secret\" \"id:9000,phase:4,deny,status:502,log\"\n";

fn of_response(mode: &str) -> [Request; 3] {
    let path = |path: &str| format!("/{mode}/{path}");
    let reflect = |body: &str| {
        let body = json!({"status": 200, "encodedBody": STANDARD.encode(body)}).to_string();
        Request::post(&path("reflect"), "application/json", body)
    };
    [Request::get(&path("echo")), reflect("hello"), reflect("a leaked-secret")]
}

#[test]
fn of_responses() {
    let edits = [(CLOSED, &*routes(OF_RESPONSES))];
    let own = Own::start("modes-response", Processor::ExtProcWith(RESPONSES), &edits);
    let fine = [200, 200, 502];
    let rows: [Row; 7] = [
        ("none", fine, &[]),
        ("buffered", fine, &[]),
        ("partial", fine, &[]),
        // This body comes with its headers. One that comes later would not be held back: three are awaited, of which
        // that of the GET is one.
        ("streamed", fine, &[(STREAMED_RESPONSE, 3)]),
        ("duplex", fine, &[]),
        // Envoy obeys no override here: the body of a request is not sent, and the guard refuses.
        ("half", [200, 503, 503], &[(IGNORED, 2)]),
        ("grpc", [503, 503, 503], &[(UNSUPPORTED, 3)]),
    ];
    check(&own, &of_response, &rows);
}
