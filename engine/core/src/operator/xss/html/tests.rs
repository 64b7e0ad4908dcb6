//! Values, and the tokens that they are read as.

use super::{Kind, Reader, State};

/// Each token is its kind and its bytes.
#[track_caller]
fn check(start: State, value: &[u8], expected: &[&str]) {
    let mut reader = Reader::new(value, start);
    let mut tokens = Vec::new();
    while let Some(token) = reader.next_token() {
        let kind = match token.kind {
            Kind::AttributeName => "name",
            Kind::AttributeValue => "value",
            Kind::Comment => "comment",
            Kind::Doctype => "doctype",
            Kind::TagOpen => "tag",
            Kind::Other => "other",
        };
        let text = value[token.start..token.start + token.len].escape_ascii();
        tokens.push(format!("{kind} {text}"));
    }
    assert_eq!(tokens, expected, "{start:?} of {}", value.escape_ascii());
}

#[track_caller]
fn data(value: impl AsRef<[u8]>, expected: &[&str]) {
    check(State::Data, value.as_ref(), expected);
}

#[track_caller]
fn attributes(value: impl AsRef<[u8]>, expected: &[&str]) {
    check(State::BeforeAttributeName, value.as_ref(), expected);
}

#[track_caller]
fn quoted(value: impl AsRef<[u8]>, expected: &[&str]) {
    check(State::QuotedValue(b'\''), value.as_ref(), expected);
}

#[test]
fn text_and_tags() {
    data("", &[]);
    data("a", &["other a"]);
    data("<", &[]);
    data("<b", &["tag b"]);
    data("<b c", &["tag b", "name c"]);
    data("<b>", &["tag b", "other >"]);
    data("a<b>c<d>", &["other a", "tag b", "other >", "other c", "tag d", "other >"]);
    data("<<b", &["other ", "tag b"]);
    data("< b", &["other ", "other  b"]);
    data("<1>", &["other ", "other 1>"]);
    data("<a>", &["tag a", "other >"]);
    data("<z>", &["tag z", "other >"]);
    data("<A>", &["tag A", "other >"]);
    data("<Z>", &["tag Z", "other >"]);
    data("<@>", &["other ", "other @>"]);
    data("<[>", &["other ", "other [>"]);
    data("<`>", &["other ", "other `>"]);
    data("<{>", &["other ", "other {>"]);
    data(b"<b\x00c>", &["tag b\\x00c", "other >"]);
    data(b"<\x00b>", &["tag \\x00b", "other >"]);
    data(b"<b\x0bc>", &["tag b", "name c", "other >"]);
    data("<b\tc=d>e", &["tag b", "name c", "value d", "other >", "other e"]);
    data("<b/", &["tag b"]);
    data("<b/c>", &["tag b", "name c", "other >"]);
    data("<b/ c", &["tag b", "name c"]);
    data("<b/>d", &["tag b", "other >", "other d"]);
}

#[test]
fn tags_that_end() {
    data("</", &[]);
    data("</b", &["tag b"]);
    data("</b>c", &["other b", "other c"]);
    data("</b c>d</e>", &["tag b", "name c", "other >", "other d", "other e"]);
    data("</b/c>d", &["tag b", "name c", "other >", "other d"]);
    data("</b></c>", &["other b", "other c"]);
    data("<b></c>", &["tag b", "other >", "other c"]);
    data("</b c><d>", &["tag b", "name c", "other >", "tag d", "other >"]);
    data("</>a<b>", &["other >a", "other b"]);
    data("</1><b>", &["comment 1", "tag b", "other >"]);
    data("</ a>b", &["comment  a", "other b"]);
    data("</!", &["comment !"]);
    data("</[><c>", &["comment [", "tag c", "other >"]);
}

#[test]
fn declarations() {
    data("<!", &["comment "]);
    data("<!doctype a>b", &["doctype doctype a", "other b"]);
    data("<!DOCTYPE", &["doctype DOCTYPE"]);
    data("<!doctyp>", &["comment doctyp"]);
    data("<!a>b", &["comment a", "other b"]);
    data("<!a", &["comment a"]);
    data("<!>b", &["comment ", "other b"]);
    data("<?a>b", &["comment a", "other b"]);
    data("<?a", &["comment a"]);
    data("<%a%>b", &["comment a", "other b"]);
    data("<%a>", &["comment a>"]);
    data("<![CDATA[a]]>b", &["other a", "other b"]);
    data("<![CDATA[a]]", &["other a]]"]);
    data("<![cdata[a]]>b", &["comment [cdata[a]]", "other b"]);
    data("<!-a>b", &["comment -a", "other b"]);
}

