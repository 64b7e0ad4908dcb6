//! The texts of all rules as one automaton, and which rules each of them names.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use aho_corasick::{
    Anchored, MatchKind,
    automaton::{Automaton as _, StateID},
    dfa::DFA,
};

use super::window;
use crate::{id::RuleIndex, parts::Parts};

/// Values from so many bytes on are looked through at several places at once. The next row is known when the one
/// before it has come from memory: with several such walks a processor waits for all of them together.
const WALKS_BYTES_MIN: usize = 256;

/// Texts that have a window in common and are told apart when it is found. Of more, finding it is enough.
const SIBLINGS_MAX: usize = 64;

/// Tells which rules may match a value, by the texts they need.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Finds the texts.
    table: Option<Arc<Table>>,
    /// By state in which windows end: the rules that this alone names.
    named: Postings,
    /// By text: the rules that need it, if it is to be compared.
    compared: Postings,
}

/// Lists of rules. Most are those of a single rule, and come again and again.
#[derive(Debug, Default)]
struct Postings {
    /// Which list each one is.
    lists: Vec<u16>,
    /// Where each of them ends in `rules`: it begins where the one before it does.
    ends: Vec<u32>,
    rules: Vec<u16>,
}

impl Postings {
    /// `None` where they are too many.
    fn new(all: impl IntoIterator<Item = Vec<u16>>) -> Option<Self> {
        let mut postings = Self::default();
        let mut known: HashMap<Vec<u16>, u16> = HashMap::new();
        for rules in all {
            let next = u16::try_from(known.len()).ok()?;
            let list = *known.entry(rules).or_insert_with_key(|rules| {
                postings.rules.extend(rules);
                postings.ends.push(postings.rules.len() as u32);
                next
            });
            postings.lists.push(list);
        }
        postings.lists.shrink_to_fit();
        postings.ends.shrink_to_fit();
        postings.rules.shrink_to_fit();
        u32::try_from(postings.rules.len()).ok()?;
        Some(postings)
    }

    fn get(&self, at: usize) -> &[u16] {
        let list = self.lists.get(at).map_or(usize::MAX, |&list| usize::from(list));
        let first = list.checked_sub(1).and_then(|before| self.ends.get(before));
        let first = first.copied().unwrap_or_default() as usize;
        let last = self.ends.get(list).copied().unwrap_or_default() as usize;
        self.rules.get(first..last).unwrap_or_default()
    }
}

/// Finds texts: a table of transitions, made from the automaton that `aho_corasick` builds. Its own is as
/// fast for each byte but asks more of each state.
///
/// The automaton looks for a [`window`] of each text, which keeps it small; where one is found, the rest of the
/// text is compared.
///
/// Knows nothing of rules, so that rulesets can share it.
#[derive(Debug)]
pub(crate) struct Table {
    /// The column of each byte. Bytes that are in no text share one, as do the cases of a letter.
    columns: [u8; 256],
    /// By state and column, where a row begins; the first row is where a value begins.
    next: Vec<u32>,
    /// Entries of a row.
    width: u32,
    /// Rows from here on are of states in which windows end.
    named_from: u32,
    /// For each of those states, its part of `ended`.
    ends: Vec<Ends>,
    ended: Vec<Ended>,
    /// Sorted, in lower case: one behind the other.
    texts: Vec<u8>,
    /// Where each of them begins and ends.
    ranges: Vec<(u32, u32)>,
    /// Bytes of the longest window.
    window_bytes: usize,
}

/// Texts whose windows end in a state.
#[derive(Clone, Copy, Debug)]
struct Ends {
    first: u32,
    /// From here on they are compared.
    compared: u32,
    last: u32,
}

/// A text whose window ends in a state.
#[derive(Clone, Copy, Debug)]
struct Ended {
    /// Its place in `texts`.
    text: u32,
    /// Its bytes up to there.
    before: u32,
    /// Whether the rest is not compared: there is none, or the window has too many texts.
    is_found: bool,
}

/// Collects the texts of rules.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    texts: BTreeMap<Vec<u8>, Vec<u16>>,
}

impl IndexBuilder {
    /// How many texts there are.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }
}

impl IndexBuilder {
    /// Adds a rule that needs one of `texts`. Says whether it could.
    pub(crate) fn add(&mut self, rule: RuleIndex, texts: &[Vec<u8>]) -> bool {
        let Ok(rule) = u16::try_from(rule.get()) else { return false };
        if texts.is_empty() || texts.iter().any(Vec::is_empty) {
            return false;
        }
        for text in texts {
            let postings = self.texts.entry(text.to_ascii_lowercase()).or_default();
            if postings.last() != Some(&rule) {
                postings.push(rule);
            }
        }
        true
    }

