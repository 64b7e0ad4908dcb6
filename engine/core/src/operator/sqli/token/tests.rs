//! Values, and the tokens that they are read as.

use super::{Dialect, Lexer, Quote};

/// Each token is its kind, its text, and the marks around it, if it has any; `-` for one that is not there.
#[track_caller]
fn check(quote: Quote, dialect: Dialect, value: &[u8], expected: &[&str]) -> bool {
    let mut lexer = Lexer::new(value, quote, dialect);
    let mut tokens = Vec::new();
    while let Some(token) = lexer.next_token() {
        let marks = [token.open, token.close];
        let [open, close] = marks.map(|mark| char::from(if mark == 0 { b'-' } else { mark }));
        let text = format!("{} {}", char::from(token.kind), token.value().escape_ascii());
        tokens.push(if marks == [0, 0] { text } else { format!("{text} {open}{close}") });
    }
    assert_eq!(tokens, expected, "{quote:?} {dialect:?}: {}", value.escape_ascii());
    assert_eq!(lexer.tokens_read, expected.len(), "{}", value.escape_ascii());
    lexer.mysql_may_differ
}

/// Where the value stands bare, and MySQL reads it no differently.
#[track_caller]
fn bare(value: impl AsRef<[u8]>, expected: &[&str]) {
    let value = value.as_ref();
    assert!(!check(Quote::None, Dialect::Ansi, value, expected), "{}", value.escape_ascii());
    assert!(!check(Quote::None, Dialect::MySql, value, expected), "{}", value.escape_ascii());
}

/// Where MySQL reads it differently.
#[track_caller]
fn differs(value: &str, ansi: &[&str], mysql: &[&str]) {
    assert!(check(Quote::None, Dialect::Ansi, value.as_bytes(), ansi), "{value}");
    check(Quote::None, Dialect::MySql, value.as_bytes(), mysql);
}

#[test]
fn blanks_and_marks() {
    bare("", &[]);
    bare(b" \x00\x01\x1f\x7f\xa0a", &["n a"]);
    bare("(a)", &["( (", "n a", ") )"]);
    bare("{a},b;", &["{ {", "n a", "} }", ", ,", "n b", "; ;"]);
    bare("a?b]c", &["n a", "? ?", "n b", "? ]", "n c"]);
    bare("%+^~", &["o %", "o +", "o ^", "o ~"]);
    bare("\\", &["\\ \\\\"]);
    bare("\\N1", &["1 \\\\N", "1 1"]);
    bare("\\n", &["\\ \\\\", "n n"]);
}

#[test]
fn operators() {
    bare("<=>1", &["o <=>", "1 1"]);
    bare("<=1", &["o <=", "1 1"]);
    bare("<>1", &["o <>", "1 1"]);
    bare("<", &["o <"]);
    bare("a<b", &["n a", "o <", "n b"]);
    bare("=1", &["o =", "1 1"]);
    bare("a||b", &["n a", "& ||", "n b"]);
    bare("a|b", &["n a", "o |", "n b"]);
    bare("a&&b", &["n a", "& &&", "n b"]);
    bare("&", &["o &"]);
    bare("!=1", &["o !=", "1 1"]);
    bare("!!1", &["o !!", "1 1"]);
    bare("!1", &["o !", "1 1"]);
    bare("a::b", &["n a", "o ::", "n b"]);
    bare("a:=b", &["n a", "o :=", "n b"]);
    bare("a:b", &["n a", ": :", "n b"]);
    bare("a:", &["n a", "o :"]);
    bare("*1", &["o *", "1 1"]);
}

#[test]
fn comments() {
    differs("a#b", &["n a", "o #", "n b"], &["n a", "c #b"]);
    bare("-1", &["o -", "1 1"]);
    bare("-", &["o -"]);
    bare("--", &["c --"]);
    bare("--\na", &["c --", "n a"]);
    bare("-- a\nb", &["c -- a", "n b"]);
    bare(b"--\xa0a", &["c --\\xa0a"]);
    differs("a--b\nc", &["n a", "c --b", "n c"], &["n a", "o -", "o -", "n b", "n c"]);
    bare("/a", &["o /", "n a"]);
    bare("/*a*/b", &["c /*a*/", "n b"]);
    bare("1 2/*a*/b", &["1 1", "1 2", "c /*a*/", "n b"]);
    bare("/*a", &["c /*a"]);
    bare("/**/b", &["c /**/", "n b"]);
    bare("/*/a", &["c /*/a"]);
    bare("/*!a*/b", &["X /*!a*/", "n b"]);
    bare("/*a/*b*/c", &["X /*a/*b*/", "n c"]);
    bare("/*a/*", &["c /*a/*"]);
    bare("/*a/**/b", &["X /*a/**/", "n b"]);
}

