//! Whose word counts: what a client writes does not switch inspection off, and what filters before ext-proc tell the
//! upstream arrives there.

use glacis_tests::frames::{Connection, Frame, fields};
use glacis_tests::http::Request;
use glacis_tests::stack::Processor;

use crate::support::{Own, access_log, client};

/// The exclusion that whoever has media types of their own writes first; and a rule that reads bodies of any type.
const KEYS: &str = r#"
exclusions: [{rules: [920420], owner: o, reason: r, expires: never}]
directives: |
  SecAction "id:9099,phase:1,pass,nolog,ctl:forceRequestBodyVariable=On"
  SecRule REQUEST_BODY "@contains an-attack" "id:9100,phase:2,deny,status:403,log"
"#;

/// Every client may write a media type of gRPC. A call it is over HTTP/2 only, as a POST with `te: trailers`; Envoy
/// itself makes each refusal an answer of gRPC, so that the access log says what became of a request.
#[test]
fn a_media_type_of_grpc_does_not_keep_a_body_from_the_rules() {
    let own = Own::start("trust-grpc", Processor::ExtProcWith(KEYS), &[]);
    let types = [
        "application/grpc",
        "application/grpc+proto",
        "application/grpc-web-text",
        "Application/GRPC",
    ];
    let mut sent = Vec::new();
    for media_type in types {
        for route in ["", "/open"] {
            let path = format!("{route}/echo");
            // What is no message of gRPC is refused as a body that cannot be read, whatever it holds.
            for body in ["harmless", "an-attack"] {
                let outcome = "glacis_deny_rule_100010";
                let plain = Request::post(&path, media_type, body).browser();
                for request in [plain.clone(), plain.header("te", "trailers")] {
                    let from = client();
                    own.0.send(from, &request).unwrap();
                    sent.push((from, outcome, format!("{media_type}, {path}, {body}, HTTP/1.1")));
                }
                let headers = fields("POST", &path, &[("content-type", media_type)]);
                let frames = [
                    Frame::Headers { fields: headers, pieces: 1, end_stream: false },
                    Frame::data(body.as_bytes(), true),
                ];
                let from = client();
                Connection::open(from, own.0.proxy()).unwrap().exchange(&frames).unwrap();
                sent.push((from, outcome, format!("{media_type}, {path}, {body}, HTTP/2")));
            }
        }
    }
    let clients: Vec<_> = sent.iter().map(|(from, ..)| *from).collect();
    for (line, (_, outcome, row)) in access_log(&own.0, &clients).iter().zip(&sent) {
        assert_eq!(line["details"], *outcome, "{row}: {line}");
        assert_eq!(line["glacis"]["inspected"], "body", "{row}: {line}");
    }
}

/// What the wasm-filter tells the upstream stands in the request when ext-proc sees it; what a client has made up does
/// not, since Envoy takes it out before any filter.
#[test]
fn the_upstream_learns_what_filters_before_ext_proc_found() {
    const LIMITS: &str = r#""rate_limits": [{"name": "per-address""#;
    let bots = format!(r#""bots": {{"header": true}}, {LIMITS}"#);
    let own = Own::start("trust-headers", Processor::ExtProc, &[(LIMITS, &*bots)]);
    let page = Request::get("/echo").browser();
    let form = Request::post("/echo", "application/x-www-form-urlencoded", "user=Ada").browser();
    for request in [page, form] {
        let request = request.header("x-glacis-bot-score", "forged").header("x-glacis-a", "forged");
        for route in ["", "/open"] {
            let mut request = request.clone();
            request.target = format!("{route}{}", request.target);
            let answer = own.0.send(client(), &request).unwrap();
            assert_eq!(answer.status, 200, "{}", answer.text());
            let echoed = answer.json();
            let seen: Vec<(&str, &str)> = { echoed["headers"].as_array().unwrap().iter() }
                .filter_map(|field| Some((field[0].as_str()?, field[1].as_str()?)))
                .filter(|(name, _)| name.starts_with("x-glacis-"))
                .collect();
            assert!(
                matches!(seen[..], [("x-glacis-bot-score", score)] if score.parse::<u32>().is_ok()),
                "{seen:?}"
            );
        }
    }
}
