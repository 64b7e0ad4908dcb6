//! What a transaction that was used before allocates: nothing, for a clean GET with the whole of CRS.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it; `GLACIS_CRS_DIR` names another one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::{net::Ipv4Addr, path::PathBuf, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, Program, Start, Transaction};
use glacis_rules::FileSource;

/// What is built while requests are evaluated is built within bounds for each transaction.
const WARM_UP_PASSES: usize = 50;

const BROWSER: &[(&str, &str)] = &[
    ("Host", "shop.example.com"),
    ("Connection", "keep-alive"),
    ("sec-ch-ua", "\"Chromium\";v=\"128\", \"Not;A=Brand\";v=\"24\""),
    ("sec-ch-ua-mobile", "?0"),
    ("sec-ch-ua-platform", "\"Linux\""),
    ("Upgrade-Insecure-Requests", "1"),
    (
        "User-Agent",
        "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/128.0.0.0 \
         Safari/537.36",
    ),
    (
        "Accept",
        "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
    ),
    ("Sec-Fetch-Site", "same-origin"),
    ("Sec-Fetch-Mode", "navigate"),
    ("Sec-Fetch-Dest", "document"),
    ("Referer", "https://shop.example.com/category/candles?page=2"),
    ("Accept-Encoding", "gzip, deflate, br, zstd"),
    ("Accept-Language", "en-GB,en;q=0.9,de;q=0.8"),
    ("Cookie", "session=8f1c7a52e0b94d6d; theme=dark; _ga=GA1.2.1173.1700000000"),
];

const FORM: &[(&str, &str)] = &[("Content-Type", "application/x-www-form-urlencoded")];
const JSON: &[(&str, &str)] = &[("Content-Type", "application/json")];

struct Row {
    uri: &'static str,
    /// Headers beside those of a browser, and a body: the request is a POST then.
    post: Option<(&'static [(&'static str, &'static str)], &'static str)>,
    /// How often memory is asked for, at most.
    allocations: u64,
}

const ROWS: &[Row] = &[
    Row { uri: "/", post: None, allocations: 0 },
    Row { uri: "/products/marble-lamp-8310", post: None, allocations: 0 },
    Row { uri: "/assets/css/copper-8983.a31e9dda.css", post: None, allocations: 0 },
    Row { uri: "/search?q=dark+green+lamp&size=xl&page=16", post: None, allocations: 0 },
    Row { uri: "/search?q=caf%C3%A9%20au%20lait&ref=home", post: None, allocations: 0 },
    Row {
        uri: "/account/login",
        post: Some((FORM, "username=jo.doe%40example.org&password=x8Qm2LpzR4&next=%2Faccount")),
        allocations: 0,
    },
    Row {
        uri: "/api/v2/orders",
        post: Some((JSON, r#"{"items":[{"sku":"a-1","quantity":2,"note":"a gift"}],"total":17}"#)),
        allocations: 0,
    },
];

fn program() -> Arc<Program> {
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.fetched/crs-4.25.0");
    let crs = std::env::var_os("GLACIS_CRS_DIR").map_or(fetched, PathBuf::from);
    let found = glacis_rules::crs(&crs);
    let mut inputs = found.unwrap_or_else(|error| panic!("{error}: run `cargo xtask fetch`"));
    inputs.push(Input::Text { name: "on.conf".to_owned(), text: "SecRuleEngine On".to_owned() });
    Arc::new(Program::build(&inputs, &FileSource::new(), Limits::default()).unwrap())
}

fn inspect(transaction: &mut Transaction, row: &Row) {
    let endpoint = Endpoint { address: Ipv4Addr::new(192, 0, 2, 10).into(), port: 40_001 };
    let time = Duration::from_secs(1_795_000_000);
    transaction.start(&Start { unique_id: "warm", time, client: endpoint, server: endpoint });
    let method: &[u8] = if row.post.is_some() { b"POST" } else { b"GET" };
    transaction.request_line(method, row.uri.as_bytes(), b"HTTP/1.1");
    let more = row.post.map_or(&[][..], |(headers, _)| headers);
    for (name, value) in BROWSER.iter().chain(more) {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    if let Some((_, body)) = row.post {
        let mut digits = [0; 20];
        transaction.request_header(b"Content-Length", decimal(body.len(), &mut digits));
        transaction.evaluate_request_headers();
        transaction.request_body(body.as_bytes());
    } else {
        transaction.evaluate_request_headers();
    }
    transaction.evaluate_request_body();
    transaction.finish(time);
}

/// Without an allocation of its own.
fn decimal(mut number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    while at > 0 && (number > 0 || at == digits.len()) {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap();
        number /= 10;
    }
    &digits[at..]
}

#[test]
fn a_used_transaction_allocates_nothing_for_an_ordinary_request() {
    let mut transaction = Transaction::new(program());
    for _ in 0..WARM_UP_PASSES {
        ROWS.iter().for_each(|row| inspect(&mut transaction, row));
    }
    let mut over = Vec::new();
    for row in ROWS {
        let counted = allocation_counter::measure(|| inspect(&mut transaction, row));
        // That it was inspected: CRS was asked, and let it through.
        assert!(transaction.verdict().refusal().is_none(), "{}", row.uri);
        assert!(transaction.rule_steps() > 100, "{}: {}", row.uri, transaction.rule_steps());
        if counted.count_total > row.allocations {
            let (count, bytes) = (counted.count_total, counted.bytes_total);
            over.push(format!("{}: {count} allocations of {bytes} bytes", row.uri));
        }
    }
    assert!(over.is_empty(), "{}", over.join("\n"));
}

/// The counter counts: without this, the test above could not fail.
#[test]
fn a_new_transaction_does_allocate() {
    let program = program();
    let counted = allocation_counter::measure(|| {
        inspect(&mut Transaction::new(Arc::clone(&program)), &ROWS[0]);
    });
    assert!(counted.count_total > 0);
}