#[test]
fn texts() {
    bare("'a'b", &["s a ''", "n b"]);
    bare("'a", &["s a '-"]);
    bare("''", &["s  ''"]);
    bare("'a''b'c", &["s a\\'\\'b ''", "n c"]);
    bare("'a\\'b'c", &["s a\\\\\\'b ''", "n c"]);
    bare("'a\\\\'b", &["s a\\\\\\\\ ''", "n b"]);
    bare("'a\\\\\\'b", &["s a\\\\\\\\\\\\\\'b '-"]);
    bare("\"a'b\"c", &["s a\\'b \"\"", "n c"]);
    bare("'", &["s  '-"]);
    bare("e'a'b", &["s a ''", "n b"]);
    bare("E'a", &["s a '-"]);
    bare("e'", &["n e", "s  '-"]);
    bare("e'a\\'b'", &["s a\\\\\\'b ''"]);
    bare("n'a'b", &["s a ''", "n b"]);
    bare("N'", &["n N", "s  '-"]);
    bare("u&'a'b", &["s a uu", "n b"]);
    bare("U&'a", &["s a u-"]);
    bare("u&a", &["n u", "o &", "n a"]);
    bare("u'a'", &["n u", "s a ''"]);
    bare("$$a$$b", &["s a $$", "n b"]);
    bare("$$a", &["s a $-"]);
    bare("$x$a$x$b", &["s a $$", "n b"]);
    bare("$xY$a$x$", &["s a$x$ $-"]);
    bare("$x a", &["n $", "n x", "n a"]);
    bare("$", &["n $"]);
    bare("$x", &["n $", "n x"]);
}

#[test]
fn texts_of_oracle() {
    bare("q'(a)'b", &["s a qq", "n b"]);
    bare("Q'[a]'b", &["s a qq", "n b"]);
    bare("q'{a}'", &["s a qq"]);
    bare("q'<a>'", &["s a qq"]);
    bare("q'!a!'b", &["s a qq", "n b"]);
    bare("q'(a'b", &["s a\\'b q-"]);
    bare("q' a '", &["n q", "s  a  ''"]);
    bare(b"q'\x7fa\x7f'", &["s a qq"]);
    bare(b"q'\x80a\x80'", &["n q", "s \\x80a\\x80 ''"]);
    bare("q'", &["n q", "s  '-"]);
    bare("qa", &["n qa"]);
    bare("nq'(a)'b", &["s a qq", "n b"]);
    bare("NQ'<a>'", &["s a qq"]);
    bare("nqa", &["n nqa"]);
    bare("q'(a('b)'c", &["s a(\\'b qq", "n c"]);
}

