//! What compiled rulesets have in common.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use aho_corasick::AhoCorasick;
use regex_syntax::hir::Hir;

use crate::{
    pattern::Pattern,
    scan::{Table, sieve::Sieve},
};

/// How many times as much as it needs a ruleset may share with another, before it gets its own.
const SURPLUS_MAX: usize = 2;

/// The large parts of compiled rulesets: patterns, lists of phrases, and the automata of the fast path.
///
/// Profiles of one service differ in thresholds and exclusions and have nearly all rules in common. Where
/// they are built with the same `Parts`, what is the same is compiled once and kept once. What a program
/// does is not changed by it.
///
/// Holds what was built with it until [`Self::forget_unused`].
///
/// ```
/// use glacis_engine::{Input, Limits, NoFiles, Parts, Program};
///
/// let text = "SecRule ARGS \"@rx union\\s+select\" \"id:1,phase:2,deny\"".to_owned();
/// let rules = [Input::Text { name: "own.conf".to_owned(), text }];
/// let mut parts = Parts::default();
/// let first = Program::build_with(&rules, &NoFiles, Limits::default(), &mut parts).expect("the rules compile");
/// let second = Program::build_with(&rules, &NoFiles, Limits::default(), &mut parts).expect("they do again");
/// assert_eq!(first.rule_count(), second.rule_count());
/// ```
#[derive(Debug, Default)]
pub struct Parts {
    patterns: HashMap<Box<str>, Pattern>,
    phrases: HashMap<Box<[u8]>, Arc<AhoCorasick>>,
    tables: Vec<Arc<Table>>,
    sieves: Vec<KnownSieve>,
    texts: HashSet<Arc<str>>,
}

#[derive(Debug)]
struct KnownSieve {
    /// Its patterns as they are written.
    patterns: Vec<String>,
    sieve: Arc<Sieve>,
}

/// A sieve, and which of its patterns are those that were asked for.
pub(crate) struct SharedSieve {
    pub(crate) sieve: Arc<Sieve>,
    pub(crate) patterns: Vec<u8>,
}

impl Parts {
    /// Drops what no program uses any more, such as after rules were exchanged.
    pub fn forget_unused(&mut self) {
        self.patterns.retain(|_, pattern| pattern.is_shared());
        self.phrases.retain(|_, automaton| Arc::strong_count(automaton) > 1);
        self.tables.retain(|table| Arc::strong_count(table) > 1);
        self.sieves.retain(|known| Arc::strong_count(&known.sieve) > 1);
        self.texts.retain(|text| Arc::strong_count(text) > 1);
    }

    /// A pattern, compiled or known. Its limit of steps is the program's own.
    pub(crate) fn pattern(&mut self, pcre: &str) -> Result<Pattern, String> {
        if let Some(known) = self.patterns.get(pcre) {
            return Ok(known.clone());
        }
        let pattern = Pattern::new(pcre)?.with_needed_signs(pcre);
        self.patterns.insert(pcre.into(), pattern.clone());
        Ok(pattern)
    }

    /// A text that rules say of themselves, such as a tag.
    pub(crate) fn text(&mut self, text: &str) -> Arc<str> {
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }

    /// An automaton that looks for phrases in any case.
    pub(crate) fn phrases(&mut self, list: &[Vec<u8>]) -> Result<Arc<AhoCorasick>, String> {
        let key = key_of(list);
        if let Some(known) = self.phrases.get(&key) {
            return Ok(Arc::clone(known));
        }
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .build(list)
            .map_err(|error| format!("the phrases do not compile: {error}"))?;
        let automaton = Arc::new(automaton);
        self.phrases.insert(key, Arc::clone(&automaton));
        Ok(automaton)
    }

    /// A table of these texts, which are sorted, and perhaps of others: for those who ask which of them are there.
    pub(crate) fn table(&mut self, texts: &[&[u8]]) -> Option<Arc<Table>> {
        self.table_within(texts, texts.len().saturating_mul(SURPLUS_MAX))
    }

    /// A table of these texts, which are sorted, and of no others: for those who ask whether there is any.
    pub(crate) fn table_of(&mut self, texts: &[&[u8]]) -> Option<Arc<Table>> {
        self.table_within(texts, texts.len())
    }

