//! Both ways to match by steps, against each other and against automata.

use super::*;

const STEPS: usize = 100_000;
const BYTES: usize = 1 << 20;
const METER: fn() -> crate::pattern::Meter = crate::pattern::Meter::at_compile_time;

fn search(
    pattern: &Backtracker,
    text: &[u8],
    mut steps: usize,
    groups: &mut [Option<(usize, usize)>],
) -> Found {
    pattern.search(text, 0, &mut steps, groups, |at, _| Some(at))
}

/// Pattern, text, and the ranges of the groups (`None` for no match).
#[track_caller]
fn check(pcre: &str, text: &str, expected: Option<&[Option<(usize, usize)>]>) {
    let pattern = Backtracker::new(pcre.as_bytes(), BYTES).unwrap();
    let mut groups = vec![None; pattern.groups];
    let found = search(&pattern, text.as_bytes(), STEPS, &mut groups);
    let seen = (found == Found::Yes).then_some(groups.as_slice());
    assert_eq!(seen, expected, "{pcre} on {text:?}");
}

#[test]
fn what_automata_cannot_do() {
    check("a(?=b)", "acab", Some(&[Some((2, 3))]));
    check("a(?!b)", "abac", Some(&[Some((2, 3))]));
    check("(?<=a)b", "bab", Some(&[Some((2, 3))]));
    check("(?<!a)b", "abcb", Some(&[Some((3, 4))]));
    check("(?<=ab|c)d", "cd", Some(&[Some((1, 2))]));
    check("(?<!ab|c)d", "cdabd", None);
    check(r"(a|b)\1", "abb", Some(&[Some((1, 3)), Some((1, 2))]));
    check(r"(?i)(a)\1", "aA", Some(&[Some((0, 2)), Some((0, 1))]));
    check("(?>a+)ab", "aaab", None);
    check("a++b", "aab", Some(&[Some((0, 3))]));
    check("a*+a", "aaa", None);
    check(r"(?=(a+))\1b", "aab", Some(&[Some((0, 3)), Some((0, 2))]));
    check(r"^(?!.*evil).*$", "good", Some(&[Some((0, 4))]));
    check(r"^(?!.*evil).*$", "an evil", None);
}

#[test]
fn what_automata_can_do_comes_out_the_same() {
    for (pcre, text) in [
        ("a|ab|c", "xab"),
        ("(a*)*b", "aaab"),
        ("(a|b)*?c", "abc"),
        (r"\bfoo\b", "a foo."),
        (r"[[:alpha:]_-]{2,3}", "1ab-c"),
        (r"(?i)SeL[^a]ct", "xselect"),
        (r"^\s*\d+$", "  12"),
        (r"(?m)^b$", "a\nb\nc"),
        ("x{0}y", "xy"),
        ("(?:)", ""),
        (r"[^\x00-\x1f]\x41?", "\u{1}bA"),
        ("[a[:]b]", "x[b]"),
        ("a{2,}?b", "aaab"),
        ("(?x)a\x0b\x0c + ? [ ] b # c\n\td", "aa bd"),
        ("(a (?x) b ) c", "a b c"),
    ] {
        let automaton = crate::pattern::Pattern::new(pcre).unwrap();
        let mut expected = [None; 10];
        let matched = automaton.search(text.as_bytes(), 0, &mut expected, &mut METER());
        let pattern = Backtracker::new(pcre.as_bytes(), BYTES).unwrap();
        let mut groups = [None; 10];
        let found = search(&pattern, text.as_bytes(), STEPS, &mut groups);
        assert_eq!(found, matched, "{pcre}");
        assert_eq!(groups[0], expected[0], "{pcre}");
    }
}

/// Both matchers must find the same match of random patterns that both can do.
#[test]
fn random_patterns_come_out_the_same() {
    const PIECES: &[&str] = &[
        "a", "b", "ab", ".", "[ab]", "[^a]", "(a)", "(?:a|b)", "(a|ab)", "(?i:A)", "^", "$", r"\b",
        r"\w", r"\x61", "a|", "|b",
    ];
    const COUNTS: &[&str] = &["", "", "", "*", "+", "?", "*?", "+?", "{2}", "{0,2}", "{1,}"];
    let mut numbers = crate::xorshift::Xorshift(0x2545_F491_4F6C_DD1D);
    let mut random = |bound: usize| numbers.below(bound);
    let mut compared = 0;
    for _ in 0..3_000 {
        let mut pcre = String::new();
        for _ in 0..=random(5) {
            pcre += PIECES[random(PIECES.len())];
            // A count behind a bar or an anchor is another matter in each syntax.
            if pcre.ends_with(['a', 'b', '.', ']', ')']) && !pcre.ends_with(r"\b") {
                pcre += COUNTS[random(COUNTS.len())];
            }
        }
        let (Ok(automaton), Ok(backtracker)) =
            (crate::pattern::Pattern::new(&pcre), Backtracker::new(pcre.as_bytes(), BYTES))
        else {
            continue;
        };
        for _ in 0..8 {
            let text: Vec<u8> = (0..random(7)).map(|_| b"abAB \n"[random(6)]).collect();
            let mut expected = [None; 10];
            let matched = automaton.search(&text, 0, &mut expected, &mut METER());
            let mut groups = [None; 10];
            let found = search(&backtracker, &text, STEPS, &mut groups);
            assert_eq!(found, matched, "{pcre} on {text:?}");
            assert_eq!(groups[0], expected[0], "{pcre} on {text:?}");
            compared += 1;
        }
    }
    assert!(compared > 20_000, "{compared}");
}