#[test]
fn comments() {
    data("<!--", &["comment "]);
    data("<!--a", &["comment a"]);
    data("<!--a-->b", &["comment a", "other b"]);
    data("<!--a--!>b", &["comment a-", "other b"]);
    data("<!--a-!>b", &["comment a", "other b"]);
    data("<!--a--->b", &["comment a-", "other b"]);
    data("<!--a->b", &["comment a->b"]);
    data("<!--a--b-->c", &["comment a--b", "other c"]);
    data("<!-->b", &["comment >b"]);
    data("<!--->b", &["comment ->b"]);
    data("<!---->b", &["comment ", "other b"]);
    data("<!--a--", &["comment a--"]);
    data("<!--a-!", &["comment a-!"]);
    data(b"<!--a-\x00", &["comment a-\\x00"]);
    data(b"<!--a-\x00\x00->b", &["comment a", "other b"]);
    data(b"<!--a-\x00!>b", &["comment a", "other b"]);
    data(b"<!--a-b\x00->c-->d", &["comment a-b\\x00->c", "other d"]);
}

#[test]
fn names_of_attributes() {
    attributes("", &[]);
    attributes("a", &["name a"]);
    attributes("a ", &["name a"]);
    attributes("a b", &["name a", "name b"]);
    attributes(b" \x00\t\n\x0b\x0c\ra", &["name a"]);
    attributes(b"\xffa", &[]);
    attributes(b"a \xffb", &["name a"]);
    attributes(">a", &["other >", "other a"]);
    attributes("/", &[]);
    attributes("/a", &["name a"]);
    attributes("//a", &["name a"]);
    attributes("/>a", &["other >", "other a"]);
    attributes("/ />a", &["other >", "other a"]);
    attributes("a/", &["name a"]);
    attributes("a/b", &["name a", "name b"]);
    attributes("a/>c", &["name a", "other >", "other c"]);
    attributes("a /", &["name a"]);
    attributes("a /b", &["name a", "name b"]);
    attributes("a />c", &["name a", "other >", "other c"]);
    attributes("a>b", &["name a", "other >", "other b"]);
    attributes("a >b<c>", &["name a", "other >", "other b", "tag c", "other >"]);
    attributes("=a=b", &["name =a", "value b"]);
}

#[test]
fn values_of_attributes() {
    attributes("a=", &["name a"]);
    attributes("a=b", &["name a", "value b"]);
    attributes("a =b", &["name a", "value b"]);
    attributes("a= b c", &["name a", "value b", "name c"]);
    attributes("a=b/c", &["name a", "value b/c"]);
    attributes("a=b>c", &["name a", "value b", "other >", "other c"]);
    attributes("a= >b", &["name a", "value ", "other >", "other b"]);
    attributes(b"a=\xff", &["name a"]);
    attributes("a='", &["name a", "value "]);
    attributes("a='b", &["name a", "value b"]);
    attributes("a='b'", &["name a", "value b"]);
    attributes("a='b'c", &["name a", "value b", "name c"]);
    attributes("a='b' c", &["name a", "value b", "name c"]);
    attributes("a='b'/", &["name a", "value b"]);
    attributes("a='b'/c", &["name a", "value b", "name c"]);
    attributes("a='b'/>c", &["name a", "value b", "other >", "other c"]);
    attributes("a='b'>c", &["name a", "value b", "other >", "other c"]);
    attributes("a=''b", &["name a", "value ", "name b"]);
    attributes("a=\"b'\"c", &["name a", "value b\\'", "name c"]);
    attributes("a=`b\"`c", &["name a", "value b\\\"", "name c"]);
    attributes("a=b'c d", &["name a", "value b\\'c", "name d"]);
}

#[test]
fn values_that_began_before() {
    quoted("", &["value "]);
    quoted("a", &["value a"]);
    quoted("'a", &["value ", "name a"]);
    quoted("a'b", &["value a", "name b"]);
    quoted("a'=b", &["value a", "name =b"]);
    quoted("a'>b", &["value a", "other >", "other b"]);
    quoted("a'/>b", &["value a", "other >", "other b"]);
    quoted("a\"'b", &["value a\\\"", "name b"]);
}
