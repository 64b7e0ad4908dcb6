//! Bodies of 10 MB through Envoy, in both hosts: benign ones reach the upstream, and an attack in the last kilobyte is
//! blocked. Neither host has a deadline here, since what a machine needs for a body is a matter of the machine.

use glacis_tests::http::Request;
use glacis_tests::stack::{Processor, Stack};

use crate::support::{Own, client};

const BYTES: usize = 10_000_000;
const ATTACK: &str = "1' UNION SELECT password FROM users -- ";

/// The wait for ext-proc in Envoy.
const PATIENCE: (&str, &str) = ("message_timeout: 1s", "message_timeout: 30s");

#[test]
fn json() {
    let keys = "deadline_ms: 0\noverload: {lag_ms: 60000}\n";
    let own = Own::start("large-json", Processor::ExtProcWith(keys), &[PATIENCE]);
    check(&own.0);
}

#[test]
fn json_natively() {
    let own = Own::native("large-json-native", &["deadline_ms: 0"], &[]);
    check(&own.0);
}

#[track_caller]
fn check(stack: &Stack) {
    let text = "Later that year many letters arrived at home with greetings of friends. ";
    let text = text.repeat(BYTES / text.len());
    for (last, status) in [("none", 200), (ATTACK, 403)] {
        let body = format!("{{\"id\":1,\"text\":\"{text}\",\"last\":\"{last}\"}}");
        let request = Request::post("/notes", "application/json", body).browser();
        let answer = stack.send(client(), &request).unwrap();
        assert_eq!(answer.status, status, "{last:?}: {:.300}", answer.text());
    }
}