    /// Compiles the automaton, or takes a known one. Without one (no texts, or too many), every rule is
    /// always named.
    pub(crate) fn build(self, parts: &mut Parts) -> Index {
        self.index(parts).unwrap_or_default()
    }

    fn index(self, parts: &mut Parts) -> Option<Index> {
        if self.texts.is_empty() {
            return None;
        }
        let texts: Vec<&[u8]> = self.texts.keys().map(Vec::as_slice).collect();
        let table = parts.table(&texts)?;
        let mut postings: Vec<&[u16]> = vec![&[]; table.len()];
        for (text, rules) in &self.texts {
            *postings.get_mut(table.position(text)?)? = rules;
        }
        let named = table.ends.iter().map(|ends| {
            let found = table.ended.get(ends.first as usize..ends.compared as usize);
            let rules: BTreeSet<u16> = found
                .unwrap_or_default()
                .iter()
                .filter_map(|text| postings.get(text.text as usize))
                .flat_map(|rules| rules.iter().copied())
                .collect();
            Vec::from_iter(rules)
        });
        let compared = postings
            .iter()
            .zip(table.which_are_compared())
            .map(|(rules, is_compared)| if is_compared { rules.to_vec() } else { Vec::new() });
        let (named, compared) = (Postings::new(named)?, Postings::new(compared)?);
        Some(Index { table: Some(Arc::clone(&table)), named, compared })
    }
}

impl Table {
    /// Compiles texts in lower case, sorted, none of them empty. `None` where they are too many.
    pub(crate) fn new(texts: &[&[u8]]) -> Option<Self> {
        let mut windows: BTreeMap<&[u8], Vec<Ended>> = BTreeMap::new();
        for (place, &text) in texts.iter().enumerate() {
            let (first, window) = window(text);
            let before = u32::try_from(first + window.len()).ok()?;
            let is_found = window.len() == text.len();
            let ended = Ended { text: u32::try_from(place).ok()?, before, is_found };
            windows.entry(window).or_default().push(ended);
        }
        for siblings in windows.values_mut().filter(|siblings| siblings.len() > SIBLINGS_MAX) {
            siblings.iter_mut().for_each(|ended| ended.is_found = true);
        }
        let automaton = DFA::builder()
            .match_kind(MatchKind::Standard)
            .prefilter(false)
            .build(windows.keys())
            .ok()?;
        let (columns, bytes) = columns(windows.keys().copied());
        let mut table = Self {
            columns,
            next: Vec::new(),
            width: u32::try_from(bytes.len()).ok()?,
            named_from: 0,
            ends: Vec::new(),
            ended: Vec::new(),
            texts: Vec::new(),
            ranges: Vec::new(),
            window_bytes: windows.keys().map(|window| window.len()).max()?,
        };
        for text in texts {
            let first = u32::try_from(table.texts.len()).ok()?;
            table.texts.extend(*text);
            table.ranges.push((first, u32::try_from(table.texts.len()).ok()?));
        }
        table.texts.shrink_to_fit();
        table.ranges.shrink_to_fit();
        let windows: Vec<Vec<Ended>> = windows.into_values().collect();
        table.add_states(&automaton, &bytes, &windows)?;
        Some(table)
    }

    fn add_states(&mut self, automaton: &DFA, bytes: &[u8], windows: &[Vec<Ended>]) -> Option<()> {
        let states = States::of(automaton, bytes)?;
        let width = self.width;
        let row = |id: StateID| states.places.get(&id)?.checked_mul(width);
        self.named_from = states.plain.checked_mul(self.width)?;
        self.next.reserve_exact(states.order.len() * bytes.len());
        for &state in &states.order {
            for &byte in bytes {
                self.next.push(row(automaton.next_state(Anchored::No, state, byte))?);
            }
            if automaton.is_match(state) {
                self.add_end(automaton, state, windows)?;
            }
        }
        self.ended.shrink_to_fit();
        Some(())
    }

    /// Notes of which texts the windows end in a state.
    fn add_end(&mut self, automaton: &DFA, state: StateID, windows: &[Vec<Ended>]) -> Option<()> {
        let first = self.ended.len();
        for at in 0..automaton.match_len(state) {
            let window = automaton.match_pattern(state, at).as_usize();
            self.ended.extend(windows.get(window)?);
        }
        let ended = self.ended.get_mut(first..)?;
        ended.sort_by_key(|text| !text.is_found);
        let compared = first + ended.partition_point(|text| text.is_found);
        let [first, compared, last] =
            [first, compared, self.ended.len()].map(|place| u32::try_from(place).ok());
        self.ends.push(Ends { first: first?, compared: compared?, last: last? });
        Some(())
    }

