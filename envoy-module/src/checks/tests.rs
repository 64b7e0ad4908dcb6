//! What the module makes of configurations and answers.

use super::*;
use glacis_inspector::Header;

#[test]
fn configurations_that_are_refused() {
    for (text, words) in [
        ("", "$: there is no configuration"),
        (r#"{"crs": "/etc/crs"}"#, "crs: there is no such field"),
        (r#"{"first_verdict": {"seclang": ""}}"#, "first_verdict: the module gives no first"),
        (
            r#"{"rate_limits": [{"requests": 1, "name": "user", "key": [{"jwt_claim": "sub", "absent": "skip"}]}]}"#,
            "the limit \"user\" has a key in metadata below",
        ),
    ] {
        let refused = read(text.as_bytes()).unwrap_err();
        assert!(refused.contains(words), "{text}: {refused}");
    }
    let flat = r#"{"rate_limits": [{"requests": 1, "key": [{"metadata": ["a", "b"], "absent": "skip"}]}]}"#;
    assert!(read(flat.as_bytes()).is_ok());
    let long = " ".repeat(CONFIG_BYTES_MAX - 1) + "{}";
    assert!(read(long.as_bytes()).unwrap_err().contains("it has more than 8388608 bytes"));
    assert!(read(&long.as_bytes()[1..]).is_ok());
}

fn header<'h>(name: &'h str, value: &'h str) -> Header<'h> {
    Header { name: name.as_bytes(), value: value.as_bytes() }
}

/// Headers and body of an answer, and the message in it.
type Answer<'h> = (Vec<Header<'h>>, &'h [&'h [u8]], Option<&'h [u8]>);

/// Messages of gRPC as answers have them, in pieces of any size.
#[test]
fn messages_of_lenders() {
    let ok = || vec![header(":status", "200")];
    let failed = || vec![header(":status", "200"), header("grpc-status", "14")];
    let rows: [Answer<'_>; 9] = [
        (ok(), &[b"\0\0\0\0\x02ab"], Some(b"ab")),
        (ok(), &[b"\0\0", b"\0\0\x02", b"a", b"b"], Some(b"ab")),
        (ok(), &[b"\0\0\0\0\0"], Some(b"")),
        (ok(), &[b"\0\0\0\0\x03ab"], None),
        (ok(), &[b"\0\0\0\0\x01ab"], None),
        (ok(), &[b"\x01\0\0\0\x02ab"], None),
        (ok(), &[b"\0\0\0"], None),
        (failed(), &[b"\0\0\0\0\x02ab"], None),
        (Vec::new(), &[], None),
    ];
    for (headers, body, expected) in rows {
        let called = Called { number: 1, headers, body: body.to_vec() };
        assert_eq!(message(&called).as_deref(), expected, "{called:?}");
    }
    // As long as an answer may be, and one more.
    for (bytes, is_read) in
        [(LEASE_RESPONSE_BYTES_MAX, true), (LEASE_RESPONSE_BYTES_MAX + 1, false)]
    {
        let length = u32::try_from(bytes).unwrap().to_be_bytes();
        let body = [&[0], &length[..], &vec![7; bytes]].concat();
        let called = Called { number: 1, headers: ok(), body: vec![&body] };
        assert_eq!(message(&called).is_some(), is_read);
    }
}

#[test]
fn answers_of_list_servers() {
    let headers = vec![header(":status", "200"), header("etag", "a"), header("repr-digest", "b")];
    let piece = vec![b'x'; BODY_BYTES_MAX];
    for (more, is_read) in [(&b""[..], true), (b"x", false)] {
        let headers = headers.clone();
        let found = response(&Called { number: 1, headers, body: vec![&piece, more] });
        assert_eq!(found.body.is_some(), is_read);
        assert_eq!((found.status, found.etag), (b"200".to_vec(), b"a".to_vec()));
        assert_eq!(found.digest, b"b");
    }
    let none = response(&Called { number: 1, headers: Vec::new(), body: Vec::new() });
    assert_eq!((none.status, none.body), (Vec::new(), Some(Vec::new())));
}
