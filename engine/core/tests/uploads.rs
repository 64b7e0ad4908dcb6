//! What is said of uploaded files.

#![allow(clippy::expect_used, reason = "tests may fail loudly")]

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use glacis_engine::{Endpoint, Input, Limits, NoFiles, Program, Start, Transaction};

const BODY: &str = "--b\r\n\
    Content-Disposition: form-data; name=\"one\"; filename=\"a.txt\"; filename*=UTF-8''other.txt\r\n\r\n\
    first\r\n\
    --b\r\n\
    Content-Disposition: form-data; name=\"two\"; filename=\"b.txt\"\r\n\r\n\
    2\r\n\
    --b--\r\n";

/// A second name of a file takes neither the place nor the size of the next file.
#[test]
fn each_file_has_its_own_name_and_size() {
    let text =
        "SecRuleEngine On\nSecRequestBodyAccess On\nSecRule FILES \"@rx .\" \"id:1,phase:2,pass\"";
    let rules = Input::Text { name: "rules".into(), text: text.into() };
    let program = Program::build(&[rules], &NoFiles, Limits::default()).expect("rules");
    let mut transaction = Transaction::new(Arc::new(program));
    let endpoint = Endpoint { address: Ipv4Addr::LOCALHOST.into(), port: 1 };
    transaction.start(&Start {
        unique_id: "1",
        time: Duration::ZERO,
        client: endpoint,
        server: endpoint,
    });
    transaction.request_line(b"POST", b"/", b"HTTP/1.1");
    transaction.request_header(b"content-type", b"multipart/form-data; boundary=b");
    transaction.evaluate_request_headers();
    transaction.request_body(BODY.as_bytes());
    transaction.evaluate_request_body();
    let told: Vec<_> = transaction
        .uploads()
        .map(|file| [file.field, file.file_name, file.size].map(String::from_utf8_lossy))
        .collect();
    assert_eq!(told, [["one", "a.txt", "5"], ["two", "b.txt", "1"]]);
}
