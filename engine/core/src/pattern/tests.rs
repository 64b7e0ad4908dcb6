//! Patterns and what they match, in both matchers.

use super::*;

/// Steps enough for every text here.
const METER: Meter = Meter::at_compile_time();

impl Pattern {
    fn is_match(&self, haystack: &[u8]) -> bool {
        self.search(haystack, 0, &mut [], &mut { METER }) == Found::Yes
    }

    fn find_at(&self, haystack: &[u8], from: usize) -> Option<(usize, usize)> {
        let mut range = [None];
        self.search(haystack, from, &mut range, &mut { METER });
        range[0]
    }

    fn captures(&self, haystack: &[u8], groups: &mut [Option<(usize, usize)>]) -> bool {
        self.search(haystack, 0, groups, &mut { METER }) == Found::Yes
    }
}

/// The pattern for the matcher it is for, and for the one that back-tracks: an empty look-ahead changes
/// nothing else.
#[track_caller]
fn in_both(pcre: &str) -> [Pattern; 2] {
    let backtracking = Pattern::new(&format!("(?=){pcre}")).unwrap();
    assert!(backtracking.backtracks(), "{pcre}");
    [Pattern::new(pcre).unwrap(), backtracking]
}

#[track_caller]
fn check(pcre: &str, matching: &[&[u8]], not: &[&[u8]]) {
    for pattern in in_both(pcre) {
        let how = if pattern.backtracks() { "by back-tracking" } else { "as an automaton" };
        for haystack in matching {
            let shown = haystack.escape_ascii();
            assert!(pattern.is_match(haystack), "{pcre} must match {shown} {how}");
        }
        for haystack in not {
            let shown = haystack.escape_ascii();
            assert!(!pattern.is_match(haystack), "{pcre} must not match {shown} {how}");
        }
    }
}

/// A piece of a pattern, and the bytes that it matches.
#[track_caller]
fn check_bytes(piece: &str, is_member: impl Fn(u8) -> bool) {
    let expected: Vec<u8> = (0..=u8::MAX).filter(|&byte| is_member(byte)).collect();
    for pattern in in_both(&format!("^{piece}$")) {
        let found: Vec<u8> = (0..=u8::MAX).filter(|byte| pattern.is_match(&[*byte])).collect();
        let shown = (found.escape_ascii(), expected.escape_ascii());
        assert_eq!(found, expected, "{piece}: {} instead of {}", shown.0, shown.1);
    }
}