/// Threads find the match that back-tracking finds, of random patterns with look-around, and the relaxed pattern
/// has one that begins there.
#[test]
fn threads_find_what_backtracking_finds() {
    const PIECES: &[&str] = &[
        "a",
        "b",
        "ab",
        ".",
        "[ab]",
        "[^a]",
        "(a)",
        "(?:a|b)",
        "(a|ab)",
        "(?i:A)",
        "^",
        "$",
        r"\b",
        r"\B",
        r"\w",
        "a|",
        "|b",
        "(?=a)",
        "(?!b)",
        "(?<=a)",
        "(?<!b)",
        "(?<=ab|b)",
        "(?<!a|ab)",
        "(?!ab$)",
        "(?=.*b)",
        "(?!(?=a)a)",
        "(?<!(?<=b)a)",
        "(?:a|b(?!a))",
    ];
    const COUNTS: &[&str] = &["", "", "", "*", "+", "?", "*?", "+?", "{2}", "{0,2}", "{1,}"];
    let mut numbers = crate::xorshift::Xorshift(0x9E37_79B9_7F4A_7C15);
    let mut random = |bound: usize| numbers.below(bound);
    let mut compared = 0;
    for _ in 0..6_000 {
        let mut pcre = String::new();
        for _ in 0..=random(5) {
            let piece = PIECES[random(PIECES.len())];
            pcre += piece;
            if piece.ends_with(['a', 'b', '.', ']', ')']) && !piece.starts_with(['\\', '|']) {
                pcre += COUNTS[random(COUNTS.len())];
            }
        }
        let Ok(pattern) = Backtracker::new(pcre.as_bytes(), BYTES) else { continue };
        assert!(pattern.is_regular(), "{pcre}");
        let relaxed = crate::pattern::relaxed::relaxed(&tree(pcre.as_bytes()).unwrap());
        let relaxed = regex_automata::meta::Regex::builder().build_from_hir(&relaxed).unwrap();
        for _ in 0..8 {
            let text: Vec<u8> = (0..random(8)).map(|_| b"abAB \n"[random(6)]).collect();
            let mut groups = [None; 1];
            let expected = search(&pattern, &text, STEPS, &mut groups);
            let threads = pattern.search_threads(&text, 0, &mut { STEPS }, |at, _| Some(at));
            assert_eq!(threads.0, expected, "{pcre} on {text:?}");
            if let [Some((start, end))] = groups {
                assert_eq!(threads.1.map(|range| range.0), Some(start), "{pcre} on {text:?}");
                assert_eq!(threads.1.map(|range| range.1), Some(end), "{pcre} on {text:?}");
                let input = regex_automata::Input::new(&text);
                let found = relaxed.search(&input).map(|found| found.start());
                assert!(found.is_some_and(|found| found <= start), "{pcre} on {text:?}");
            }
            compared += 1;
        }
    }
    assert!(compared > 20_000, "{compared}");
}

#[test]
fn a_search_that_explodes_gives_up() {
    let pattern = Backtracker::new(br"(?!x)(a+)+$", BYTES).unwrap();
    let text = [b"a".repeat(40), b"b".to_vec()].concat();
    assert_eq!(search(&pattern, &text, STEPS, &mut [None; 2]), Found::GaveUp);
}

/// Clearing and copying many slots takes steps too.
#[test]
fn many_slots_take_steps() {
    let text = b"a".repeat(100);
    for (slots, expected) in [(10, Found::No), (1_000, Found::GaveUp)] {
        let pcre = format!("(?=c){}", "b*".repeat(slots));
        let pattern = Backtracker::new(pcre.as_bytes(), BYTES).unwrap();
        assert_eq!(search(&pattern, &text, 500, &mut []), expected, "{slots}");
    }
}

/// What is walked by recursion, or grows with each count, has an end.
#[test]
fn what_is_too_large_is_refused() {
    let deep = format!("(?=){}a{}", "(".repeat(500), ")".repeat(500));
    let repeated = format!("(?=)a{}", "*".repeat(100_000));
    let long = format!("(?<={}a{})", "(?:".repeat(30), "){1000}".repeat(30));
    for pcre in [&*deep, &*repeated, &*long, "(?=)(?:a{1000}){1000}"] {
        assert!(Backtracker::new(pcre.as_bytes(), BYTES).is_err(), "{pcre:.40}");
    }
    assert!(Backtracker::new(b"(?=)a{30}", 100).is_err());
    assert!(Backtracker::new(b"(?=)a{2}{2}?", BYTES).is_err());
}

#[test]
fn what_is_not_supported_is_refused() {
    for pcre in [
        "(?R)", "(?(1)a)", "(?|a)", r"\K", "(?<=a+)b", "(*FAIL)", r"\p{L}", "(", "a)", "[a", "*a",
        r"\2",
    ] {
        assert!(Backtracker::new(pcre.as_bytes(), BYTES).is_err(), "{pcre}");
    }
}
