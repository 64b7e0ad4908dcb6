//! What is known of short texts that came before.
//!
//! Browsers send the same headers with each request, and clients of an interface the same names of
//! arguments. Which rules match such a text, whatever else is in the request, depends on the text alone: it
//! is found once, and kept. The law is that of [`crate::scan`]: a rule that matches is named.
//!
//! Kept are names, the method, the protocol, and the values of headers that tell the kind of client
//! ([`is_common_header`]): no values of cookies or arguments, nothing that lets somebody in, and nothing that
//! came only once. What an answer costs tells little more, then, than which browsers others use.
//!
//! Source for the headers: RFC 9110, Fetch Metadata, User-Agent Client Hints.

use core::fmt;

use regex_automata::util::pool::Pool;

use crate::{
    id::{LaneId, RuleIndex, RuleSet},
    operator::Operator,
    program::Rule,
    scan::ByteSet,
    variable::Variable,
};

/// Bytes of the longest text that is kept.
pub(crate) const TEXT_BYTES_MAX: usize = 256;

/// Texts that one transaction may add: each is changed by every chain of transformations, and all rules with
/// cells are asked about it.
pub(crate) const LEARNED_MAX: usize = 2;

/// Groups of places, of which a text belongs to one.
const SETS: usize = 256;

/// Texts of one group.
const WAYS: usize = 4;

/// Texts of which is known that they came.
const SEEN: usize = 4096;

/// How often a text must be of use to be as hard to replace as any.
const USES_MAX: u8 = 15;

/// The rules of which is known whether they match a text, and what is known.
pub(crate) struct Recall {
    /// By their chain of transformations.
    pub(crate) lanes: Vec<(LaneId, Vec<RuleIndex>)>,
    /// Those whose operator depends on the text alone: for the others, what their gates say is kept.
    pub(crate) exact: RuleSet,
    /// One for each worker.
    tables: Pool<Table, fn() -> Table>,
}

impl fmt::Debug for Recall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recall").field("lanes", &self.lanes.len()).finish_non_exhaustive()
    }
}

impl Recall {
    /// For the rules that have cells; `None` where there are none.
    pub(crate) fn new(rules: &[Rule]) -> Option<Self> {
        let mut lanes: Vec<(LaneId, Vec<RuleIndex>)> = Vec::new();
        let mut exact = RuleSet::default();
        for (index, rule) in rules.iter().enumerate() {
            let index = RuleIndex::from_usize(index);
            if rule.gate.cells().is_none() {
                continue;
            }
            // The steps of a back-tracking pattern are charged whether its answer was known or not, so it is run.
            let is_exact =
                |operator: &Operator| operator.looks_at_the_value_alone() && !operator.backtracks();
            if rule.operator.as_ref().is_some_and(is_exact) {
                exact.insert(index);
            }
            match lanes.iter_mut().find(|(lane, _)| *lane == rule.lane) {
                Some((_, rules)) => rules.push(index),
                None => lanes.push((rule.lane, vec![index])),
            }
        }
        let tables = Pool::new(Table::default as fn() -> Table);
        (!lanes.is_empty()).then_some(Self { lanes, exact, tables })
    }

    /// The price of a text, whether something is known of it or not: a look by each chain of transformations.
    pub(crate) fn steps(&self) -> u64 {
        1 + self.lanes.len() as u64
    }

    /// What this worker knows.
    pub(crate) fn table(&self) -> impl core::ops::DerefMut<Target = Table> + '_ {
        self.tables.get()
    }
}

/// What one worker knows of texts.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// [`WAYS`] places for each of [`SETS`], made when the first text is kept.
    places: Vec<Option<Known>>,
    /// For each of [`SEEN`], part of the hash of the text that came last.
    seen: Vec<u16>,
}

#[derive(Debug)]
struct Known {
    hash: u64,
    text: Box<[u8]>,
    bytes: ByteSet,
    /// The rules that may match it, as bits.
    rules: Box<[u64]>,
    uses: u8,
}

/// What is known of a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<'t> {
    /// Its bytes in both cases, and the rules that may match it, as bits.
    Known(ByteSet, &'t [u64]),
    /// It came before.
    Seen,
    New,
}

impl Table {
    /// Looks a text up, and notes that it came.
    pub(crate) fn look_up(&mut self, text: &[u8]) -> Answer<'_> {
        let hash = hash(text);
        let known = self.places.get_mut(set_of(hash)).unwrap_or_default();
        let found = known.iter_mut().flatten().find(|known| known.is(hash, text));
        if let Some(place) = found {
            place.uses = place.uses.saturating_add(1).min(USES_MAX);
            return Answer::Known(place.bytes, &place.rules);
        }
        if self.seen.is_empty() {
            self.seen.resize(SEEN, 0);
        }
        // 0 says that nothing came.
        let tag = (hash >> 48) as u16 | 1;
        let Some(seen) = self.seen.get_mut(hash as usize % SEEN) else { return Answer::New };
        if core::mem::replace(seen, tag) == tag { Answer::Seen } else { Answer::New }
    }

    /// Keeps what is known of a text, in place of the one of its set that was of least use. Those that stay
    /// are worth less from then on, so that none stays that no longer comes.
    pub(crate) fn keep(&mut self, text: &[u8], bytes: ByteSet, rules: &[u64]) {
        if self.places.is_empty() {
            self.places.resize_with(SETS * WAYS, || None);
        }
        let hash = hash(text);
        let set = self.places.get_mut(set_of(hash)).unwrap_or_default();
        let worth = |place: &Option<Known>| place.as_ref().map_or(0, |known| 1 + known.uses);
        let least = set.iter().map(worth).enumerate().min_by_key(|&(_, worth)| worth);
        for known in set.iter_mut().flatten() {
            known.uses /= 2;
        }
        if let Some(place) = least.and_then(|(least, _)| set.get_mut(least)) {
            *place = Some(Known { hash, text: text.into(), bytes, rules: rules.into(), uses: 0 });
        }
    }
}

