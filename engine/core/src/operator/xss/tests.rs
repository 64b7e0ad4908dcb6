//! Values that run script somewhere, and their harmless neighbours.

use libinjectionrs::XssDetector;
use libinjectionrs::xss::Html5Flags;

use super::{
    HARMFUL_ATTRIBUTES, INDIRECT_ATTRIBUTES, Reader, STARTS, State, TAGS, URL_ATTRIBUTES, detect,
    read, runs_script,
};
use crate::xorshift::Xorshift;

#[track_caller]
fn check(value: impl AsRef<[u8]>, runs_script: bool) {
    let value = value.as_ref();
    assert_eq!(detect(value), runs_script, "{}", value.escape_ascii());
}

#[test]
fn tags() {
    check("<script>alert(1)</script>", true);
    check("<SCRIPT", true);
    check(b"<s\0cript>", true);
    check("</script>", false);
    check("</script x", true);
    check("<svg/onload=alert(1)>", true);
    check(b"<s\0vg>", false);
    check("<SVGx>", true);
    check("<sv>", false);
    check("<xslt>", true);
    check("<b><script>", true);
    check("<b x=y><script>", true);
    check("<xsl:x>", true);
    check("<xml>", true);
    check("<b>", false);
    check("<<script>", true);
    check("</ ><script>", true);
    check("</><script>", true);
    check("a < b > c", false);
    check("<!doctype>", true);
}

#[test]
fn attributes() {
    check("onload=1", true);
    check("ONLOAD[=!%", true);
    check("oncut=1", true);
    check("onwebkitplaybacktargetavailabilitychanged=1", true);
    check("onload", false);
    check("online=1", false);
    check("one=1", false);
    check("xmlnsx=1", true);
    check(b"xmlns\0x=hp", false);
    check("xlink:href=1", true);
    check("style=1", true);
    check(b"style\0=1", true);
    check("datasrc=1", true);
    check("<b //// onload=1>", true);
    check(b"<b \xff onload=1>", false);
    check("<a attributename=onload>", true);
    check("<a attributename=x>", false);
}

#[test]
fn places() {
    check("' style=1", true);
    check("\" style=1", true);
    check("` style=1", true);
    check("x=1 src='vbscript:'", true);
}

#[test]
fn urls() {
    check("<a href=x>", false);
    check("<a href=javascript:1>", true);
    check("<a href=\"  java&#x73;cript:1\">", true);
    check("<a href='&#106&#97;va'>", true);
    check("<a href=&#x16a;ava>", false);
    check("<a href=\"data:x\">", true);
    check("<a href=view-source:x>", true);
    check("<a href=dat>", false);
    check("folder=java", true);
    check(b"\xfffoo href=java", false);
    check(b"<a href=\"\x7f\xff\x01java\">", true);
    check("<a href=!java>", false);
    check("<a href=~java>", false);
    check("<a href=&#32;&#0;java>", true);
    check("<a href=&#33;java>", false);
    check("<a href=j&#10;a&#0;va>", true);
    check("<a href=j&#32;ava>", false);
    check("<a href=j&#9;ava>", false);
    check("<a href=&#X6A;ava>", true);
    check("<a href=&#x6aava>", false);
    check("<a href=&#106;;ava>", false);
    check("<a href=&#x14a;ava>", true);
    check("<a href=&#x10004a;ava>", true);
    check("<a href=&#x10014a;ava>", false);
    check("<a href=&#;java>", false);
    check("<a href=&#x;java>", false);
    check("<a href=&java>", false);
}

#[test]
fn comments() {
    check("<!-- x -->", false);
    check("<!-- `x -->", true);
    check("</ `>", true);
    check("<!--[if x]-->", true);
    check("<!--[if-->", false);
    check("<!--[i x]-->", false);
    check("<!xml>", false);
    check("<!xmlx>", true);
    check("<!import>", true);
    check("<!impor x>", false);
    check("<!entity>", true);
    check("<!entit y>", false);
    check("<!-- x --!><script>", true);
    check(b"<!-- x -\0-><script>", true);
    check("<!-- x -!><script>", true);
    check("<?xml x>", true);
    check("<?import x>", true);
    check("<!ENTITY x>", true);
    check("<% ` %>", true);
    check("<![CDATA[<script>]]>", false);
    check("<![CDATA[x]]><script>", true);
}

#[test]
fn harmless() {
    check("", false);
    check("hello", false);
    check("1 < 2 and 3 > 2", false);
}