    /// How many texts it finds.
    pub(crate) const fn len(&self) -> usize {
        self.ranges.len()
    }

    fn text(&self, (first, last): (u32, u32)) -> &[u8] {
        self.texts.get(first as usize..last as usize).unwrap_or_default()
    }

    /// The place of a text.
    pub(crate) fn position(&self, text: &[u8]) -> Option<usize> {
        self.ranges.binary_search_by(|&range| self.text(range).cmp(text)).ok()
    }

    /// By text: whether it is more than its window, and is compared when that is found.
    fn which_are_compared(&self) -> Vec<bool> {
        let mut compared = vec![false; self.len()];
        for text in &self.ended {
            if let Some(place) = compared.get_mut(text.text as usize) {
                *place = !text.is_found;
            }
        }
        compared
    }

    /// Tells of each window that is in `value`, perhaps more than once: in which state it ends, counted from the
    /// first in which one does, and with which byte. Ends where `tell` says that it knows enough, and says so.
    #[inline]
    fn find(&self, value: &[u8], mut tell: impl FnMut(usize, usize) -> bool) -> bool {
        let mut tell =
            |row: u32, at: usize| tell(((row - self.named_from) / self.width.max(1)) as usize, at);
        let step = |row: u32, byte: u8| {
            let cell = row as usize + usize::from(self.columns[usize::from(byte)]);
            self.next.get(cell).copied().unwrap_or_default()
        };
        let Some(walks) = self.walks(value) else {
            let mut row = 0;
            for (at, &byte) in value.iter().enumerate() {
                row = step(row, byte);
                if row >= self.named_from && tell(row, at) {
                    return true;
                }
            }
            return false;
        };
        let [(first, a), (second, b), (third, c), (fourth, d)] = walks;
        let mut rows = [0; 4];
        let walk = a.iter().zip(b).zip(c).zip(d).enumerate();
        for (at, (((&a, &b), &c), &d)) in walk {
            let [r, s, t, u] = rows;
            rows = [step(r, a), step(s, b), step(t, c), step(u, d)];
            let [r, s, t, u] = rows;
            if r.max(s).max(t.max(u)) >= self.named_from {
                for (row, start) in rows.into_iter().zip([first, second, third, fourth]) {
                    if row >= self.named_from && tell(row, start + at) {
                        return true;
                    }
                }
            }
        }
        false
    }

    /// Parts of a value of one length, that lie over each other so far that each window is in one of them, and
    /// where they begin. `None` for a short one.
    fn walks<'v>(&self, value: &'v [u8]) -> Option<[(usize, &'v [u8]); 4]> {
        if value.len() < WALKS_BYTES_MIN {
            return None;
        }
        let part = value.len().div_ceil(4);
        let bytes = (part + self.window_bytes).min(value.len());
        let last = value.len() - bytes;
        let walk = |start: usize| Some((start, value.get(start..start + bytes)?));
        Some([walk(0)?, walk(part.min(last))?, walk((2 * part).min(last))?, walk(last)?])
    }

    /// Whether one of the texts is in `value`, in one case or another: any that it has, whoever brought it.
    pub(crate) fn is_match(&self, value: &[u8]) -> bool {
        self.find(value, |state, at| {
            let ended = self.ends.get(state).map(|ends| ends.first as usize..ends.last as usize);
            let ended = ended.and_then(|ended| self.ended.get(ended)).unwrap_or_default();
            ended.iter().any(|&text| self.holds(value, at, text))
        })
    }

    /// The texts that are to be compared where a window ends.
    fn compared(&self, state: usize) -> &[Ended] {
        let ends = self.ends.get(state);
        let texts = ends.map(|ends| ends.compared as usize..ends.last as usize);
        texts.and_then(|texts| self.ended.get(texts)).unwrap_or_default()
    }

    /// Whether the text is in the value whose byte `at` is the last of its window.
    fn holds(&self, value: &[u8], at: usize, ended: Ended) -> bool {
        let range = self.ranges.get(ended.text as usize).copied().unwrap_or_default();
        let text = self.text(range);
        let start = (at + 1).checked_sub(ended.before as usize);
        let there = start.and_then(|start| value.get(start..start.checked_add(text.len())?));
        there.is_some_and(|there| there.eq_ignore_ascii_case(text))
    }
}