#[test]
fn pcre_spellings_keep_their_meaning() {
    check(r"^[\w-.]+$", &[b"a-b.c"], &[b"a b"]);
    check(r"[^\x21-\x7E][\x21-\x39\x3B-\x7E]*:", &[b"\x01a:"], &[b"aa:"]);
    check(r#"^[^\s\x0b-\"\(\),/:]+$"#, &[b"abc"], &[b"a\"", b"a!"]);
    check(r"[[a]b", &[b"[b", b"ab"], &[b"b"]);
    check(r"[]a]", &[b"]", b"a"], &[b"["]);
    check(r"[^]a]", &[b"b"], &[b"]", b"a"]);
    check(r"^[a[:]b]$", &[b"[b]", b":b]", b"ab]"], &[b"b]", b"a", b":"]);
    check(r"[&&~~a-]", &[b"&", b"~", b"-"], &[b"b"]);
    check(r"a{b", &[b"a{b"], &[b"ab"]);
    check(r"a{,3}", &[b"a{,3}"], &[b"aaa"]);
    check(r"a{2,3}c", &[b"aac"], &[b"ac"]);
    check(r"\Qa.b\Ec", &[b"a.bc"], &[b"axbc"]);
    check(r##"\/\"\'\!\#\@\%\&\-\_"##, &[b"/\"'!#@%&-_"], &[b"x"]);
    check(r"\x{bc}", &[b"\xbc"], &["\u{bd}".as_bytes()]);
    check(r"\h+\R", &[b" \t\r\n"], &[b"\r\n"]);
    check(r"[[:alpha:]]\d", &[b"a1"], &[b"11"]);
    check(r"(?i)select", &[b"SeLeCt"], &["ſelect".as_bytes()]);
    check(r"(?<n>a)(?'m'b)(?#c)", &[b"ab"], &[b"a"]);
    check("(?x)^ a\tb\x0b\x0c # c)\n\r d$", &[b"abd"], &[b"a\tb", b"ab"]);
    check(r"(?ix)^[ #]\ A + ? (?# c) \# \Q b\E$", &[b"  a# b", b"# AA# b"], &[b"#aa# b", b"#aab"]);
    check(r"^(?x: a (?-x) b | c)d e(?s-x:f g)$", &[b"a b d ef g", b" cd ef g"], &[b"abde"]);
    check(r"^((?x) a b) c(?x) d | e", &[b"ab cd", b"e"], &[b"abcd", b" f"]);
    check(r"(?x)(?<n> a b )(?'m' c)(?P<x> d)", &[b"abcd"], &[b"a b c d"]);
    check(r"a.b", &[b"a\nb"], &[b"a"]);
    check(r"a$", &[b"a"], &[b"a\n"]);
    check(r"“", &["“".as_bytes()], &[b"\xe2"]);
    check(r"\0\101\x9", &[b"\0A\x09"], &[b"A"]);
    check(r"^\0101\1012\x412\x4g\x{41}2$", &[b"\x081A2A2\x04gA2"], &[]);
    check(r"^\cAb\tc$", &[b"\x01b\tc"], &[]);
    check(r"ab[\Ec]", &[b"abc"], &[b"abE", b"ab"]);
    check(r"a\Eb", &[b"ab"], &[b"aEb"]);
    check(r"^\Qa\b", &[b"a\\b"], &[b"ab"]);
    check(r"^a\R$", &[b"a\n", b"a\r", b"a\r\n"], &[b"a", b"a\n\r", b"a\n\n"]);
    check(r"^a{2}$", &[b"aa"], &[b"a", b"aaa", b"a{2}"]);
    check(r"^a{2,}$", &[b"aa", b"aaa"], &[b"a", b"a{2,}"]);
    check(r"^a{2,3}$", &[b"aa", b"aaa"], &[b"a", b"aaaa", b"a{2,3}"]);
    for literal in ["a{}", "a{,}", "a{x}", "a{x,2}", "a{2,x}", "a{2", "a{2,3,4}", "a{ 2}"] {
        check(&format!("^{literal}$"), &[literal.as_bytes()], &[b"a", b"aa", b"aaa"]);
    }
    check(r"^[ab]{2}c?d*e+$", &[b"abe", b"bacddee"], &[b"ae", b"abcce", b"abcd"]);
    check(r"a|b|", &[b"", b"a"], &[]);
    check(r"^(?:a|b|)$", &[b"", b"a", b"b"], &[b"c", b"ab"]);
}

#[test]
fn anchors_and_flags() {
    check(r"\Aa", &[b"ab"], &[b"ba", b"\na"]);
    check(r"a\z", &[b"ba"], &[b"ab", b"a\n"]);
    check(r"a\Z", &[b"ba"], &[b"ab", b"a\n"]);
    check(r"\bfoo\b", &[b"foo", b"a foo."], &[b"foo_", b"1foo", b"fooA"]);
    check(r"o\Bo", &[b"oo"], &[b"o o"]);
    check(r"\Boo", &[b"foo", b"_oo"], &[b"oo", b" oo"]);
    check(r"^b$", &[b"b"], &[b"a\nb", b"b\nc"]);
    check(r"(?m)^b$", &[b"b", b"a\nb", b"b\nc", b"a\nb\nc"], &[b"ab", b"bc", b"\rb"]);
    check(r"(?m)\Ab\z", &[b"b"], &[b"a\nb", b"b\nc"]);
    check(r"(?m:^b)$", &[b"a\nb"], &[b"b\nc"]);
    check(r"(?-s)a.b", &[b"a b"], &[b"a\nb"]);
    check(r"a(?-s:.)b.", &[b"a b\n"], &[b"a\nb\n"]);
    check(r"(?-s)a(?s).b", &[b"a\nb"], &[b"ab"]);
    check(r"(?i)a(?-i)b", &[b"ab", b"Ab"], &[b"aB", b"AB"]);
    check(r"(?i:a)b", &[b"Ab"], &[b"AB"]);
    check(r"((?i)a)b", &[b"Ab"], &[b"AB"]);
    check(r"(?i)[^a-c]\x64", &[b"dD", b"zd"], &[b"AD", b"bd"]);
    check(r"(?im-s)^a.b", &[b"c\nA B"], &[b"a\nb"]);
}

#[test]
fn escapes_are_bytes() {
    for (piece, byte) in [
        (r"\n", b'\n'),
        (r"\r", b'\r'),
        (r"\t", b'\t'),
        (r"\f", 0x0c),
        (r"\a", 0x07),
        (r"\e", 0x1b),
        (r"\cA", 0x01),
        (r"\ca", 0x01),
        (r"\c[", 0x1b),
        (r"\c?", 0x7f),
        (r"\x", 0x00),
        (r"\x4", 0x04),
        (r"\x41", b'A'),
        (r"\xfF", 0xff),
        (r"\x{0}", 0x00),
        (r"\x{41}", b'A'),
        (r"\x{0000fF}", 0xff),
        (r"\0", 0x00),
        (r"\07", 0x07),
        (r"\011", 0x09),
        (r"\60", b'0'),
        (r"\101", b'A'),
        (r"\377", 0xff),
        (r"\.", b'.'),
        (r"\-", b'-'),
        (r"\\", b'\\'),
        (r"[\b]", 0x08),
        (r"[\n]", b'\n'),
        (r"[\cA]", 0x01),
        (r"[\x41]", b'A'),
        (r"[\x{41}]", b'A'),
        (r"[\101]", b'A'),
        (r"[\]]", b']'),
        (r"[\\]", b'\\'),
        ("[a]", b'a'),
        ("[a-a]", b'a'),
        ("[]]", b']'),
        (r"[\.]", b'.'),
    ] {
        check_bytes(piece, |other| other == byte);
    }
}

/// Whether a byte is in a class.
type IsIn = fn(u8) -> bool;

#[test]
fn classes_are_bytes() {
    const IS_WORD: IsIn = |byte| byte.is_ascii_alphanumeric() || byte == b'_';
    const IS_BLANK: IsIn = |byte| matches!(byte, b'\t' | b' ' | 0xa0);
    const IS_LINE: IsIn = |byte| matches!(byte, b'\n'..=b'\r' | 0x85);
    let classes: [(char, IsIn); 5] = [
        ('d', |byte| byte.is_ascii_digit()),
        ('s', crate::ascii::is_space),
        ('w', IS_WORD),
        ('h', IS_BLANK),
        ('v', IS_LINE),
    ];
    for (letter, is_member) in classes {
        let opposite = letter.to_ascii_uppercase();
        check_bytes(&format!(r"\{letter}"), is_member);
        check_bytes(&format!(r"\{opposite}"), |byte| !is_member(byte));
        check_bytes(&format!(r"[\{letter}]"), is_member);
        check_bytes(&format!(r"[\{opposite}]"), |byte| !is_member(byte));
        check_bytes(&format!(r"[^\{letter}]"), |byte| !is_member(byte));
        check_bytes(&format!(r"[!\{letter}?]"), |byte| is_member(byte) || b"!?".contains(&byte));
    }
    check_bytes(".", |_| true);
    check_bytes(r"\N", |byte| byte != b'\n');
    check_bytes(r"\R", IS_LINE);
    for (class, members) in [
        ("[a-c]", &b"abc"[..]),
        ("[a-ce]", b"abce"),
        ("[a-]", b"a-"),
        ("[-a]", b"a-"),
        ("[a-c-e]", b"abc-e"),
        ("[+--]", b"+,-"),
        (r"[\x41-\103]", b"ABC"),
        (r"[!-\d]", b"!-0123456789"),
        (r"[\d-z]", b"0123456789-z"),
        ("[a^]", b"a^"),
        ("[]a]", b"]a"),
        ("[[a]", b"[a"),
        (r"[a\E]", b"a"),
        ("(?i)[a-b]", b"abAB"),
        ("(?i)a", b"aA"),
        (r"(?i)\x61", b"aA"),
        (r"(?i)\Qa\E", b"aA"),
    ] {
        check_bytes(class, |byte| members.contains(&byte));
    }
    check_bytes("[^a]", |byte| byte != b'a');
    check_bytes("[^]a]", |byte| !b"]a".contains(&byte));
    check_bytes("(?i)[^a]", |byte| !b"aA".contains(&byte));
}

#[test]
fn posix_classes_are_bytes() {
    let classes: [(&str, IsIn); 14] = [
        ("alpha", |byte| byte.is_ascii_alphabetic()),
        ("digit", |byte| byte.is_ascii_digit()),
        ("alnum", |byte| byte.is_ascii_alphanumeric()),
        ("upper", |byte| byte.is_ascii_uppercase()),
        ("lower", |byte| byte.is_ascii_lowercase()),
        ("punct", |byte| byte.is_ascii_punctuation()),
        ("xdigit", |byte| byte.is_ascii_hexdigit()),
        ("cntrl", |byte| byte.is_ascii_control()),
        ("graph", |byte| byte.is_ascii_graphic()),
        ("ascii", |byte| byte.is_ascii()),
        ("print", |byte| matches!(byte, b' '..=b'~')),
        ("space", crate::ascii::is_space),
        ("blank", |byte| matches!(byte, b' ' | b'\t')),
        ("word", |byte| byte.is_ascii_alphanumeric() || byte == b'_'),
    ];
    for (name, is_member) in classes {
        check_bytes(&format!("[[:{name}:]]"), is_member);
        check_bytes(&format!("[^[:{name}:]]"), |byte| !is_member(byte));
        check_bytes(&format!("[[:^{name}:]]"), |byte| !is_member(byte));
        check_bytes(&format!("[[:{name}:]~\x01]"), |byte| {
            is_member(byte) || b"~\x01".contains(&byte)
        });
    }
    check_bytes("[[:]", |byte| b"[:".contains(&byte));
    check_bytes("[[:a:1]", |byte| b"[:a1".contains(&byte));
}

/// Where the leftmost match ends, which begins at 0.
#[test]
fn repetitions_take_what_they_say() {
    for (pcre, end) in [
        ("a*", 4),
        ("a+", 4),
        ("a?", 1),
        ("a{2}", 2),
        ("a{2,}", 4),
        ("a{2,3}", 3),
        ("a*?", 0),
        ("a+?", 1),
        ("a??", 0),
        ("a{2}?", 2),
        ("a{2,}?", 2),
        ("a{2,3}?", 2),
        ("(?:a+?)+", 4),
        ("a{0}", 0),
        ("a{0,1}", 1),
        ("a{1,1}", 1),
        ("a|aa", 1),
        ("aa|a", 2),
        ("(?x)a + ? # lazy", 1),
    ] {
        for pattern in in_both(pcre) {
            assert_eq!(pattern.find_at(b"aaaab", 0), Some((0, end)), "{pcre}");
        }
        assert!(!Pattern::new(pcre).unwrap().backtracks(), "{pcre}");
    }
}

#[test]
fn look_behind_knows_its_length() {
    check(r"(?<=ab)c", &[b"abc"], &[b"bc", b"ac"]);
    check(r"(?<=(a)(?:b))c", &[b"abc"], &[b"bc", b"ac"]);
    check(r"(?<=(?>ab))c", &[b"abc"], &[b"bc"]);
    check(r"(?<=a{2})b", &[b"aab"], &[b"ab"]);
    check(r"(?<=(?:ab){2})c", &[b"ababc"], &[b"abc"]);
    check(r"(?<=x(?:ab|cd))e", &[b"xabe", b"xcde"], &[b"abe", b"xab", b"xe"]);
    check(r"(?<=^a)b", &[b"ab"], &[b"aab"]);
    check(r"(?<=\ba)b", &[b"ab", b" ab"], &[b"xab"]);
    check(r"(?<=(?=a).)b", &[b"ab"], &[b"cb", b"b"]);
    check(r"(?<=a|bc)d", &[b"ad", b"bcd"], &[b"cd", b"d"]);
    check(r"(?<!a|bc)d", &[b"cd", b"d"], &[b"ad", b"bcd"]);
    check(r"(?<!ab)c", &[b"c", b"bc"], &[b"abc"]);
}

#[test]
fn references_repeat_their_group() {
    check(r"^(a|b)\1$", &[b"aa", b"bb"], &[b"ab", b"a"]);
    check(r"^(a|b)\g1$", &[b"aa", b"bb"], &[b"ab"]);
    check(r"^(a|b)\g{1}$", &[b"aa", b"bb"], &[b"ab"]);
    check(r"^(?<n>a|b)\k<n>$", &[b"aa", b"bb"], &[b"ab"]);
    check(r"^(?'n'a|b)\k'n'$", &[b"aa", b"bb"], &[b"ab"]);
    check(r"^(?P<n>a|b)\k{n}$", &[b"aa", b"bb"], &[b"ab"]);
    check(r"^(?<m>a)(?<n>b|c)\k<n>\k<m>$", &[b"abba", b"acca"], &[b"abab"]);
    check(r"^(a)(b)\2\1$", &[b"abba"], &[b"abab"]);
    check(r"^(a|b)(?i)\1$", &[b"aA", b"aa"], &[b"aB"]);
    check(r"^(a|b)(?i:x)\1$", &[b"aXa"], &[b"aXA"]);
    check(r"^(a)?\1b$", &[b"aab"], &[b"b", b"ab"]);
    // More digits than one are a byte in octal.
    check(r"^(a)\11$", &[b"a\t"], &[b"aa1"]);
}

#[test]
fn what_was_taken_is_not_given_back() {
    check(r"^a?+a$", &[b"aa"], &[b"a"]);
    check(r"^a*+b$", &[b"b", b"aab"], &[b"aac"]);
    check(r"^a*+a$", &[], &[b"a", b"aa"]);
    check(r"^a{1,2}+a$", &[b"aaa"], &[b"a", b"aa", b"aaaa"]);
    check(r"^(?>a|ab)c$", &[b"ac"], &[b"abc"]);
}

/// The matcher for long values panics when it is asked for more groups than the pattern has.
#[test]
fn long_values_have_groups_too() {
    for pcre in [r"(?:a|b)*c", r"(?:a|b)*(c)", r"([ab]|b[a])*?(c)d?"] {
        let pattern = Pattern::new(pcre).unwrap();
        for length in [10, 1_000, 100_000, 1_000_000] {
            let value = [b"ab".repeat(length / 2), b"c".to_vec()].concat();
            let mut groups = [None; 10];
            assert!(pattern.captures(&value, &mut groups), "{pcre}");
            assert_eq!(groups[0], Some((0, value.len())), "{pcre}");
        }
    }
}

#[test]
fn what_an_automaton_cannot_do_is_matched_by_backtracking() {
    for pcre in
        [r"a(?=b)", r"a(?!c)b", r"(?<!c)ab", r"(?>a)b", r"(a)b(?=\1)", r"a++b", r"(?x) a + + b"]
    {
        let pattern = Pattern::new(pcre).unwrap();
        assert!(pattern.backtracks(), "{pcre}");
        assert!(pattern.is_match(b"xaba"), "{pcre}");
        assert_eq!(pattern.find_at(b"xaba", 2), None, "{pcre}");
    }
    assert!(!Pattern::new("ab").unwrap().backtracks());
}

/// In both matchers: a byte above 0x7F stands for itself wherever it is.
#[test]
fn patterns_of_requests_are_bytes() {
    for pcre in [&b"^\xff$"[..], b"^\\\xff$", b"^[\xfe-\xff]$", b"^[\\\xff]$", b"^\\Q\xff\\E$"] {
        for pcre in [pcre.to_vec(), [&b"(?=.)"[..], pcre].concat()] {
            let pattern = Pattern::from_request(&pcre, PATTERN_BYTES_MAX).unwrap();
            let found = [&b"\xff"[..], b"\\", b"\\xff", b"x"].map(|value| pattern.is_match(value));
            assert_eq!(found, [true, false, false, false], "{}", pcre.escape_ascii());
        }
    }
}

/// PCRE2 refuses these, or means what is written at the right; neither is to be guessed.
#[test]
fn what_a_pattern_may_mean_is_not_guessed() {
    for (pcre, why) in [
        (r"\o{101}", r"there is no escape \o"),
        (r"[\o{101}]", r"there is no escape \o"),
        (r"[\N]", r"there is no escape \N"),
        (r"[\R]", r"there is no escape \R"),
        (r"[\A]", r"there is no escape \A"),
        (r"\y", r"there is no escape \y"),
        (r"[\8]", r"there is no escape \8"),
        (r"\l\u\L\U", r"there is no escape \l"),
        (r"\400", r"\400 in the pattern is no byte"),
        (r"[\777]", r"\777 in the pattern is no byte"),
        ("a**", "a repetition in the pattern is repeated"),
        ("a*{2}", "a repetition in the pattern is repeated"),
        ("a+?+", "a repetition in the pattern is repeated"),
        ("a{2}{3}", "a repetition in the pattern is repeated"),
        ("a{2}?*", "a repetition in the pattern is repeated"),
        ("(?x)a* # b\n *", "a repetition in the pattern is repeated"),
    ] {
        for pcre in [pcre.to_owned(), format!("(?=){pcre}")] {
            let refused = Pattern::new(&pcre).expect_err(&pcre);
            assert!(refused.contains(why), "{pcre}: {refused}");
        }
    }
    // The replacements that the messages and the guide name.
    check(r"^(?:a{2}){3}$", &[b"aaaaaa"], &[b"aaaaa"]);
    check(r"^[\377\101\-\_\/]+$", &[b"\xffA-_/"], &[b"o"]);
    check(r"^a{,3}$", &[b"a{,3}"], &[b"aa"]);
}

#[test]
fn what_nothing_here_can_do_is_refused() {
    for pcre in [
        r"\p{L}",
        "a\\",
        "(?R)",
        "(",
        "[b-a]",
        r"\x{100}",
        "a(?x)*",
        "(?x)(",
        r"[\Q]",
        r"[a-\Qb\E]",
        r"(?=a)[\Qa]\E]",
        "[[:letter:]]",
        "[[:^letter:]]",
        "(?=a)[[:letter:]]",
        r"\x{+4}",
        r"(?=a)\x{+4}",
        r"(?=a)\x{100}",
        r"(?=a)\x{41",
        "(?=a)[b-a]",
        "[a",
        "(?=a)[a",
        r"[a\",
        r"(?=a)[a\",
        "[[:alpha:]",
        r"[\p{L}]",
        r"\PL",
        r"\c",
        r"(?=a)\c",
        "(?#a",
        "(?=a)(?#a",
        "(?=a",
        "(?=a)(?<n",
        "a)",
        "(?=a)b)",
        "*a",
        "(?=a)|*a",
        "(?=a)(?z)",
        "a{3,2}",
        "(?=a)a{3,2}",
        "(?<=x(?:a|bc))d",
        "(?<=a?)b",
        "(?<=a*)b",
        "(?<=a{1,2})b",
        r"(a)(?<=\1)b",
        r"(a)\2",
        r"(a)\8",
        r"(a)\g0",
        r"(a)\g2",
        r"(a)\ka",
        r"(?<n>a)\k<m>",
        r"(?<n>a)\k<n",
        r"\K",
        r"\G",
        r"\C",
        r"\X",
        "(?|a)",
        "(?(1)a)",
        "(?&a)",
        "(*FAIL)",
    ] {
        assert!(Pattern::new(pcre).is_err(), "{pcre}");
    }
}

#[test]
fn what_is_repeated_and_nested_has_a_limit() {
    let nested = |depth: usize| format!("(?=){}a{}", "(".repeat(depth), ")".repeat(depth));
    let counted = |count: &str| format!("(?=)a{count}");
    for (pcre, is_accepted) in [
        (nested(127), true),
        (nested(128), false),
        (counted("{1000}"), true),
        (counted("{1001}"), false),
        (counted("{2,1000}"), true),
        (counted("{2,1001}"), false),
        (counted("{1001,}"), false),
        (counted("{1}"), true),
        (counted("{1}{1}"), false),
    ] {
        assert_eq!(Pattern::new(&pcre).is_ok(), is_accepted, "{pcre}");
    }
}

/// What a search answers, and how many units it takes.
#[track_caller]
fn check_search(pcre: &str, haystack: &[u8], units_max: u64, expected: Found) -> u64 {
    let mut meter = Meter::new(units_max);
    let pattern = Pattern::new(pcre).unwrap();
    let found = pattern.search(haystack, 0, &mut [], &mut meter);
    assert_eq!(found, expected, "{pcre}: {meter:?}");
    assert_eq!(meter.gave_up(), expected == Found::GaveUp, "{pcre}");
    meter.spent()
}

/// Padding before, behind and around what a pattern looks for hides nothing, and costs in proportion to its length.
#[test]
fn look_around_is_not_outrun_by_padding() {
    const UNITS: u64 = 64 * 20_000_000;
    for (pcre, evil, clean) in [
        (r"(?<!\w)select\b(?!ed)", " select ", "selected "),
        (r"(?<!\d)\d{16}(?!\d)", " 4111111111111111 ", " 41111111111111111 "),
        (r"(?<=[\s;])(?:cat|ls)(?=\s+-)", ";ls -a", ";lsa -a"),
        (
            r"(?i)union(?!\w)(?:\s|/\*(?!\*).*\*/)+select(?<!xselect)",
            " UNION /* */ Select",
            "union",
        ),
        (r"x(?!y)(?!z)w", "xw", "xyw"),
    ] {
        for padding in ["x ", "select1 ", "1", "xy", "\n"] {
            for kilobytes in [33, 900] {
                let padding = padding.repeat(kilobytes * 1_024 / padding.len());
                let clean = format!("{padding} {clean}{padding}");
                let steps = check_search(pcre, clean.as_bytes(), UNITS, Found::No);
                let evil = format!("{padding} {evil} {padding}");
                check_search(pcre, evil.as_bytes(), UNITS, Found::Yes);
                assert!(steps <= 128 * clean.len() as u64, "{pcre}: {steps}");
            }
        }
    }
}

/// A text without what the relaxed pattern asks for takes no instruction.
#[test]
fn what_cannot_match_is_not_searched() {
    let long = "a".repeat(1 << 20);
    for pcre in [r"(?!safe)(?:a|aa)*(?:x|!)", r"(?<!\w)select\b", r"(a+)+b\1", r"(?>a*)b", r"a*+b"]
    {
        assert_eq!(check_search(pcre, long.as_bytes(), 0, Found::No), 0, "{pcre}");
    }
}

/// A search ends where the account is empty, or at its own limit, and the account knows.
#[test]
fn searches_that_explode_give_up() {
    let text = "a".repeat(64) + "b";
    let spent = check_search(r"(?!x)(a|aa)+\1c?$", text.as_bytes(), u64::MAX, Found::GaveUp);
    assert_eq!(spent, (BACKTRACK_STEPS_MAX + BACKTRACK_STEPS_PER_BYTE * text.len()) as u64);
    let spent = check_search(r"(?!x)(a|aa)+\1c?$", text.as_bytes(), 1_000, Found::GaveUp);
    assert!(spent <= 1_000 + 64, "{spent}");
    // Look-ahead without a bound, asked everywhere.
    let text = "x".repeat(20_000);
    check_search(r"x(?=.*y)", text.as_bytes(), u64::MAX, Found::GaveUp);
}
