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

use crate::{id::RuleIndex, parts::Parts};

/// Tells which rules may match a value, by the texts they need.
#[derive(Debug, Default)]
pub(crate) struct Index {
    /// Finds the texts.
    table: Option<Arc<Table>>,
    /// For each state in which texts end, where its part of `named` ends: it begins where that of the state
    /// before it does.
    ends: Vec<u32>,
    /// Rules.
    named: Vec<u16>,
}

/// Finds texts: a table of transitions, made from the automaton that `aho_corasick` builds. Its own is as
/// fast for each byte but asks more of each state.
///
/// Knows nothing of rules, so that rulesets can share it.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The column of each byte. Bytes that are in no text share one, as do the cases of a letter.
    columns: Vec<u8>,
    /// By state and column, where a row begins; the first row is where a value begins. One column more says
    /// which of `ends` is the state's.
    next: Vec<u32>,
    /// Rows from here on are of states in which texts end.
    named_from: u32,
    /// The place of that column.
    last: u32,
    /// For each of those states, the range of `ended` that it has.
    ends: Vec<(u32, u32)>,
    /// Places of texts in `texts`.
    ended: Vec<u32>,
    /// Sorted, in lower case.
    texts: Vec<Box<[u8]>>,
}

/// Collects the texts of rules.
#[derive(Debug, Default)]
pub(crate) struct IndexBuilder {
    texts: BTreeMap<Vec<u8>, Vec<u16>>,
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
        let mut index = Index { ends: Vec::with_capacity(table.ends.len()), ..Index::default() };
        for &(first, last) in &table.ends {
            index.add_end(table.ended.get(first as usize..last as usize)?, &postings)?;
        }
        index.named.shrink_to_fit();
        Some(Index { table: Some(table), ..index })
    }
}

impl Table {
    /// Compiles texts in lower case, sorted, none of them empty. `None` where they are too many.
    pub(crate) fn new(texts: &[&[u8]]) -> Option<Self> {
        let automaton =
            DFA::builder().match_kind(MatchKind::Standard).prefilter(false).build(texts).ok()?;
        let (columns, bytes) = columns(texts);
        let states = States::of(&automaton, &bytes)?;
        let last = u32::try_from(bytes.len()).ok()?;
        let width = last + 1;
        let row = |id: StateID| states.places.get(&id)?.checked_mul(width);
        let mut table = Self {
            columns,
            next: Vec::with_capacity(states.order.len() * (bytes.len() + 1)),
            named_from: states.plain.checked_mul(width)?,
            last,
            ends: Vec::new(),
            ended: Vec::new(),
            texts: texts.iter().map(|&text| text.into()).collect(),
        };
        for &state in &states.order {
            for &byte in &bytes {
                table.next.push(row(automaton.next_state(Anchored::No, state, byte))?);
            }
            table.next.push(u32::try_from(table.ends.len()).ok()?);
            if automaton.is_match(state) {
                table.add_end(&automaton, state)?;
            }
        }
        Some(table)
    }

    /// Notes which texts end in a state.
    fn add_end(&mut self, automaton: &DFA, state: StateID) -> Option<()> {
        let first = u32::try_from(self.ended.len()).ok()?;
        for text in 0..automaton.match_len(state) {
            self.ended.push(automaton.match_pattern(state, text).as_u32());
        }
        self.ends.push((first, u32::try_from(self.ended.len()).ok()?));
        Some(())
    }

    /// How many texts it finds.
    pub(crate) const fn len(&self) -> usize {
        self.texts.len()
    }

    /// The place of a text.
    pub(crate) fn position(&self, text: &[u8]) -> Option<usize> {
        self.texts.binary_search_by(|known| (**known).cmp(text)).ok()
    }
}

/// The column of each byte, and a byte of each column.
fn columns(texts: &[&[u8]]) -> (Vec<u8>, Vec<u8>) {
    let in_texts = |byte: u8| texts.iter().any(|text| text.contains(&byte));
    let mut columns = vec![0; 256];
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
    /// Notes which rules are named by texts that end in a state.
    fn add_end(&mut self, texts: &[u32], postings: &[&[u16]]) -> Option<()> {
        let mut rules = BTreeSet::new();
        for &text in texts {
            rules.extend(postings.get(text as usize)?.iter().copied());
        }
        self.named.extend(rules);
        self.ends.push(u32::try_from(self.named.len()).ok()?);
        Some(())
    }

    /// Adds to `set`, bits over rules, those that may match in `value`. Says whether there are any.
    pub(crate) fn scan(&self, value: &[u8], set: &mut [u64]) -> bool {
        let table = self.table.as_deref();
        let Some((table, columns)) =
            table.and_then(|table| Some((table, table.columns.first_chunk::<256>()?)))
        else {
            set.fill(u64::MAX);
            return true;
        };
        let mut named = false;
        let mut row = 0;
        for &byte in value {
            let cell = row as usize + usize::from(columns[usize::from(byte)]);
            row = table.next.get(cell).copied().unwrap_or_default();
            if row >= table.named_from {
                self.name(table, row, set);
                named = true;
            }
        }
        named
    }

    fn name(&self, table: &Table, row: u32, set: &mut [u64]) {
        let end = table.next.get((row + table.last) as usize).copied().unwrap_or(u32::MAX) as usize;
        let first = end.checked_sub(1).and_then(|before| self.ends.get(before));
        let first = first.copied().unwrap_or_default() as usize;
        let last = self.ends.get(end).copied().unwrap_or_default() as usize;
        for &rule in self.named.get(first..last).unwrap_or_default() {
            if let Some(word) = set.get_mut(usize::from(rule) / 64) {
                *word |= 1 << (rule % 64);
            }
        }
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
}