/// A name, its beginnings, and the name with a letter left out, changed, doubled, or put behind it.
pub(super) fn near(name: &[u8]) -> Vec<Vec<u8>> {
    let mut near = vec![name.to_vec()];
    for at in 0..name.len() {
        let (before, behind) = name.split_at(at);
        let changed = if behind[0] == b'z' { b'a' } else { behind[0] + 1 };
        near.push(before.to_vec());
        near.push([before, &behind[1..]].concat());
        near.push([before, &[changed], &behind[1..]].concat());
        near.push([before, &behind[..1], behind].concat());
    }
    near.extend((b'a'..=b'z').map(|letter| [name, &[letter]].concat()));
    near
}

/// The crate `libinjectionrs` judges tags and attributes of these names alike. Events have a test of their
/// own: the crate knows none with something behind it.
#[test]
fn names_are_those_of_the_crate() {
    let compare = |word: &[u8]| {
        let shown = word.escape_ascii();
        let tag = [b"<", word, b">"].concat();
        let known = XssDetector::is_xss(&tag, Html5Flags::DataState);
        assert_eq!(runs_script(&tag, State::Data), known, "<{shown}>");
        if !word.starts_with(b"on") {
            for value in [&b"=x"[..], b"=java", b"=style"] {
                let attribute = [word, value].concat();
                let known = XssDetector::is_xss(&attribute, Html5Flags::ValueNoQuote);
                let found = runs_script(&attribute, State::BeforeAttributeName);
                assert_eq!(found, known, "{}", attribute.escape_ascii());
            }
        }
    };
    for list in [TAGS, HARMFUL_ATTRIBUTES, URL_ATTRIBUTES, INDIRECT_ATTRIBUTES] {
        list.iter().flat_map(|name| near(name)).for_each(|word| compare(&word));
    }
    for first in b'a'..=b'z' {
        for second in b'a'..=b'z' {
            compare(&[first, second]);
            (b'a'..=b'z').for_each(|third| compare(&[first, second, third]));
        }
    }
}

/// What is passed over without being read would not have been found to run script.
#[test]
fn without_tag_and_value_nothing_runs() {
    const PIECES: &[&str] = &[
        "on",
        "onload",
        "style",
        "href",
        "javascript:",
        "script",
        "svg",
        "data:",
        "x",
        " ",
        "\'",
        "\"",
        "`",
        ">",
        "/",
        "!",
        "--",
        "&",
        "\0",
        "\n",
        "alert(1)",
    ];
    let mut random = Xorshift(0x1234_5678_9ABC_DEF1);
    for _ in 0..20_000 {
        let mut value = String::new();
        for _ in 0..8 {
            value += PIECES[random.below(PIECES.len())];
        }
        assert!(!read(value.as_bytes()), "{value:?}");
    }
}

/// Each token stands behind the one before, and seldom is one empty: so each byte is judged once.
#[track_caller]
fn reads_forward(value: &[u8]) {
    for start in STARTS {
        let mut reader = Reader::new(value, start);
        let (mut tokens, mut end) = (0, 0);
        while let Some(token) = reader.next_token() {
            assert!(token.start >= end, "{start:?} of {}", value.escape_ascii());
            end = token.start + token.len;
            tokens += 1;
        }
        assert!(tokens <= 2 * value.len() + 2, "{start:?} of {}", value.escape_ascii());
    }
}

/// Every input has an answer: pieces of HTML in random order, cut anywhere.
#[test]
fn is_total() {
    const PIECES: &[&[u8]] = &[
        b"<",
        b">",
        b"</",
        b"/",
        b"<!",
        b"<!--",
        b"-->",
        b"-",
        b"!",
        b"<?",
        b"<%",
        b"%>",
        b"<![CDATA[",
        b"]]>",
        b"<a ",
        b"<b",
        b"\0",
        b"=",
        b"'",
        b"\"",
        b"`",
        b" ",
        b"\n",
        b"\xff",
        b"href=",
        b"on",
        b"onx=",
        b"attributename=",
        b"&#",
        b"&#x",
        b"&#106",
        b";",
        b"ja",
        b"svg",
        b"scr",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut found = 0;
    for _ in 0..20_000 {
        let mut value = Vec::new();
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = usize::try_from(state >> 33).unwrap_or(0) % PIECES.len();
            value.extend_from_slice(PIECES[index]);
        }
        value.truncate(usize::try_from(state >> 40).unwrap_or(0) % (value.len() + 1));
        reads_forward(&value);
        found += usize::from(detect(&value));
    }
    assert!((1..20_000).contains(&found), "{found} of 20000");
}
