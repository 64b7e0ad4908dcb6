//! A document learned from half of the traffic accepts the other half, and refuses requests that were changed.

use glacis_engine::{ApiBody, ApiRequest};
use glacis_openapi::{ApiLearner, Document, LearnOptions, LearnedApi, Recorded};

struct Sent {
    client: String,
    method: &'static str,
    target: String,
    body: String,
}

const JSON: &[(&[u8], &[u8])] = &[(b"content-type", b"application/json")];

/// The traffic of a shop: request `number`, the same each time.
fn sent(number: usize) -> Sent {
    let uuid = format!("{number:08x}-0000-4000-8000-000000000000");
    let states = ["open", "paid", "sent"];
    let state = states.get(number / 7 % 3).copied().unwrap_or_default();
    let (method, target, body) = match number % 7 {
        0 => ("GET", format!("/shop/items/{}", 100 + number), String::new()),
        1 => ("GET", format!("/shop/items?page={}&sort={state}", number % 5), String::new()),
        2 => (
            "PUT",
            format!("/shop/carts/{uuid}/lines/{number}"),
            format!("{{\"count\": {}, \"gift\": true}}", number % 9),
        ),
        3 => {
            let note = if number.is_multiple_of(2) { ", \"note\": \"a\"" } else { "" };
            (
                "POST",
                "/shop/orders".to_owned(),
                format!(
                    "{{\"state\": \"{state}\", \"total\": {number}.5, \"tags\": [\"x\"]{note}}}"
                ),
            )
        }
        4 => ("GET", format!("/shop/orders/{number}"), String::new()),
        5 => ("GET", format!("/report/2026-01-{:02}", number % 28 + 1), String::new()),
        _ => ("DELETE", format!("/shop/carts/{uuid}"), String::new()),
    };
    Sent { client: format!("192.0.2.{}", number % 11), method, target, body }
}

fn observe(learner: &mut ApiLearner, sent: &Sent) {
    learner.observe(&Recorded {
        client: &sent.client,
        method: sent.method.as_bytes(),
        target: sent.target.as_bytes(),
        headers: JSON,
        body: sent.body.as_bytes(),
    });
}

fn learned(numbers: impl Iterator<Item = usize>, more: &[Sent]) -> LearnedApi {
    let mut learner = ApiLearner::new(LearnOptions::default());
    numbers.for_each(|number| observe(&mut learner, &sent(number)));
    more.iter().for_each(|sent| observe(&mut learner, sent));
    learner.learn()
}

fn findings(document: &Document, sent: &Sent) -> Vec<String> {
    let found = document.findings(&ApiRequest {
        method: sent.method.as_bytes(),
        target: sent.target.as_bytes(),
        headers: JSON,
        body: ApiBody::Whole(sent.body.as_bytes()),
        parts: None,
    });
    found.iter().map(|finding| format!("{}: {}", finding.kind.name(), finding.message)).collect()
}

const HALF: usize = 700;

#[test]
fn the_other_half_of_the_traffic_is_accepted() {
    let learned = learned(0..HALF, &[]);
    assert_eq!((learned.requests, learned.left_out, learned.operations), (700, 0, 7));
    let text = learned.yaml();
    let document = Document::compile(text.as_bytes(), None).expect("the document is valid");
    for number in HALF..2 * HALF {
        let sent = sent(number);
        assert_eq!(findings(&document, &sent), [""; 0], "{} {}\n{text}", sent.method, sent.target);
    }
}

#[test]
fn changed_requests_are_refused() {
    let text = learned(0..HALF, &[]).yaml();
    let document = Document::compile(text.as_bytes(), None).expect("the document is valid");
    for (method, target, body, expected) in [
        ("GET", "/shop/items?page=1&sort=open&debug=1", "", "unknown_parameter: query debug"),
        ("GET", "/shop/items?page=x&sort=open", "", "parameter: query page"),
        ("GET", "/shop/items?page=1&sort=union", "", "parameter: query sort"),
        ("GET", "/shop/items?page=1", "", "parameter: query sort: it is missing"),
        ("GET", "/shop/items/x", "", "parameter: path p1"),
        ("GET", "/shop/admin", "", "unknown_path"),
        ("PATCH", "/shop/orders", "", "method: PATCH"),
        ("GET", "/report/2026-13-45", "", "parameter: path p1"),
        (
            "POST",
            "/shop/orders",
            "{\"state\": \"open\", \"total\": 1, \"tags\": [], \"admin\": true}",
            "body: body",
        ),
        (
            "POST",
            "/shop/orders",
            "{\"state\": \"open\", \"total\": \"1\", \"tags\": []}",
            "body: body /total",
        ),
        ("POST", "/shop/orders", "{\"state\": \"open\", \"total\": 1}", "body: body: \"tags\""),
        ("POST", "/shop/orders", "", "body: the body is missing"),
    ] {
        let sent = Sent {
            client: String::new(),
            method,
            target: target.to_owned(),
            body: body.to_owned(),
        };
        let found = findings(&document, &sent);
        let is_found = found.iter().any(|text| text.starts_with(expected));
        assert!(is_found, "{method} {target} {body}: {found:?}\n{text}");
    }
}

#[test]
fn the_order_of_requests_makes_no_difference() {
    assert_eq!(learned(0..HALF, &[]).yaml(), learned((0..HALF).rev(), &[]).yaml());
}

#[test]
fn one_client_declares_nothing() {
    let request = |client: &str, target: &str, body: &str| Sent {
        client: client.to_owned(),
        method: if body.is_empty() { "GET" } else { "POST" },
        target: target.to_owned(),
        body: body.to_owned(),
    };
    let mut poison = Vec::new();
    for _ in 0..50 {
        poison.push(request("198.51.100.1", "/shop/admin", ""));
        poison.push(request("198.51.100.1", "/shop/items?page=1&sort=open&debug=1", ""));
        poison.push(request(
            "198.51.100.1",
            "/shop/orders",
            "{\"state\": \"open\", \"total\": 1, \"tags\": [], \"admin\": 1}",
        ));
    }
    let text = learned(0..HALF, &poison).yaml();
    assert!(!text.contains("admin") && !text.contains("debug"), "{text}");
    // Two requests of many clients are too few, and three of two are enough.
    let few = |count: usize| {
        let more: Vec<Sent> =
            (0..count).map(|at| request(&format!("198.51.100.{at}"), "/shop/new", "")).collect();
        learned(0..HALF, &more).yaml().contains("/shop/new")
    };
    assert_eq!([few(2), few(3)], [false, true]);
}

#[test]
fn ambiguous_requests_are_left_out() {
    let odd = ["/a//b", "/a/../b", "/a%2fb", "/a?b=%zz", "/a;b", "a", "/%ff"];
    let more: Vec<Sent> = odd
        .iter()
        .flat_map(|target| (0..3).map(move |client| (*target, client)))
        .map(|(target, client)| Sent {
            client: client.to_string(),
            method: "GET",
            target: target.to_owned(),
            body: String::new(),
        })
        .collect();
    let learned = learned(0..0, &more);
    assert_eq!((learned.requests, learned.left_out), (0, 21));
}