/// The column of each byte, and a byte of each column.
fn columns<'t>(texts: impl Iterator<Item = &'t [u8]>) -> ([u8; 256], Vec<u8>) {
    let known: BTreeSet<u8> = texts.flatten().copied().collect();
    let in_texts = |byte: u8| known.contains(&byte);
    let mut columns = [0; 256];
    let absent = (0..=u8::MAX).find(|&byte| !byte.is_ascii_uppercase() && !in_texts(byte));
    let mut bytes = Vec::from_iter(absent);
    for byte in (0..=u8::MAX).filter(|&byte| in_texts(byte)) {
        let column = u8::try_from(bytes.len()).unwrap_or_default();
        bytes.push(byte);
        for case in [byte, byte.to_ascii_uppercase()] {
            if let Some(place) = columns.get_mut(usize::from(case)) {
                *place = column;
            }
        }
    }
    (columns, bytes)
}

/// The states of an automaton in an order in which those where texts end are last.
struct States {
    order: Vec<StateID>,
    places: HashMap<StateID, u32>,
    /// How many there are where none ends. The first of them is where a value begins.
    plain: u32,
}

impl States {
    fn of(automaton: &DFA, bytes: &[u8]) -> Option<Self> {
        let start = automaton.start_state(Anchored::No).ok()?;
        let mut order = vec![start];
        let mut places = HashMap::from([(start, 0)]);
        let mut seen = 0;
        while let Some(&state) = order.get(seen) {
            seen += 1;
            for &byte in bytes {
                let next = automaton.next_state(Anchored::No, state, byte);
                places.entry(next).or_insert_with(|| {
                    order.push(next);
                    0
                });
            }
        }
        // No text is empty, so none ends in the first state. The sort is stable.
        order.sort_by_key(|&state| automaton.is_match(state));
        for (place, state) in order.iter().enumerate() {
            places.insert(*state, u32::try_from(place).ok()?);
        }
        let plain = order.partition_point(|&state| !automaton.is_match(state));
        Some(Self { order, places, plain: u32::try_from(plain).ok()? })
    }
}

impl Index {
    /// Adds to `set`, bits over rules, those that may match in `value`. Says whether there are any.
    pub(crate) fn scan(&self, value: &[u8], set: &mut [u64]) -> bool {
        let Some(table) = self.table.as_deref() else {
            set.fill(u64::MAX);
            return true;
        };
        let mut named = false;
        table.find(value, |state, at| {
            named |= self.name(table, value, state, at, set);
            // Every text counts: there may be another one behind it.
            false
        });
        named
    }

    /// Out of the way of the walk.
    #[inline(never)]
    fn name(&self, table: &Table, value: &[u8], state: usize, at: usize, set: &mut [u64]) -> bool {
        let rules = self.named.get(state);
        rules.iter().for_each(|&rule| insert(set, rule));
        let mut named = !rules.is_empty();
        for &text in table.compared(state) {
            let rules = self.compared.get(text.text as usize);
            if rules.iter().any(|&rule| !has(set, rule)) && table.holds(value, at, text) {
                rules.iter().for_each(|&rule| insert(set, rule));
                named = true;
            }
        }
        named
    }
}

fn has(set: &[u64], rule: u16) -> bool {
    set.get(usize::from(rule) / 64).is_none_or(|word| word & (1 << (rule % 64)) != 0)
}

