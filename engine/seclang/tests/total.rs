//! Whatever the text: no panic, spans inside of it, linear time, and the limits hold.
#![allow(clippy::unwrap_used, reason = "a test ends at what it did not expect")]
#![allow(clippy::disallowed_methods, reason = "the tests read their data and the clock")]

mod checks;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use checks::{SOURCE, parse_lawfully};
use seclang::{DIRECTIVE_BYTES_MAX, ERRORS_MAX, LineIndex, SOURCE_BYTES_MAX, Snippet, Span, parse};

const MUTATIONS: u32 = 30_000;
/// Bytes that mean something.
const SIGNIFICANT: &[u8] = b"\"'`\\|,:/!&@#<>- \n\rS1";

fn corpus() -> Vec<Vec<u8>> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut paths: Vec<_> = ["ok", "err"]
        .into_iter()
        .flat_map(|folder| fs::read_dir(data.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "conf"))
        .collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

/// Xorshift: the same numbers on every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound.max(1) as u64).unwrap()
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    let at = random.below(bytes.len());
    let other = random.below(bytes.len());
    let significant = SIGNIFICANT[random.below(SIGNIFICANT.len())];
    match random.below(5) {
        _ if bytes.is_empty() => bytes.push(significant),
        0 => drop(bytes.remove(at)),
        1 => bytes.insert(at, bytes[at]),
        2 => bytes.swap(at, other),
        3 => bytes.insert(at, significant),
        _ => bytes[at] = significant,
    }
}

#[test]
fn mutated_texts_keep_the_laws() {
    let corpus = corpus();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for _ in 0..MUTATIONS {
        let mut bytes = corpus[random.below(corpus.len())].clone();
        for _ in 0..=random.below(6) {
            mutate(&mut bytes, &mut random);
        }
        let text = String::from_utf8_lossy(&bytes);
        let parse = parse_lawfully(&text);
        let index = LineIndex::new(&text);
        for error in &parse.errors {
            let snippet = Snippet::new("f", &text, &index, error.span, &error.message).to_string();
            assert!(snippet.contains('^'));
        }
    }
}

/// Beginnings of directives, and what has a meaning in some place of them.
const BEGINNINGS: &[&str] = &[
    "SecRule ARGS ",
    "SecRule ARGS x \"a:",
    "SecRule ARGS x 'msg:\\'",
    "SecRule ARGS:",
    "SecRule \"ARGS:/",
    "SecRule \"ARGS:'",
    "SecAction `",
    "SecX ",
    "SecX `\n",
    "SecRuleUpdateTargetById 1 ",
    "SecRuleUpdateActionById ",
    "SecRuleRemoveById ",
    "SecMarker ",
    "Include ",
    "#SecRule \\\n",
    "<a>\n",
];
const PIECES: &[&str] = &[
    "\"", "'", "`", "\\", "|", ",", ":", "/", "!", "&", "@", "#", "<", "-", " ", "\n", "\r", "\t",
    "1", "a", "é", "ARGS", "XML:", "rx", "\\\"", "\\'", "\\/", "\\\n", "\"\n", "'\"\n", "\" \"",
];

#[test]
fn texts_of_significant_pieces_keep_the_laws() {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for _ in 0..MUTATIONS {
        let mut text = String::new();
        for _ in 0..=random.below(2) {
            text.push_str(BEGINNINGS[random.below(BEGINNINGS.len())]);
            for _ in 0..random.below(14) {
                text.push_str(PIECES[random.below(PIECES.len())]);
            }
            text.push('\n');
        }
        let _ = parse_lawfully(&text);
    }
}

/// Texts that take quadratic time if something is looked for again and again: then this test
/// would take minutes.
#[test]
fn hostile_texts_take_linear_time() {
    let texts = [
        "SecDataset x `\n".repeat(200_000),
        "`\n".repeat(1_000_000),
        "SecRule A \\\n".repeat(200_000),
        "#SecRule \\\n".repeat(200_000),
        "\\\n".repeat(1_000_000),
        "SecRule \"".repeat(200_000),
        format!("SecRule \"{}\" x", "A|".repeat(500_000)),
        format!("SecRule A {}", "\\\"\\\n".repeat(200_000)),
        format!("SecRule A x \"{}", "a:'\\'',\\\n".repeat(100_000)),
        format!("SecRule A:/{}/ x", "\\/".repeat(500_000)),
        format!("SecRuleRemoveById {}", "1 ".repeat(500_000)),
        format!("SecX {}", "` ".repeat(500_000)),
    ];
    let begin = Instant::now();
    for text in &texts {
        let _ = parse(SOURCE, text);
    }
    assert!(begin.elapsed() < Duration::from_secs(30), "{:?}", begin.elapsed());
}

#[test]
fn a_source_at_the_limit_is_read_and_a_longer_one_is_refused() {
    let mut text = "SecMarker A\n".to_owned();
    text.push_str(&"#".repeat(SOURCE_BYTES_MAX - text.len()));
    let read = parse(SOURCE, &text);
    assert_eq!((read.directives.len(), read.errors.len()), (1, 0));
    text.push('#');
    let refused = parse(SOURCE, &text);
    assert_eq!((refused.directives.len(), refused.errors.len()), (0, 1));
    assert_eq!(refused.errors[0].span, Span { source: SOURCE, start: 0, end: 0 });
}

#[test]
fn a_directive_at_the_limit_is_read_and_a_longer_one_is_refused() {
    let at_limit = |extra: usize| {
        let name = "SecX ";
        format!("{name}{}\nSecMarker A\n", "a".repeat(DIRECTIVE_BYTES_MAX - name.len() + extra))
    };
    let read = parse(SOURCE, &at_limit(0));
    assert_eq!((read.directives.len(), read.errors.len()), (2, 0));
    let refused = parse(SOURCE, &at_limit(1));
    assert_eq!((refused.directives.len(), refused.errors.len()), (1, 1));

    let block = format!("SecDataset x `\n{}`\nSecMarker A\n", "aaaaaaa\n".repeat(1 << 18));
    let refused = parse(SOURCE, &block);
    assert_eq!((refused.directives.len(), refused.errors.len()), (1, 1));
}

#[test]
fn errors_beyond_the_limit_are_not_recorded_but_reading_goes_on() {
    let text = format!("{}SecMarker A\n", "1\n".repeat(ERRORS_MAX + 50));
    let parse = parse_lawfully(&text);
    assert_eq!((parse.directives.len(), parse.errors.len()), (1, ERRORS_MAX));
}
