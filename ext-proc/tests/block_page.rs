//! What refused clients are shown, over a real gRPC connection.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use envoy_types::pb::envoy::{
    config::core::v3::header_value_option::HeaderAppendAction,
    service::ext_proc::v3::{ImmediateResponse, processing_response::Response},
};
use harness::{Sent, Service, Stream};

/// Nothing of this may be seen from outside: an id, a message, what matched, a tag.
const RULES: &str = r#"
    SecRule ARGS "@contains attack" "id:987654,phase:2,deny,status:403,log,\
        msg:'canary-msg',logdata:'canary-data %{MATCHED_VAR}',tag:'canary-tag'"
    SecRule ARGS "@contains away" "id:2,phase:2,redirect:'https://example.com/'"
"#;

const BROWSER: &str = "accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

async fn refusal(
    service: &Service,
    profile: &str,
    path: &str,
    headers: &[&str],
) -> ImmediateResponse {
    let mut stream = Stream::open_with(service.channel().await, Some(profile)).await.unwrap();
    stream.send(&Sent::get(path, headers)).await;
    let answer = stream.answers.message().await.unwrap().unwrap();
    match answer.response.unwrap() {
        Response::ImmediateResponse(reply) => reply,
        other => panic!("{other:?}"),
    }
}

fn header(reply: &ImmediateResponse, name: &str) -> Option<String> {
    let options = &reply.headers.as_ref().unwrap().set_headers;
    let mut headers = options.iter().filter_map(|option| option.header.as_ref());
    let found = headers.find(|header| header.key == name)?;
    Some(String::from_utf8(found.raw_value.clone()).unwrap())
}

#[tokio::test]
async fn each_client_gets_what_it_accepts() {
    let config = r#"
profiles:
  own:
    block: {status: 451, html: "<p>{status} {title}: {request_id}"}
  text:
    block: {body: "{status} {request_id}"}
  both:
    block: {html: "<p>{request_id}", body: "<e>{request_id}</e>", content_type: application/xml}
"#;
    let service = Service::start(config, RULES).await;
    let json =
        r#"{"type":"about:blank","title":"Forbidden","status":403,"request_id":"request-1"}"#;
    const HTML: &str = "text/html; charset=utf-8";
    const PROBLEM: &str = "application/problem+json";
    for (profile, accept, status, content_type, body) in [
        ("default", &[][..], 403, PROBLEM, json),
        ("default", &["accept: */*"], 403, PROBLEM, json),
        ("default", &["accept: application/json"], 403, PROBLEM, json),
        ("default", &[BROWSER], 403, HTML, "<code>request-1</code>"),
        ("own", &[BROWSER], 451, HTML, "<p>451 Unavailable For Legal Reasons: request-1"),
        ("own", &["accept: */*"], 451, PROBLEM, "\"status\":451"),
        ("text", &[BROWSER], 403, "text/plain; charset=utf-8", "403 request-1"),
        ("both", &[BROWSER], 403, HTML, "<p>request-1"),
        ("both", &[], 403, "application/xml", "<e>request-1</e>"),
    ] {
        let reply = refusal(&service, profile, "/?q=attack", accept).await;
        let found = String::from_utf8(reply.body.clone()).unwrap();
        let row = format!("{profile} {accept:?}: {found}");
        assert_eq!(reply.status.as_ref().unwrap().code, status, "{row}");
        assert_eq!(header(&reply, "content-type").as_deref(), Some(content_type), "{row}");
        assert_eq!(header(&reply, "cache-control").as_deref(), Some("no-store"), "{row}");
        assert_eq!(header(&reply, "vary").as_deref(), Some("accept"), "{row}");
        assert!(found.contains(body), "{row}");
        // Each field stands once, whatever Envoy or another filter adds.
        let overwrites = HeaderAppendAction::OverwriteIfExistsOrAdd as i32;
        let options = &reply.headers.as_ref().unwrap().set_headers;
        assert!(options.iter().all(|option| option.append_action == overwrites), "{row}");
        // What the client sees says nothing of the rules, nor what of the request they found.
        let seen = format!("{found} {:?}", reply.headers);
        for secret in ["987654", "canary", "attack", "glacis"] {
            assert!(!seen.contains(secret), "{secret} in {seen}");
        }
    }
}

/// The status of a redirection stays, and it has its place beside the page.
#[tokio::test]
async fn redirections() {
    let service = Service::start("profiles: {own: {block: {status: 451}}}\n", RULES).await;
    let reply = refusal(&service, "own", "/?q=away", &[BROWSER]).await;
    assert_eq!(reply.status.as_ref().unwrap().code, 302);
    assert_eq!(header(&reply, "location").as_deref(), Some("https://example.com/"));
}
