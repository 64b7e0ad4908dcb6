//! Settings of Envoy's under which something is not inspected, or not in time: what the first messages
//! tell of them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use harness::{Sent, Service, Stream, counted, get};

const RULES: &str = r#"SecRule ARGS "@contains attack" "id:1,phase:2,deny,status:403,log""#;

/// What looks at responses.
const OF_RESPONSES: &str = r#"
    SecResponseBodyAccess On
    SecRule RESPONSE_BODY "@contains leaked-secret" "id:2,phase:4,deny,status:502,log"
"#;

const FORM: &str = "content-type: application/x-www-form-urlencoded";

const KINDS: [&str; 7] = [
    "mode_override_ignored",
    "observability_mode",
    "streamed_body",
    "streamed_response",
    "unsupported_body_mode",
    "no_protocol_config",
    "no_client_address",
];

/// A request of an Envoy that is set up as it should be.
fn good(sent: Sent<'_>) -> Sent<'_> {
    sent.source("192.0.2.7:1234").modes("NONE", "NONE")
}

#[tokio::test]
async fn each_alarm_has_its_cause() {
    let get_one = || good(Sent::get("/", &[]));
    let post = || good(Sent::post("/", &[FORM]));
    let websocket = ["upgrade: websocket", "connection: Upgrade", "sec-websocket-key: a"];
    let response = || Sent::response(200, &[]);
    let detection = "mode: detection\n";
    for (name, config, steps, alarms) in [
        ("as it should be", "", vec![get_one()], &[][..]),
        ("a body that comes", "", vec![post(), Sent::body("a=b", true), response()], &[]),
        ("a body that does not", "", vec![post(), response()], &["mode_override_ignored"]),
        (
            "a body that does not, and was buffered",
            "",
            vec![post().modes("BUFFERED", "NONE"), response()],
            &[],
        ),
        (
            "a body that is not needed",
            "",
            vec![good(Sent::get_open("/", &websocket)), response()],
            &[],
        ),
        ("observed", "", vec![get_one().observed()], &["observability_mode"]),
        ("observed, and nothing to block", detection, vec![get_one().observed()], &[]),
        ("streamed", "", vec![post().modes("STREAMED", "NONE")], &["streamed_body"]),
        ("streamed, without a body", "", vec![get_one().modes("STREAMED", "NONE")], &[]),
        ("streamed, and nothing to block", detection, vec![post().modes("STREAMED", "NONE")], &[]),
        (
            "a streamed response",
            "response: full\n",
            vec![
                get_one().modes("NONE", "STREAMED"),
                Sent::response(200, &["content-type: text/plain"]),
            ],
            &["streamed_response"],
        ),
        (
            "a streamed response, and nothing to block",
            "mode: detection\nresponse: full\n",
            vec![
                get_one().modes("NONE", "STREAMED"),
                Sent::response(200, &["content-type: text/plain"]),
            ],
            &[],
        ),
        (
            "a streamed response at which nobody looks",
            "",
            vec![
                get_one().modes("NONE", "STREAMED"),
                Sent::response(200, &["content-type: text/plain"]),
            ],
            &[],
        ),
        ("unsupported", "", vec![post().modes("GRPC", "NONE")], &["unsupported_body_mode"]),
        (
            "nothing is said of modes",
            "",
            vec![Sent::get("/", &[]).source("192.0.2.7:1234")],
            &["no_protocol_config"],
        ),
        (
            "nothing is said of the client",
            "",
            vec![Sent::get("/", &[]).modes("NONE", "NONE")],
            &["no_client_address"],
        ),
    ] {
        let service = Service::start(config, &format!("{RULES}\n{OF_RESPONSES}")).await;
        let mut stream = Stream::open(service.channel().await).await.unwrap();
        for sent in &steps {
            stream.send(sent).await;
            if !name.starts_with("observed") {
                stream.answer().await;
            }
        }
        if name.starts_with("observed") {
            stream.send(&Sent::End).await;
            assert_eq!(stream.answer().await, "end");
        }
        drop(stream);
        counted(&service, "glacis_streams_open 0").await;
        let (_, metrics) = get(service.admin, "/metrics").await;
        for kind in KINDS {
            let count = usize::from(alarms.contains(&kind));
            let line = format!("glacis_alarms_total{{kind=\"{kind}\"}} {count}\n");
            assert!(metrics.contains(&line), "{name}: no {line} in\n{metrics}");
        }
    }
}

/// One body that does not come may be a client that went away; three in a row are no accident, where none has ever come.
/// Afterwards it takes three clients: one that hangs up again and again says nothing about Envoy.
#[tokio::test]
async fn bodies_that_never_come() {
    let service = Service::start("", RULES).await;
    let alarms =
        |count: u32| format!("glacis_alarms_total{{kind=\"mode_override_ignored\"}} {count}");
    for (client, comes, count) in [
        (1, false, 0),
        (1, false, 0),
        (1, true, 0),
        (1, false, 0),
        (1, false, 0),
        (1, false, 0),
        (1, false, 0),
        (2, false, 0),
        (3, false, 1),
        (3, false, 2),
        (1, true, 2),
        (4, false, 2),
    ] {
        let source = format!("192.0.2.{client}:1234");
        let mut stream = Stream::open(service.channel().await).await.unwrap();
        stream.send(&good(Sent::post("/", &[FORM])).source(&source)).await;
        stream.answer().await;
        if comes {
            stream.send(&Sent::body("a=b", true)).await;
            stream.answer().await;
        }
        drop(stream);
        counted(&service, "glacis_streams_open 0").await;
        counted(&service, &alarms(count)).await;
    }
}
