//! Words, and what is made of them: slugs, paths, sentences, prose.
//!
//! A tenth of the words are those that attacks are made of (`select`, `script`, `system`): in a
//! text without any of them, engines that look for such words first would be measured at their best.

use crate::random::Random;

const PLAIN: &[&str] = &[
    "apple", "autumn", "balance", "basket", "bicycle", "blanket", "bottle", "bread", "bridge",
    "bright", "brown", "candle", "canvas", "carpet", "castle", "ceramic", "chair", "cherry",
    "circle", "classic", "clever", "coffee", "comfort", "copper", "corner", "cotton", "country",
    "cream", "crystal", "curtain", "deep", "delivery", "desert", "dinner", "double", "dream",
    "early", "eastern", "elegant", "evening", "family", "feather", "field", "finger", "flower",
    "forest", "fresh", "friend", "garden", "gentle", "glass", "golden", "grain", "green", "handle",
    "harbor", "harvest", "heavy", "honey", "island", "jacket", "journey", "kettle", "kitchen",
    "ladder", "lantern", "leather", "lemon", "letter", "linen", "little", "marble", "meadow",
    "memory", "mirror", "modern", "morning", "mountain", "music", "narrow", "needle", "northern",
    "ocean", "olive", "orange", "oven", "paper", "pattern", "pepper", "picture", "pillow",
    "planet", "pocket", "quality", "quiet", "rabbit", "rainy", "ribbon", "river", "rounded",
    "saddle", "season", "shadow", "silver", "simple", "smooth", "soft", "spring", "square",
    "station", "stone", "story", "strong", "summer", "sunny", "tailor", "teapot", "thunder",
    "timber", "travel", "turtle", "valley", "velvet", "violet", "warm", "water", "weekend",
    "western", "window", "winter", "wooden", "woollen", "yellow", "young",
];

const LINKING: &[&str] = &[
    "the", "a", "in", "on", "with", "for", "very", "much", "more", "than", "was", "is", "that",
    "this", "they", "we", "it", "its", "our", "their", "after", "before", "again", "because",
];

const LOADED: &[&str] = &[
    "select", "table", "order", "group", "script", "alert", "system", "update", "drop", "count",
    "document", "function", "include", "process", "sleep", "query", "value", "object", "style",
    "frame", "window", "location", "shell", "root", "admin", "version", "create", "require",
];

pub(crate) fn word(random: &mut Random) -> &'static str {
    random.pick(PLAIN)
}

/// From `low` to `high` words of any kind.
pub(crate) fn words(random: &mut Random, low: usize, high: usize) -> String {
    let count = random.between(low, high);
    let words: Vec<&str> = (0..count)
        .map(|_| match random.between(0, 9) {
            0 => random.pick(LOADED),
            1..=3 => random.pick(LINKING),
            _ => random.pick(PLAIN),
        })
        .collect();
    words.join(" ")
}

/// Words as an address has them: `blue-kettle-2041`.
pub(crate) fn slug(random: &mut Random) -> String {
    let number = random.between(10, 9_999);
    format!("{}-{}-{number}", word(random), word(random))
}

/// The path of a page.
pub(crate) fn path(random: &mut Random) -> String {
    match random.between(0, 5) {
        0 => "/".to_owned(),
        1 => format!("/products/{}", slug(random)),
        2 => format!("/category/{}/{}", word(random), word(random)),
        3 => format!(
            "/blog/{}/{:02}/{}",
            random.between(2019, 2026),
            random.between(1, 12),
            slug(random)
        ),
        4 => "/search".to_owned(),
        _ => format!("/account/orders/{}", random.between(100_000, 999_999)),
    }
}

/// A sentence, with its punctuation.
pub(crate) fn sentence(random: &mut Random) -> String {
    let mut sentence = words(random, 4, 9);
    if let Some(first) = sentence.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    if random.chance(50) {
        sentence += ", ";
        sentence += &words(random, 3, 8);
    }
    sentence.push(random.pick(&['.', '.', '.', '!', '?']));
    sentence
}

/// Sentences of `bytes` bytes together, the last one cut.
pub(crate) fn prose(random: &mut Random, bytes: usize) -> String {
    let mut prose = String::with_capacity(bytes + 128);
    while prose.len() < bytes {
        if !prose.is_empty() {
            prose.push(' ');
        }
        prose += &sentence(random);
    }
    prose.truncate(bytes);
    prose
}