impl Known {
    fn is(&self, hash: u64, text: &[u8]) -> bool {
        self.hash == hash && *self.text == *text
    }
}

/// The places of the texts of one hash.
const fn set_of(hash: u64) -> core::ops::Range<usize> {
    let first = (hash >> 32) as usize % SETS * WAYS;
    first..first + WAYS
}

/// Mixes eight bytes at a time. That texts of one hash can be made does not matter: texts are compared, and
/// those of one set take the place of each other, nothing more.
fn hash(text: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, word: u64| (hash.rotate_left(29) ^ word).wrapping_mul(FACTOR);
    let (words, rest) = text.as_chunks::<8>();
    let hash =
        words.iter().fold(text.len() as u64, |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    let hash = mix(hash, u64::from_le_bytes(last));
    hash ^ hash >> 32
}

/// Headers that say the same for many clients, and nothing about one of them.
const COMMON: [&[u8]; 20] = [
    b"cache-control",
    b"connection",
    b"content-type",
    b"device-memory",
    b"dnt",
    b"downlink",
    b"ect",
    b"host",
    b"origin",
    b"pragma",
    b"priority",
    b"rtt",
    b"save-data",
    b"te",
    b"upgrade",
    b"upgrade-insecure-requests",
    b"user-agent",
    b"via",
    b"x-forwarded-proto",
    b"x-requested-with",
];

/// Whether values of a variable, or some of them, are kept.
pub(crate) const fn may_be_recalled(variable: Variable) -> bool {
    matches!(
        variable,
        Variable::ArgsGetNames
            | Variable::ArgsNames
            | Variable::ArgsPostNames
            | Variable::RequestCookiesNames
            | Variable::RequestHeaders
            | Variable::RequestHeadersNames
            | Variable::RequestMethod
            | Variable::RequestProtocol
    )
}

/// How names of such headers begin, which are families of them.
const COMMON_FAMILIES: [&[u8]; 2] = [b"accept", b"sec-"];

/// Whether what is known of a header's values is kept. The keys of WebSocket handshakes do not come again.
pub(crate) fn is_common_header(name: &[u8]) -> bool {
    let begins = |start: &&[u8]| {
        name.get(..start.len()).is_some_and(|name| name.eq_ignore_ascii_case(start))
    };
    COMMON_FAMILIES.iter().any(begins)
        || COMMON.iter().any(|common| name.eq_ignore_ascii_case(common))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_whose_values_are_kept() {
        for (name, expected) in [
            ("User-Agent", true),
            ("accept", true),
            ("Accept-Language", true),
            ("sec-ch-ua-mobile", true),
            ("SEC-FETCH-SITE", true),
            ("Host", true),
            ("Cookie", false),
            ("Authorization", false),
            ("Proxy-Authorization", false),
            ("Referer", false),
            ("X-Api-Key", false),
            ("X-Forwarded-For", false),
            ("se", false),
            ("", false),
        ] {
            assert_eq!(is_common_header(name.as_bytes()), expected, "{name}");
        }
    }

    #[test]
    fn a_text_is_kept_when_somebody_says_so() {
        let mut table = Table::default();
        assert_eq!(table.look_up(b"gzip"), Answer::New);
        assert_eq!(table.look_up(b"gzip"), Answer::Seen);
        assert_eq!(table.look_up(b""), Answer::New);
        table.keep(b"gzip", ByteSet::EMPTY, &[1, 2]);
        assert_eq!(table.look_up(b"gzip"), Answer::Known(ByteSet::EMPTY, &[1, 2]));
        assert_eq!(table.look_up(b"gzip\0"), Answer::New, "not the same text");
        table.keep(b"", ByteSet::ALL, &[0, 0]);
        assert_eq!(table.look_up(b""), Answer::Known(ByteSet::ALL, &[0, 0]));
    }

    #[test]
    fn what_is_kept_has_a_limit_and_what_is_used_stays() {
        let mut table = Table::default();
        table.keep(b"used", ByteSet::EMPTY, &[7]);
        for number in 0..20_000_u32 {
            assert_eq!(table.look_up(b"used"), Answer::Known(ByteSet::EMPTY, &[7]), "{number}");
            let text = number.to_be_bytes();
            table.look_up(&text);
            table.keep(&text, ByteSet::EMPTY, &[0]);
        }
        assert_eq!(table.places.len(), SETS * WAYS);
        assert_eq!(table.seen.len(), SEEN);
        for number in 20_000..40_000_u32 {
            table.keep(&number.to_be_bytes(), ByteSet::EMPTY, &[0]);
        }
        assert!(!matches!(table.look_up(b"used"), Answer::Known(..)), "what no longer comes goes");
    }
}