fn insert(set: &mut [u64], rule: u16) {
    if let Some(word) = set.get_mut(usize::from(rule) / 64) {
        *word |= 1 << (rule % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_names_what_may_match() {
        let mut builder = IndexBuilder::default();
        assert!(builder.add(RuleIndex(3), &[b"Union".to_vec(), b"select".to_vec()]));
        assert!(builder.add(RuleIndex(70), &[b"<script".to_vec()]));
        assert!(builder.add(RuleIndex(71), &[b"nio".to_vec(), b"\xE4".to_vec()]));
        assert!(!builder.add(RuleIndex(1 << 16), &[b"a".to_vec()]), "too many rules");
        assert!(!builder.add(RuleIndex(4), &[]) && !builder.add(RuleIndex(4), &[Vec::new()]));
        let index = builder.build(&mut Parts::default());
        for (value, expected) in [
            (&b"a UNION b"[..], [1 << 3, 1 << 7]),
            (b"<SCRIPT", [0, 1 << 6]),
            (b"<<script\0selecT", [1 << 3, 1 << 6]),
            (b"uni\xE4", [0, 1 << 7]),
            (b"unio", [0, 1 << 7]),
            (b"selec\xC4 \xC3\xA4", [0, 0]),
            (b"", [0, 0]),
        ] {
            let mut set = [0; 2];
            let named = index.scan(value, &mut set);
            assert_eq!((set, named), (expected, expected != [0, 0]), "{value:?}");
        }
        let mut set = [0; 2];
        assert!(IndexBuilder::default().build(&mut Parts::default()).scan(b"", &mut set));
        assert_eq!(set, [u64::MAX; 2], "what was not computed is unsure");
    }

    fn texts(texts: &[&str]) -> Index {
        let mut builder = IndexBuilder::default();
        for (rule, text) in texts.iter().enumerate() {
            assert!(builder.add(RuleIndex::from_usize(rule), &[text.as_bytes().to_vec()]));
        }
        builder.build(&mut Parts::default())
    }

    fn scan(index: &Index, value: &[u8]) -> u64 {
        let mut set = [0];
        let named = index.scan(value, &mut set);
        assert_eq!(named, set != [0], "{}", value.escape_ascii());
        set[0]
    }

    #[test]
    fn a_text_is_found_only_where_all_of_it_is() {
        let index = texts(&["etc/passwd", "/etc/passwd", "a/passwords", "passwd"]);
        for (value, expected) in [
            ("/ETC/Passwd", 0b1011),
            ("etc/passwd", 0b1001),
            ("etc/passw", 0),
            ("tc/passwd", 0b1000),
            ("a/passwords", 0b0100),
            ("etc/passwords a/passwd", 0b1000),
            ("etc/passwords etc/passwd", 0b1001),
        ] {
            assert_eq!(scan(&index, value.as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn a_text_is_found_wherever_it_is() {
        let known = ["e", "tc/", "select", "etc/passwd", "information_schema.tables"];
        let index = texts(&known);
        for bytes in [3, 30, 255, 256, 257, 258, 259, 600] {
            for (rule, text) in known.iter().enumerate() {
                for start in 0..=bytes - text.len().min(bytes) {
                    let mut value = vec![b'.'; start];
                    value.extend(text.as_bytes());
                    value.resize(bytes.max(value.len()), b'.');
                    let named = scan(&index, &value);
                    assert!(named & (1 << rule) != 0, "{text} at {start} of {bytes}");
                    assert_eq!(named >> (rule + 1), 0, "{text} at {start} of {bytes}");
                }
            }
            assert_eq!(scan(&index, &vec![b'.'; bytes]), 0);
        }
    }

    #[test]
    fn of_too_many_texts_with_one_window_all_are_found() {
        let texts: Vec<Vec<u8>> =
            (0..=SIBLINGS_MAX).map(|at| format!("{{{{}}}}~~{at}").into_bytes()).collect();
        for (count, expected) in [(SIBLINGS_MAX, 0), (SIBLINGS_MAX + 1, 1)] {
            let mut builder = IndexBuilder::default();
            assert!(builder.add(RuleIndex(0), &texts[..count]));
            let index = builder.build(&mut Parts::default());
            assert_eq!(scan(&index, b"{{}}~~, and nothing more"), expected, "{count}");
            assert_eq!(scan(&index, b"{{}}~~1"), 1, "{count}");
        }
    }

    #[test]
    fn a_table_tells_whether_a_text_is_there() {
        let siblings = (0..=SIBLINGS_MAX).map(|at| format!("{{{{}}}}~~{at}"));
        let known = ["e", "tc/", "select", "etc/passwd", "information_schema.tables"];
        let lists = [known.map(str::to_owned).to_vec(), siblings.collect()];
        for texts in lists.map(|mut texts| {
            texts.sort_unstable();
            texts
        }) {
            let table: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
            let table = Parts::default().table(&table).expect("a small table");
            for text in &texts {
                for (bytes, start) in
                    [(40, 0), (40, 9), (300, 65), (300, 70), (300, 145), (300, 270)]
                {
                    let mut value = vec![b'.'; start];
                    value.extend(text.to_uppercase().into_bytes());
                    value.resize(bytes.max(value.len()), b'.');
                    assert!(table.is_match(&value), "{text} at {start} of {bytes}");
                    value[start] = b'.';
                    let lower = String::from_utf8_lossy(&value).to_lowercase();
                    let expected = texts.iter().any(|text| lower.contains(text.as_str()));
                    assert_eq!(table.is_match(&value), expected, "{lower}");
                }
            }
        }
    }
}
