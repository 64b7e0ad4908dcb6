//! Numbers that must not be mixed up, each a type of its own.

use core::fmt;

/// The id that the author of a rule gave it (`id:942100`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub u32);

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Position of a rule in [`crate::Program`]: chained rules have one each, following their starter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RuleIndex(pub(crate) u32);

impl RuleIndex {
    pub(crate) fn from_usize(index: usize) -> Self {
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    pub(crate) const fn get(self) -> usize {
        self.0 as usize
    }
}

/// A chain of transformations that at least one rule applies. Lane 0 is the empty chain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct LaneId(pub(crate) u16);

impl LaneId {
    pub(crate) const NONE: Self = Self(0);

    pub(crate) const fn get(self) -> usize {
        self.0 as usize
    }
}

/// A member of `TX` whose name is written in the rules, so that its place is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct TxSlot(pub(crate) u16);

impl TxSlot {
    pub(crate) const fn get(self) -> usize {
        self.0 as usize
    }
}

/// A set of rules, as bits over [`RuleIndex`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RuleSet {
    words: Vec<u64>,
}

impl RuleSet {
    pub(crate) fn insert(&mut self, rule: RuleIndex) {
        let word = rule.get() / 64;
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        if let Some(bits) = self.words.get_mut(word) {
            *bits |= 1 << (rule.get() % 64);
        }
    }

    pub(crate) fn contains(&self, rule: RuleIndex) -> bool {
        self.words.get(rule.get() / 64).is_some_and(|bits| bits & (1 << (rule.get() % 64)) != 0)
    }

    pub(crate) fn extend(&mut self, other: &Self) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
    }

    /// Whether no rule is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.words.iter().all(|&bits| bits == 0)
    }

    /// Empties the set and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The bits, 64 rules to a word.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The rule that follows the next `count` of them behind `rule`.
    pub(crate) fn after(&self, rule: RuleIndex, count: u32) -> usize {
        let mut at = rule.get() + 1;
        for _ in 0..count {
            match next_bit(&self.words, at) {
                Some(bit) => at = bit + 1,
                None => return usize::MAX,
            }
        }
        at
    }
}

/// The first bit that is set, from `at` on.
pub(crate) fn next_bit(words: &[u64], at: usize) -> Option<usize> {
    let mut word = at / 64;
    let mut bits = words.get(word)? & (u64::MAX << (at % 64));
    while bits == 0 {
        word += 1;
        bits = *words.get(word)?;
    }
    Some(word * 64 + bits.trailing_zeros() as usize)
}

/// The five phases of a transaction (ModSecurity reference manual, "Processing Phases").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// 1: the request line and headers are known.
    RequestHeaders,
    /// 2: the request body is known.
    RequestBody,
    /// 3: the response status and headers are known.
    ResponseHeaders,
    /// 4: the response body is known.
    ResponseBody,
    /// 5: all is over; rules can look and log, no longer block.
    Logging,
}

impl Phase {
    /// Every phase, in order.
    pub const ALL: [Self; 5] = [
        Self::RequestHeaders,
        Self::RequestBody,
        Self::ResponseHeaders,
        Self::ResponseBody,
        Self::Logging,
    ];

    /// 1 to 5.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::RequestHeaders => 1,
            Self::RequestBody => 2,
            Self::ResponseHeaders => 3,
            Self::ResponseBody => 4,
            Self::Logging => 5,
        }
    }

    pub(crate) const fn index(self) -> usize {
        self.number() as usize - 1
    }

    /// The phase named `1` to `5`, `request`, `response` or `logging`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "1" => Self::RequestHeaders,
            "2" | "request" => Self::RequestBody,
            "3" => Self::ResponseHeaders,
            "4" | "response" => Self::ResponseBody,
            "5" | "logging" => Self::Logging,
            _ => return None,
        })
    }
}