    fn table_within(&mut self, texts: &[&[u8]], texts_max: usize) -> Option<Arc<Table>> {
        let holds = |table: &&Arc<Table>| {
            table.len() <= texts_max && texts.iter().all(|text| table.position(text).is_some())
        };
        if let Some(known) = self.tables.iter().find(holds) {
            return Some(Arc::clone(known));
        }
        let table = Arc::new(Table::new(texts)?);
        self.tables.push(Arc::clone(&table));
        Some(table)
    }

    /// A sieve of these patterns, and perhaps of others. `None` where it would become too large. `chains` has a number
    /// for each pattern; those with the same one are asked about together.
    pub(crate) fn sieve(&mut self, patterns: &[Hir], chains: &[u16]) -> Option<SharedSieve> {
        let names: Vec<String> = patterns.iter().map(Hir::to_string).collect();
        let places = |known: &KnownSieve| {
            let place = |name| known.patterns.iter().position(|known| known == name);
            let places: Option<Vec<u8>> =
                names.iter().map(|name| u8::try_from(place(name)?).ok()).collect();
            places.filter(|_| known.patterns.len() <= names.len().saturating_mul(SURPLUS_MAX))
        };
        let known = self.sieves.iter().find_map(|known| Some((known, places(known)?)));
        if let Some((known, patterns)) = known {
            return Some(SharedSieve { sieve: Arc::clone(&known.sieve), patterns });
        }
        let sieve = Arc::new(Sieve::new(patterns, chains)?);
        let own = (0..u8::MAX).take(names.len()).collect();
        self.sieves.push(KnownSieve { patterns: names, sieve: Arc::clone(&sieve) });
        Some(SharedSieve { sieve, patterns: own })
    }
}

/// Phrases one behind the other, each behind its length.
fn key_of(list: &[Vec<u8>]) -> Box<[u8]> {
    let phrases = list
        .iter()
        .flat_map(|phrase| phrase.len().to_le_bytes().into_iter().chain(phrase.iter().copied()));
    phrases.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_the_same_is_kept_once_and_what_nobody_uses_is_not() {
        let mut parts = Parts::default();
        let texts: [&[u8]; 3] = [b"select", b"table", b"union"];
        let all = parts.table(&texts).unwrap();
        assert!(Arc::ptr_eq(&all, &parts.table(&texts[..2]).unwrap()), "the others name nothing");
        assert!(
            !Arc::ptr_eq(&all, &parts.table(&texts[..1]).unwrap()),
            "too much that is not asked"
        );
        assert!(!Arc::ptr_eq(&all, &parts.table(&[b"insert", b"union"]).unwrap()));
        assert!(!parts.table_of(&texts[..2]).unwrap().is_match(b"union"), "of these alone");
        assert!(Arc::ptr_eq(&all, &parts.table_of(&texts).unwrap()));

        let trees = [r"a\d+", r"b\d+", r"c\d+"].map(|text| Pattern::syntax_tree(text).unwrap());
        let first = parts.sieve(&trees, &[0; 3]).unwrap();
        let second = parts.sieve(&[trees[2].clone(), trees[0].clone()], &[0; 2]).unwrap();
        assert!(Arc::ptr_eq(&first.sieve, &second.sieve));
        assert_eq!((first.patterns, second.patterns), (vec![0, 1, 2], vec![2, 0]));

        let phrases = [b"ab".to_vec(), b"c".to_vec()];
        let list = parts.phrases(&phrases).unwrap();
        assert!(Arc::ptr_eq(&list, &parts.phrases(&phrases).unwrap()));
        let other = parts.phrases(&[b"a".to_vec(), b"bc".to_vec()]).unwrap();
        assert!(!Arc::ptr_eq(&list, &other));

        parts.pattern("ab+").unwrap();
        drop((first.sieve, other));
        parts.forget_unused();
        assert_eq!((parts.patterns.len(), parts.phrases.len()), (0, 1));
        assert_eq!((parts.tables.len(), parts.sieves.len()), (1, 1));
    }
}
