//! Forms, without files.

use super::{Recorder, check};
use crate::body::{BodyScratch, Processor, urlencoded};

#[track_caller]
fn form(body: impl AsRef<[u8]>, expected: &[&str]) {
    check(Processor::UrlEncoded, "", body, expected);
}

#[test]
fn arguments() {
    form("a=1&b=2", &["a a=1", "a b=2"]);
    form("a", &["a a="]);
    form("a=", &["a a="]);
    form("=v", &["a =v"]);
    form("=", &["a ="]);
    form("&&a=1&&&b&", &["a a=1", "a b="]);
    form("a=b=c", &["a a=b=c"]);
    form("a=1&a=2", &["a a=1", "a a=2"]);
    form("a+b=c+d", &["a a b=c d"]);
    form("%61%2b=%26%3d+%2B", &["a a+=&= +"]);
    form("a=%00b\0", &["a a=\\x00b\\x00"]);
    form("a=%e2%82%AC", &["a a=\\xe2\\x82\\xac"]);
    form("a=%4", &["a a=%4", "%"]);
    form("a=%", &["a a=%", "%"]);
    form("%zz=%g1%41%%41", &["a %zz=%g1A%A", "%"]);
    form("a=%2541", &["a a=%41"]);
    form("a=1;b=2", &["a a=1;b=2"]);
    form("a=1\r\n", &["a a=1\\r\\n"]);
}

#[test]
fn another_separator() {
    let mut sink = Recorder::new(9);
    urlencoded::parse(b"a=1;b=2&c", b';', &mut BodyScratch::default(), &mut sink);
    assert_eq!(sink.text, "a a=1\na b=2&c\n");
}