#[test]
fn numbers() {
    bare("1", &["1 1"]);
    bare("12a", &["1 12", "n a"]);
    bare("1.5a", &["1 1.5", "n a"]);
    bare("1.", &["1 1."]);
    bare(".5", &["1 .5"]);
    bare(".", &[". ."]);
    bare(".a", &[". .", "n a"]);
    bare("..", &[". .", ". ."]);
    bare("1.5.2", &["1 1.5", "1 .2"]);
    bare("1e5a", &["1 1e5", "n a"]);
    bare("1E+5", &["1 1E+5"]);
    bare("1e-5", &["1 1e-5"]);
    bare("1e", &["n 1e"]);
    bare("1e+", &["n 1e+"]);
    bare("1.e5", &["1 1.e5"]);
    bare("1d", &["1 1d"]);
    bare("1f ", &["1 1f"]);
    bare("1D;a", &["1 1D", "; ;", "n a"]);
    bare("1fu", &["1 1f", "n u"]);
    bare("1FUNION", &["1 1F", "U UNION"]);
    bare("1dx", &["1 1", "n dx"]);
    bare(b"1f\xa0", &["1 1f"]);
    bare("0x1Fg", &["1 0x1F", "n g"]);
    bare("0X1", &["1 0X1"]);
    bare("0x", &["n 0x"]);
    bare("0xg", &["n 0x", "n g"]);
    bare("0b012", &["1 0b01", "1 2"]);
    bare("0B1", &["1 0B1"]);
    bare("0b2", &["n 0b", "1 2"]);
    bare("0c", &["1 0", "n c"]);
    bare("1x1", &["1 1", "n x1"]);
    bare("$1,000.50a", &["1 $1,000.50", "n a"]);
    bare("$.", &["n $."]);
    bare("$.5", &["1 $.5"]);
    bare("$1", &["1 $1"]);
    bare(b"$\x00a", &["1 $\\x00", "n a"]);
    bare("x'1F'a", &["1 x\\'1F\\'", "n a"]);
    bare("X'1g'", &["n X", "s 1g ''"]);
    bare("x'", &["n x", "s  '-"]);
    bare("x'1", &["n x", "s 1 '-"]);
    bare("x''", &["1 x\\'\\'"]);
    bare("abcd x'1'", &["n abcd", "1 x\\'1\\'"]);
    bare("b'01'2", &["1 b\\'01\\'", "1 2"]);
    bare("B'2'", &["n B", "s 2 ''"]);
    bare("b'0", &["n b", "s 0 '-"]);
    bare(b"x'1\x00f'", &["1 x\\'1\\x00f\\'"]);
}

#[test]
fn names() {
    bare("abc def", &["n abc", "n def"]);
    bare("select", &["E select"]);
    bare("SeLeCt.a", &["E SeLeCt", ". .", "n a"]);
    bare("abc.def", &["n abc.def"]);
    bare("select`a`", &["E select", "n a ``"]);
    bare("abc`d`", &["n abc`d`"]);
    bare("a\"b", &["n a", "s b \"-"]);
    bare("a'b", &["n a", "s b '-"]);
    bare(b"a\xa0b", &["n a", "n b"]);
    bare(b"a\x00b", &["n a", "n b"]);
    bare("a_1", &["n a_1"]);
    bare("[a b]c", &["n [a b]", "n c"]);
    bare("[a", &["n [a"]);
    bare("`a`b", &["n a ``", "n b"]);
    bare("`a", &["n a `-"]);
    bare("``", &["n  ``"]);
    bare("`user`", &["n user ``"]);
    bare("`substr`", &["f substr ``"]);
    bare("@a b", &["v a", "n b"]);
    bare("@@a", &["v a"]);
    bare("@", &["v "]);
    bare("@@@a", &["v ", "v a"]);
    bare("@`a`b", &["v a ``", "n b"]);
    bare("@'a'b", &["v a ''", "n b"]);
    bare("@\"a\"b", &["v a \"\"", "n b"]);
    bare("@a.b", &["v a.b"]);
    bare("@a`b", &["v a", "n b `-"]);
    bare("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b", &["n aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "n b"]);
    bare("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b", &["n aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "n b"]);
    bare("selectaaaaaaaaaaaaaaaaaaaaaaaaa.b", &["n selectaaaaaaaaaaaaaaaaaaaaaaaaa"]);
}

#[test]
fn values_within_quotes() {
    for (quote, value, expected) in [
        (Quote::Single, "a", &["s a"][..]),
        (Quote::Single, "a'b", &["s a -'", "n b"][..]),
        (Quote::Single, "a\\'b'c", &["s a\\\\\\'b -'", "n c"][..]),
        (Quote::Single, "'a", &["s  -'", "n a"][..]),
        (Quote::Single, "a''b", &["s a\\'\\'b"][..]),
        (Quote::Single, "a\"b'c", &["s a\\\"b -'", "n c"][..]),
        (Quote::Double, "a\"b", &["s a -\"", "n b"][..]),
        (Quote::Double, "a'b", &["s a\\'b"][..]),
        (Quote::Double, "\"or", &["s  -\"", "& or"][..]),
    ] {
        assert!(!check(quote, Dialect::Ansi, value.as_bytes(), expected), "{value}");
    }
}
