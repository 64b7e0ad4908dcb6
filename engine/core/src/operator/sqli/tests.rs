//! Values and the fingerprints libinjection gives them.

use libinjectionrs::sqli::sqli_data::SQL_KEYWORDS;

use super::{detect, is_one_token, read};

#[track_caller]
fn check(value: impl AsRef<[u8]>, fingerprint: &str) {
    let found = detect(value.as_ref());
    let found = found.as_ref().map_or(&b""[..], |fingerprint| fingerprint.as_bytes());
    let shown = value.as_ref().escape_ascii();
    assert_eq!(found.escape_ascii().to_string(), fingerprint, "{shown}");
}

/// What is passed over without being read would not have been an injection.
#[test]
fn one_token_is_no_injection() {
    let mut tokens = 0;
    for keyword in SQL_KEYWORDS {
        for word in keyword.word.split(' ') {
            if !word.is_empty() && is_one_token(word.as_bytes()) {
                assert!(read(word.as_bytes()).is_none(), "{word}");
                tokens += 1;
            }
        }
    }
    assert!(tokens > 1_000, "{tokens}");
    for number in ["0", "1", "00012", "99999999999999999999999"] {
        assert!(is_one_token(number.as_bytes()) && read(number.as_bytes()).is_none(), "{number}");
    }
    for more in ["1f", "1fUNION", "a b", "a'", "_a", "1.5", "-1", "a-b", "\u{e9}"] {
        assert!(!is_one_token(more.as_bytes()), "{more}");
    }
}

#[test]
fn injections() {
    check("1' OR '1'='1", "s&sos");
    check("1\" or \"1\"=\"1", "s&sos");
    check("1 OR 1=1", "1&1");
    check(b"1\xa0or\xa01=1", "1&1");
    check("1 UNION SELECT 1,2", "1UE1");
    check("-1 union all select 1--", "1UE1c");
    check("1fUNION select 2", "1UE1");
    check("1,-1 union select 1", "1UE1");
    check("1; DROP TABLE x", "1;Tnn");
    check("1;if(1=1) select 1", "1;T(1");
    check("1 in (select 1)", "1o(E1");
    check("1 like(1)", "1f(1)");
    check("1 or user()=1", "1&f()");
    check("1 or (1)=(1) # x", "1&(1)");
    check("1 collate utf8_bin = 1", "1Ato1");
    check("' or 1::int=1", "s&1");
    check("sexy and 17<18", "n&1");
    check("foo' + 'bar", "sos");
    check("Data dump using 'into outfile'", "sks");
}

#[test]
fn literals_of_many_databases() {
    check("\\N or 1=1", "1&1");
    check("x'1f' or 1=1", "1&1");
    check("b'01' or 1=1", "1&1");
    check("0x or 1=1", "n&1");
    check("1.e or 1=1", "n&1");
    check("n'a' or 1=1", "s&1");
    check("u&'a' or 1=1", "s&1");
    check("q'(a)' or 1=1", "s&1");
    check("1 or $$a$$=$$a$$", "1&sos");
    check("1 or $t$a$t$=1", "1&so1");
    check("1 or @'x'='x'", "1&vos");
    check("[a] or 1=1", "n&1");
    check("select.1 from x", "E1kn");
}

#[test]
fn comments() {
    check("admin'--", "sc");
    check("x' and 1=1#", "s&1c");
    check("1--", "1c");
    check("1234-ABC--", "1c");
    check("1 or 1=1 /* x", "1&1c");
    check("1 or 1=1 -- -", "1&1c");
    check("1 or 1=1--x", "1&1c");
    check("1/**/or/**/1=1", "1&1");
    check("123/*x*/or 1=1", "1&1");
    check("1 /*!50000union*/", "X");
    check("/*a/*b*/ 1", "X");
    check(b"x\x8b'--sp_password", "sc");
    check("X'--SP_PASSWORD", "");
}

#[test]
fn braces_with_empty_names_spoil_everything() {
    check("{``.``.id} union select 1", "X");
    check("COUNT(</{``.`ee`.id} .1UNION SELECT LE", "X");
}

#[test]
fn harmless() {
    check("", "");
    check("1", "");
    check("hello world", "");
    check("O'Reilly", "");
    check("select your seat", "");
    check("1 and 1", "");
    check("sexy and 17", "");
    check("1 union", "");
    check("1 or @@version", "");
    check("user(1) or 1", "");
    check("LOCK IN(u&", "");
    check(b"SELECT @a\0\x9cfoo\"", "");
}

/// Pieces of SQL that go on without end. Where one of them has the rest of the value read again for each
/// piece, this takes minutes.
#[test]
#[expect(clippy::disallowed_methods, reason = "the cost is what is tested")]
fn long_values_take_linear_time() {
    const SIZE: usize = 1 << 20;
    const PIECES: &[&str] = &[
        "like.", "rlike.", "like`", "in.", ".", "1,", "1=", "(", "{a ", "'", "'\\", "\"\\", "$a",
        "$a$b", "$1", "q'(", "x'1", "b'0", "@", "@`", "/*", "/*/*", "--", "#", "a ", "not ", "\0",
    ];
    for piece in PIECES {
        let value = piece.repeat(SIZE / piece.len());
        let start = std::time::Instant::now();
        detect(value.as_bytes());
        let taken = start.elapsed();
        assert!(taken.as_secs() < 10, "{piece}: {taken:?}");
    }
}

/// Every input has an answer: pieces of SQL in random order, cut anywhere.
#[test]
fn is_total() {
    const PIECES: &[&[u8]] = &[
        b"'",
        b"\"",
        b"`",
        b"--",
        b"/*",
        b"*/",
        b"/*!",
        b"#",
        b"\\",
        b";",
        b"(",
        b")",
        b"{",
        b"}",
        b"{``",
        b"@",
        b"@@",
        b"$",
        b"$$",
        b"$a$",
        b"q'",
        b"nq'<",
        b"u&'",
        b"x'",
        b"b'0",
        b"0x",
        b"1",
        b".",
        b"1e",
        b"1d",
        b"[",
        b" union ",
        b" select ",
        b" in ",
        b" not ",
        b"like",
        b" collate ",
        b"a_b",
        b"::",
        b"int",
        b",",
        b"-",
        b"!",
        b":",
        b"<=>",
        b"\0",
        b"\xa0",
        b"\xff",
        b"if",
        b"user",
        b"\n",
        b" ",
    ];
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..100_000 {
        let mut value = Vec::new();
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = usize::try_from(state >> 33).unwrap_or(0) % PIECES.len();
            value.extend_from_slice(PIECES[index]);
        }
        value.truncate(usize::try_from(state >> 40).unwrap_or(0) % (value.len() + 1));
        if let Some(fingerprint) = detect(&value) {
            let kinds = fingerprint.as_bytes();
            assert!((1..=5).contains(&kinds.len()), "{}", value.escape_ascii());
            assert!(kinds.is_ascii(), "{}", value.escape_ascii());
        }
    }
}
