//! The names are those of the crate `libinjectionrs`, which can only be asked for each.

use std::collections::BTreeSet;

use libinjectionrs::XssDetector;
use libinjectionrs::xss::Html5Flags;

use super::super::{detect, tests::near};
use super::{COMPARISONS, EVENTS, NAMES, starts_with_event};

/// Whether the crate takes some beginning of a word for an event: it compares whole names.
fn is_event_of_the_crate(word: &[u8]) -> bool {
    (1..=word.len()).any(|length| {
        let attribute = [&b"on"[..], &word[..length], b"=x"].concat();
        XssDetector::is_xss(&attribute, Html5Flags::ValueNoQuote)
    })
}

#[track_caller]
fn compare(word: &[u8]) {
    let shown = word.escape_ascii();
    assert_eq!(starts_with_event(word), is_event_of_the_crate(word), "{shown}");
    assert_eq!(starts_with_event(&word.to_ascii_uppercase()), starts_with_event(word), "{shown}");
}

#[test]
fn events_are_those_of_the_crate() {
    let names: BTreeSet<&str> = NAMES.split_ascii_whitespace().collect();
    assert_eq!((names.len(), EVENTS.len()), (298, 254));
    for name in names {
        assert!(starts_with_event(name.as_bytes()), "{name}");
        assert!(starts_with_event(format!("{name}[").as_bytes()), "{name}");
        let attribute = format!("on{name}=x");
        assert!(XssDetector::is_xss(attribute.as_bytes(), Html5Flags::ValueNoQuote), "{name}");
        for word in near(name.as_bytes()) {
            compare(&word);
        }
    }
}

/// So the list has no name of up to four letters too few, and no short one too many.
#[test]
fn short_words_are_events_where_they_are_in_the_crate() {
    let mut words: Vec<Vec<u8>> = vec![Vec::new()];
    for _ in 0..4 {
        let letters = b'a'..=b'z';
        words = words
            .iter()
            .flat_map(|word| letters.clone().map(move |letter| [&word[..], &[letter]].concat()))
            .collect();
        words.iter().for_each(|word| compare(word));
    }
}

/// However many names there are in a value, each is compared with as few as it takes to find its place
/// among the events, once in each way to read the value.
#[test]
fn long_values_are_compared_with_few_names() {
    const READINGS: usize = 5;
    const PIECES: usize = 5_000;
    /// Halving some hundreds takes no more.
    const COMPARISONS_MAX: usize = 10;
    for piece in [
        "onaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1 ",
        "onaaaaaa='1' ",
        "onwebkitfullscreenchang=1 ",
        "onzzz/onzzz=1 ",
        "on\0=1 ",
        "attributename=onaaaaaaaaaa ",
    ] {
        // The quotes end the values that the other readings begin in.
        let value = format!("<a '\"` {}", piece.repeat(PIECES));
        COMPARISONS.set(0);
        assert!(!detect(value.as_bytes()), "{piece}");
        let compared = COMPARISONS.get();
        let expected = READINGS * PIECES..=READINGS * PIECES * COMPARISONS_MAX;
        assert!(expected.contains(&compared), "{piece}: {compared} comparisons");
    }
}
