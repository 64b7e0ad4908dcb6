//! Bodies that are announced and held back. The headers alone suffice for a refusal, and a client that sends no more
//! has it before it would have to send any of the body.

use std::time::Duration;

use glacis_tests::frames::{Connection, Frame, fields};
use glacis_tests::http;
use glacis_tests::stack::Stack;

use super::ROUTES;
use super::requests::PAUSE;
use crate::support::{client, native, shared};

/// Long before any timeout of Envoy's, and longer than a busy machine takes.
const PATIENCE: Duration = Duration::from_secs(10);

const ATTACK: &str = "/cart?id=1'+union+select+password+from+users--";

fn headers(method: &str, path: &str, route: &str) -> String {
    format!("{method} {route}{path} HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: Mozilla/5.0\r\n")
}

#[test]
fn an_attack_in_the_headers_is_refused_without_the_body() {
    an_attack_is_refused_without_the_body(shared());
}

#[test]
fn an_attack_in_the_headers_is_refused_without_the_body_natively() {
    an_attack_is_refused_without_the_body(native());
}

fn an_attack_is_refused_without_the_body(stack: &Stack) {
    for route in ROUTES {
        for announced in ["Content-Length: 100", "Transfer-Encoding: chunked"] {
            let form = "Content-Type: application/x-www-form-urlencoded";
            let head = headers("POST", ATTACK, route);
            let head = format!("{head}Accept: */*\r\n{form}\r\n{announced}\r\n\r\n");
            for begun in ["", "5\r\na=b&c\r\n"] {
                let mut connection = http::Connection::open(Some(client()), stack.proxy()).unwrap();
                connection.set_patience(PATIENCE).unwrap();
                let answer = connection.exchange(format!("{head}{begun}").as_bytes(), "POST");
                let status = answer.map(|answer| answer.status);
                assert_eq!(status.ok(), Some(403), "{route:?}, {announced}, {begun:?}");
            }
        }
        let path = format!("{route}{ATTACK}");
        let head = fields("POST", &path, &[("content-type", "application/json")]);
        let mut connection = Connection::open(client(), stack.proxy()).unwrap();
        let stream = connection
            .begin(&[Frame::Headers { fields: head, pieces: 1, end_stream: false }])
            .unwrap();
        let (answered, answer) = connection.next_answer(PATIENCE).unwrap().expect("an answer");
        assert_eq!((answered, answer.status), (stream, 403), "{route:?}, over HTTP/2");
    }
}

/// A harmless request is waited for, and an attack in a body that comes late is refused.
#[test]
fn a_late_body_is_waited_for() {
    late_bodies_are_waited_for(shared());
}

#[test]
fn a_late_body_is_waited_for_natively() {
    late_bodies_are_waited_for(native());
}

fn late_bodies_are_waited_for(stack: &Stack) {
    for route in ROUTES {
        for (body, expected) in [("a=b&c=d", 200), ("a=1'+union+select+password+from+users--", 403)]
        {
            let head = headers("POST", "/cart?id=1", route);
            let form = "Content-Type: application/x-www-form-urlencoded";
            let head =
                format!("{head}Accept: */*\r\n{form}\r\nContent-Length: {}\r\n\r\n", body.len());
            let mut connection = http::Connection::open(Some(client()), stack.proxy()).unwrap();
            connection.set_patience(PATIENCE).unwrap();
            connection.write(head.as_bytes()).unwrap();
            // Longer than the headers are waited for.
            std::thread::sleep(4 * PAUSE);
            let answer = connection.exchange(body.as_bytes(), "POST").unwrap();
            assert_eq!(answer.status, expected, "{route:?}, {body}");
        }
    }
}
