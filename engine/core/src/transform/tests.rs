//! Rows of name, input and result, and the laws that hold for all transformations.

mod stripped;

use super::{TABLE, Transformation};
use crate::{scan::ByteSet, xorshift::Xorshift};

/// Runs one row: the result, and that `apply` tells whether it differs from the input.
#[track_caller]
fn check(name: &str, input: impl AsRef<[u8]>, output: impl AsRef<[u8]>) {
    let (input, output) = (input.as_ref(), output.as_ref());
    let transformation = Transformation::from_name(name).expect("a known name");
    let mut out = b"left over".to_vec();
    let changed = transformation.apply(input, &mut out);
    let result = if changed { out.as_slice() } else { input };
    let shown = |bytes: &[u8]| bytes.escape_ascii().to_string();
    assert_eq!(shown(result), shown(output), "{name} of {}", shown(input));
    assert_eq!(changed, input != output, "{name} of {}", shown(input));
    assert!(changed || out.is_empty(), "{name} left bytes behind");
}

#[test]
fn base64() {
    check("base64Encode", "", "");
    check("base64Encode", "f", "Zg==");
    check("base64Encode", "fo", "Zm8=");
    check("base64Encode", "foo", "Zm9v");
    check("base64Encode", [0xfb, 0xff, 0xfe], "+//+");
    check("base64Decode", "Zm9vYmFy", "foobar");
    check("base64Decode", "Zm9vYg==", "foob");
    check("base64Decode", "Zm9vYmE=", "fooba");
    check("base64Decode", "Zm9v\r\nYmFy\n", "foobar");
    check("base64Decode", "Zm9v  ", "foo");
    check("base64Decode", "Zm9v YmFy", "");
    check("base64Decode", "Zm9v\rYmFy", "");
    check("base64Decode", "Zm9vYmE", "foo");
    check("base64Decode", "Zg==Zg==", "");
    check("base64Decode", "Zg===", "");
    check("base64Decode", "Zm9v!", "");
    check("base64Decode", "Zm9v\0!", "foo");
    check("base64Decode", [b'Z', b'm', 0xc3], "");
    check("base64DecodeExt", "Zm.9-v_Ym Fy", "foobar");
    check("base64DecodeExt", "Zm9vYmE", "fooba");
    check("base64DecodeExt", "Zm9vYg", "foob");
    check("base64DecodeExt", "Zm9v=Ym=Fy", "foobar");
    check("base64DecodeExt", "Zm9vY=", "");
    check("base64DecodeExt", "Zm9vY==", "");
    check("base64DecodeExt", "Zm9v9", "foo");
    check("base64DecodeExt", "!!", "");
}

#[test]
fn case() {
    check("lowercase", "already lower 1", "already lower 1");
    check("lowercase", "MiXeD\0[Z]@", "mixed\0[z]@");
    check("lowercase", "ÄÖ", "ÄÖ");
    check("uppercase", "MiXeD{z}`é", "MIXED{Z}`é");
}

#[test]
fn cmd_line() {
    check("cmdLine", "ls", "ls");
    check("cmdLine", "C^omMaNd /C DIR", "command/c dir");
    check("cmdLine", "\"c'm\\d\", ;\t/c  dir", "cmd/c dir");
    check("cmdLine", "echo (1)", "echo(1)");
    check("cmdLine", "a '\" /b", "a/b");
    check("cmdLine", " , ; ", " ");
    check("cmdLine", "a\rb\nc\x0bd", "a b c\x0bd");
    check("cmdLine", "a b", "a b");
    check("cmdLine", "//a", "//a");
}

#[test]
fn comments() {
    check("removeComments", "a/*b*/c", "ac");
    check("removeComments", "a<!--b-->c", "ac");
    check("removeComments", "a/*b-->c*/d", "ac*/d");
    check("removeComments", "a/*b", "a ");
    check("removeComments", "/*a*/", "\0");
    check("removeComments", "/*a*//*b*/", "/*b*/");
    check("removeComments", "a -- b", "a ");
    check("removeComments", "a # b", "a ");
    check("removeComments", "a - b / c < d", "a - b / c < d");
    check("removeComments", "<!-", "<!-");
    check("removeCommentsChar", "a/*b*/c<!--d-->e--f#g", "abcdefg");
    check("removeCommentsChar", "a-->b--->c", "ab->c");
    check("removeCommentsChar", "a-b/c*d<!-e", "a-b/c*d<!-e");
    check("removeCommentsChar", "/*/", "/");
    check("replaceComments", "a/*b*/c", "a c");
    check("replaceComments", "a/**/b/*c*/", "a b ");
    check("replaceComments", "a/*b", "a ");
    check("replaceComments", "/*/a*/b", " b");
    check("replaceComments", "a*/b<!--c-->", "a*/b<!--c-->");
}

#[test]
fn css_decode() {
    check("cssDecode", "plain", "plain");
    check("cssDecode", r"ja\vascript", "javascript");
    check("cssDecode", r"j\61vascript", "javascript");
    check("cssDecode", r"\6a \61v", "jav");
    check("cssDecode", r"\00006a  x", "j x");
    check("cssDecode", r"\6", b"\x06");
    check("cssDecode", r"\161x", "ax");
    check("cssDecode", r"\ff41\FF01\ff5f", b"a!_");
    check("cssDecode", r"\0ff41 \00ff41 \1ff41", b"aaA");
    check("cssDecode", r"\0061z", "az");
    check("cssDecode", r"\1234567", "V7");
    check("cssDecode", "a\\\nb", "ab");
    check("cssDecode", r"a\\b", r"a\b");
    check("cssDecode", r"a\", "a");
    check("cssDecode", "\\61\x0bb\\61\rb", "abab");
}

#[test]
fn digests() {
    check("md5", "", b"\xd4\x1d\x8c\xd9\x8f\x00\xb2\x04\xe9\x80\x09\x98\xec\xf8\x42\x7e");
    check("md5", "abc", b"\x90\x01\x50\x98\x3c\xd2\x4f\xb0\xd6\x96\x3f\x7d\x28\xe1\x7f\x72");
    check(
        "sha1",
        "abc",
        b"\xa9\x99\x3e\x36\x47\x06\x81\x6a\xba\x3e\x25\x71\x78\x50\xc2\x6c\x9c\xd0\xd8\x9d",
    );
    check("length", "", "0");
    check("length", "four", "4");
    check("length", vec![0; 1234], "1234");
    check("length", "1", "1");
}

#[test]
fn escape_seq_decode() {
    check("escapeSeqDecode", "plain", "plain");
    check("escapeSeqDecode", r#"\a\b\f\n\r\t\v\\\?\'\""#, b"\x07\x08\x0c\n\r\t\x0b\\?'\"");
    check("escapeSeqDecode", r"\x41\X42\x4", "ABx4");
    check("escapeSeqDecode", r"\xag", "xag");
    check("escapeSeqDecode", r"\0\60\1012\777\8", b"\x000A2\xff8");
    check("escapeSeqDecode", r"\q", "q");
    check("escapeSeqDecode", r"a\", r"a\");
}

#[test]
fn hex() {
    check("hexEncode", b"\x00a\xff", "0061ff");
    check("hexEncode", "", "");
    check("hexDecode", "0061fFe", b"\x00a\xff");
    check("hexDecode", "6", "");
    check("hexDecode", "zz", "S");
    check("sqlHexDecode", "0x414243", "ABC");
    check("sqlHexDecode", "a 0X4142 b 0x4", "a AB b 0x4");
    check("sqlHexDecode", "0x41420x43", "ABC");
    check("sqlHexDecode", "0x414", "A4");
    check("sqlHexDecode", "00x41", "0A");
    check("sqlHexDecode", "x41 0xzz 0x", "x41 0xzz 0x");
    check("sqlHexDecode", "xx0x41", "xxA");
}

#[test]
fn html_entity_decode() {
    check("htmlEntityDecode", "a & b", "a & b");
    check("htmlEntityDecode", "&lt;&GT;&amp;&quot;&nbsp;", b"<>&\"\xa0");
    check("htmlEntityDecode", "&lt script&gt", "< script>");
    check("htmlEntityDecode", "&#60;&#x3c;&#X3E&#62", "<<>>");
    check("htmlEntityDecode", "&#0000060;&#x000003c;", "<<");
    check("htmlEntityDecode", "&#x13c;&#316;", "<<");
    check("htmlEntityDecode", "&#99999999999999999999;", b"\xff");
    check("htmlEntityDecode", "&ltfoo;bar", "<bar");
    check("htmlEntityDecode", "&copy;&#;&#x;&#xg;&", "&copy;&#;&#x;&#xg;&");
    check("htmlEntityDecode", "&&lt;", "&<");
    check("htmlEntityDecode", "&#&#60;", "&#<");
    check("htmlEntityDecode", "&amp;lt;", "&lt;");
}

#[test]
fn js_decode() {
    check("jsDecode", "plain", "plain");
    check("jsDecode", r"\u0041\u1242\uFF21\uff5f", b"ABA_");
    check("jsDecode", r"\x41\u41\x4", "Au41x4");
    check("jsDecode", r"\101\1012\400\8\0", b"AA2\x2008\0");
    check("jsDecode", r"\377\78", b"\xff\x078");
    check("jsDecode", r#"\a\b\f\n\r\t\v\'\"\\\?"#, b"\x07\x08\x0c\n\r\t\x0b'\"\\?");
    check("jsDecode", r"\U0041\X41", "U0041X41");
    check("jsDecode", r"a\", r"a\");
}

#[test]
fn normalise_path() {
    check("normalisePath", "", "");
    check("normalisePath", "/a/b.html", "/a/b.html");
    check("normalisePath", "/a//b///c", "/a/b/c");
    check("normalisePath", "/a/./b/.", "/a/b");
    check("normalisePath", "/a/b/../c", "/a/c");
    check("normalisePath", "/a/../../../etc/passwd", "/etc/passwd");
    check("normalisePath", "/..", "");
    check("normalisePath", "/../", "/");
    check("normalisePath", "/.", "");
    check("normalisePath", "/a/b/..", "/a");
    check("normalisePath", "/a/b/../", "/a/");
    check("normalisePath", "..", "..");
    check("normalisePath", "./a", "a");
    check("normalisePath", "a/../..", "..");
    check("normalisePath", "../../a", "../../a");
    check("normalisePath", "a/..", "");
    check("normalisePath", "a/b/../../c/", "c/");
    check("normalisePath", "/a/b../c", "/a/c");
    check("normalisePath", "/a/.b/c.", "/a/.b/c.");
    check("normalisePath", "/a\\..\\b", "/a\\..\\b");
    check("normalisePath", "../a/..", "..");
    check("normalisePath", "../ab/..", "..");
    check("normalisePath", "../a/b/../..", "..");
    check("normalisePath", "a/../b/..", "b/..");
    check("normalisePath", "a/../bc/..", "");
    check("normalisePath", "../..//..", "../../..");
    check("normalisePath", "../../a/..", "../..");
    check("normalisePath", "/../a/..", "");
    check("normalisePath", "/../../a", "/a");
    check("normalisePath", "./..", "..");
    check("normalisePath", "./.", "");
    check("normalisePath", "././a", "a");
    check("normalisePath", "/./..", "");
    check("normalisePath", "a//", "a/");
    check("normalisePath", "//", "/");
    check("normalisePath", "///", "/");
    check("normalisePath", "//a", "/a");
    check("normalisePath", "a/.", "a");
    check("normalisePath", "a/./", "a/");
    check("normalisePath", "a/b/./", "a/b/");
    check("normalisePath", "a//../b", "b");
    check("normalisePath", "..//a", "../a");
    check("normalisePath", ".//a", "a");
    check("normalisePath", "a/..//b", "b");
    check("normalisePath", ".", "");
    check("normalisePath", "a/../.", "");
    check("normalisePath", "/", "/");
    check("normalisePath", "/./", "/");
    check("normalisePath", "ab/cd/..", "ab");
    check("normalisePath", "a/b/../", "a/");
    check("normalisePath", "/.../a", "/a");
    check("normalisePath", "a/...", "a");
    check("normalisePath", "a../b", "a../b");
    check("normalisePath", "ab../c", "c");
    check("normalisePath", "a.//b", "a./b");
}

#[test]
fn normalise_path_win() {
    check("normalizePathWin", "\\a\\..\\b", "/b");
    check("normalizePathWin", "a\\b", "a/b");
    check("normalisePathWin", "/a/\\\\b", "/a\\b");
    check("normalisePathWin", "c.d", "c.d");
    check("normalisePathWin", "a\\..", "");
    check("normalisePathWin", "..\\a\\..", "..");
    check("normalisePathWin", "\\..\\a", "/a");
    check("normalisePathWin", "a\\\\\\b", "a\\b");
    check("normalisePathWin", "a/\\/b", "a/b");
    check("normalisePathWin", "\\\\a", "/a");
    check("normalisePathWin", "a\\.\\b", "a/b");
    check("normalisePathWin", "a\\", "a/");
    check("normalisePathWin", "\\a\\..", "");
    check("normalisePathWin", "\\\\\\..", "\\");
    check("normalisePathWin", "\\", "/");
    check("normalisePathWin", "a\\..\\", "");
    check("normalisePathWin", ".", "");
}

#[test]
fn nulls_and_parity() {
    check("removeNulls", "\0a\0\0b\0", "ab");
    check("removeNulls", "ab", "ab");
    check("replaceNulls", "a\0\0b", "a  b");
    check("parityZero7bit", [0x41, 0xc1, 0xff], [0x41, 0x41, 0x7f]);
    check("parityEven7bit", [0x41, 0x43, 0xc3, 0x80], [0x41, 0xc3, 0x43, 0x80]);
    check("parityOdd7bit", [0x41, 0x43, 0xc3, 0x80], [0xc1, 0x43, 0xc3, 0x00]);
}

#[test]
fn trim() {
    check("trim", " \t\r\n\x0b\x0ca b \n", "a b");
    check("trim", "   ", "");
    check("trim", "\0a\0", "\0a\0");
    check("trimLeft", " a ", "a ");
    check("trimRight", " a ", " a");
}

#[test]
fn url() {
    check("urlDecode", "plain", "plain");
    check("urlDecode", "a+b%20c%2B%zz%4%", "a b c+%zz%4%");
    check("urlDecode", "%41%4g%u0041", "A%4g%u0041");
    check("urlDecode", "%%41", "%A");
    check("urlDecodeUni", "%u0041%U1242%uFF21%uff5f%uff5e", b"ABA_~");
    check("urlDecodeUni", "%u004%41%uzzzz+", "%u004A%uzzzz ");
    check("urlDecodeUni", "%u", "%u");
    check("urlDecodeUni", "%u%41", "%uA");
    check("urlDecodeUni", "%uff00", b"\0");
    check("urlEncode", "az AZ*09", "az+AZ*09");
    check("urlEncode", b"a-b/\xff\0", "a%2db%2f%ff%00");
}

#[test]
fn utf8_to_unicode() {
    check("utf8toUnicode", "ascii", "ascii");
    check("utf8toUnicode", "aé€😀", "a%u00e9%u20ac%u1f600");
    check("utf8toUnicode", b"\xc3(", "(");
    check("utf8toUnicode", b"a\xe2\x82", b"a\x82");
    check("utf8toUnicode", b"\x80\xf8\xff", b"\x80\xf8\xff");
    check("utf8toUnicode", b"\xc0\xaf", b"%u002f\xc0");
    check("utf8toUnicode", b"\xe0\x80\xaf", b"%u002f\xe0");
    check("utf8toUnicode", b"\xed\xa0\x80", b"%ud800\xed");
    check("utf8toUnicode", b"\xf5\x80\x80\x80", b"\xf5%u140000");
    check("utf8toUnicode", b"\xf5a", b"\xf5a");
    check("utf8toUnicode", b"a\0b\0", b"ab\0");
}

#[test]
fn whitespace() {
    check("compressWhitespace", "a b c", "a b c");
    check("compressWhitespace", "a \t\r\n\x0b\x0c b", "a b");
    check("compressWhitespace", "\ta", " a");
    check("compressWhitespace", " \ta", " a");
    check("compressWhitespace", b"a\xa0 b", b"a\xa0 b");
    check("removeWhitespace", " a\tb\x0bc\u{a0}d", "abcd");
    check("removeWhitespace", b"\xc2\xa9", b"\xa9");
}

#[test]
fn names_are_found_in_any_case() {
    for &(name, transformation) in TABLE {
        assert_eq!(Transformation::from_name(&name.to_uppercase()), Some(transformation));
        assert_eq!(Transformation::from_name(transformation.name()), Some(transformation));
    }
    assert_eq!(Transformation::NormalisePath.name(), "normalisePath");
    for unknown in ["", "none", "t:trim", "trim "] {
        assert_eq!(Transformation::from_name(unknown), None, "{unknown}");
    }
}

/// Pieces that mean something to some transformation.
const PIECES: &[&[u8]] = &[
    b"%",
    b"%u",
    b"%uff41",
    b"%41",
    b"+",
    b"\\",
    b"\\x4",
    b"\\u00",
    b"\\7",
    b"\\\n",
    b"&",
    b"&#x",
    b"&#99",
    b"&lt",
    b";",
    b"/*",
    b"*/",
    b"<!--",
    b"-->",
    b"--",
    b"#",
    b"/",
    b"..",
    b".",
    b"//",
    b" ",
    b"\t",
    b"\0",
    b"\xa0",
    b"\xc2",
    b"\xc0\x80",
    b"\xe2\x82\xac",
    b"\xed\xa0\x80",
    b"\xf5",
    b"\xf7\xbf\xbf\xbf",
    b"\xff",
    b"0x41",
    b"QUE=",
    b"=",
    b"A",
    b"f",
    b"9",
    b"\"",
];

#[test]
fn all_are_total_and_within_their_limit() {
    let mut numbers = Xorshift(0x9e37_79b9_7f4a_7c15);
    let mut out = Vec::new();
    for round in 0..20_000 {
        let mut input = Vec::new();
        for _ in 0..numbers.below(12) {
            if round % 4 == 0 {
                input.push(u8::try_from(numbers.below(256)).unwrap_or(0));
            } else {
                input.extend_from_slice(PIECES[numbers.below(PIECES.len())]);
            }
        }
        for &(name, transformation) in TABLE {
            let changed = transformation.apply(&input, &mut out);
            let shown = || format!("{name} of {}", input.escape_ascii());
            assert!(out.len() <= transformation.output_limit(input.len()), "{}", shown());
            let shorter = !changed || out.len() <= input.len();
            assert!(transformation.lengthens() || shorter, "{}", shown());
            assert!(changed || out.is_empty(), "{}", shown());
            assert!(!changed || out != input, "{}", shown());
        }
    }
}

/// The growth factors are not merely bounds: these inputs come within a byte of them.
#[test]
fn growth_is_reached() {
    let rows: &[(&str, &[u8], usize)] = &[
        ("hexEncode", b"\xff", 200),
        ("urlEncode", b"\xff", 300),
        ("utf8toUnicode", b"\xc0\x80", 350),
        ("base64Encode", b"\xff", 136),
    ];
    let mut out = Vec::new();
    for &(name, unit, expected) in rows {
        let input: Vec<u8> = unit.iter().copied().cycle().take(100).collect();
        let transformation = Transformation::from_name(name).expect("a known name");
        assert!(transformation.apply(&input, &mut out));
        assert_eq!(out.len(), expected, "{name}");
        assert!(expected > (transformation.growth() - 1) * 100, "{name}");
    }
}

/// [`Transformation::triggers`]: what has no such byte is not changed, but for case.
#[test]
fn without_a_trigger_only_case_changes() {
    let mut random = Xorshift(0x9E37_79B9_7F4A_7C15);
    let mut out = Vec::new();
    for &(name, transformation) in TABLE {
        let triggers = transformation.triggers();
        let harmless: Vec<u8> = (0..=u8::MAX)
            .filter(|&byte| !ByteSet::of(&[byte]).folded().intersects(triggers))
            .collect();
        for _ in 0..if harmless.is_empty() { 0 } else { 5_000 } {
            let length = random.below(12);
            let value: Vec<u8> =
                (0..length).map(|_| harmless[random.below(harmless.len())]).collect();
            if transformation.apply(&value, &mut out) {
                assert!(out.eq_ignore_ascii_case(&value), "{name}: {value:?} -> {out:?}");
                assert!(transformation.changes_case(), "{name}: {value:?} -> {out:?}");
            }
        }
    }
}

/// [`Transformation::lowers`]: there are no letters in upper case behind it.
#[test]
fn what_lowers_leaves_lower_case() {
    let value: Vec<u8> = (0..=u8::MAX).collect();
    let mut out = Vec::new();
    for &(name, transformation) in TABLE {
        if transformation.lowers() {
            assert!(transformation.apply(&value, &mut out), "{name}");
            assert!(!out.iter().any(u8::is_ascii_uppercase), "{name}");
        }
    }
}

/// [`Transformation::keeps_bytes`]: what is written consists of what was read, and spaces.
#[test]
fn what_keeps_bytes_writes_no_other() {
    let mut numbers = Xorshift(0x2545_F491_4F6C_DD1D);
    let mut random = |bound: usize| numbers.below(bound);
    let bytes = b"aB \t\n/*-#<!>.\\\0\xA0\xC2\"'^,;(%+&\xE9";
    let mut out = Vec::new();
    for &(name, transformation) in TABLE {
        if !transformation.keeps_bytes() {
            continue;
        }
        for round in 0..20_000 {
            let value: Vec<u8> = match round % 2 {
                0 => (0..random(10)).map(|_| bytes[random(bytes.len())]).collect(),
                _ => (0..random(6)).flat_map(|_| PIECES[random(PIECES.len())]).copied().collect(),
            };
            if transformation.apply(&value, &mut out) {
                let known = ByteSet::of(&value).folded();
                let kept = |&byte: &u8| byte == b' ' || ByteSet::of(&[byte]).intersects(known);
                assert!(out.iter().all(kept), "{name}: {value:?} -> {out:?}");
            }
        }
    }
}
