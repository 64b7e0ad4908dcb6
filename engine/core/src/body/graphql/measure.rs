//! How large documents are: depth, aliases, cost and so on, with fragments counted at each place that spreads them.
//!
//! Each fragment is summed up once, whatever the number of its spreads, so the work is linear in the document; sums
//! saturate. A fragment that spreads itself is an error that every server reports: its sums are the highest number.
#![deny(clippy::indexing_slicing)]

use core::ops::Range;

/// The highest number that rules see: `@gt` compares numbers up to this.
pub(crate) const HIGHEST: u64 = i32::MAX as u64;

/// The measures of all documents of one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measures {
    /// Fields within fields, of the deepest document.
    pub(crate) depth: u64,
    /// Fields with an alias.
    pub(crate) aliases: u64,
    /// Fields of operations themselves.
    pub(crate) root_fields: u64,
    /// Fields that a server may have to resolve; see `docs/graphql.md`.
    pub(crate) cost: u64,
    /// Directives.
    pub(crate) directives: u64,
    /// Tokens.
    pub(crate) tokens: u64,
    /// Fields `__schema` and `__type`.
    pub(crate) introspection: u64,
    /// Requests in one request of HTTP: those of a batch, or documents that come in more than one place.
    pub(crate) batch: u64,
    /// Whether something that ought to be GraphQL could not be read as such.
    pub(crate) malformed: bool,
}

impl Measures {
    /// Adds those of further documents.
    pub(crate) fn add(&mut self, other: &Self) {
        self.depth = self.depth.max(other.depth);
        for (mine, others) in [
            (&mut self.aliases, other.aliases),
            (&mut self.root_fields, other.root_fields),
            (&mut self.cost, other.cost),
            (&mut self.directives, other.directives),
            (&mut self.tokens, other.tokens),
            (&mut self.introspection, other.introspection),
            (&mut self.batch, other.batch),
        ] {
            *mine = mine.saturating_add(others);
        }
        self.malformed |= other.malformed;
    }

    /// The members of `GRAPHQL`, with their names.
    pub(crate) fn members(&self) -> [(&'static str, u64); 9] {
        [
            ("depth", self.depth),
            ("aliases", self.aliases),
            ("root_fields", self.root_fields),
            ("cost", self.cost),
            ("directives", self.directives),
            ("tokens", self.tokens),
            ("introspection", self.introspection),
            ("batch", self.batch),
            ("malformed", u64::from(self.malformed)),
        ]
        .map(|(name, number)| (name, number.min(HIGHEST)))
    }
}

/// The measures of an operation or a fragment; without the fragments that it spreads, until they are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) depth: u64,
    pub(super) aliases: u64,
    pub(super) root_fields: u64,
    pub(super) cost: u64,
}

impl Totals {
    const HIGHEST: Self =
        Self { depth: HIGHEST, aliases: HIGHEST, root_fields: HIGHEST, cost: HIGHEST };

    /// Adds what a fragment comes to in the place of a spread.
    fn add(&mut self, fragment: &Self, spread: &Spread<'_>) {
        self.depth = self.depth.max(fragment.depth.saturating_add(spread.depth));
        self.aliases = self.aliases.saturating_add(fragment.aliases);
        if spread.is_root {
            self.root_fields = self.root_fields.saturating_add(fragment.root_fields);
        }
        self.cost = self.cost.saturating_add(fragment.cost.saturating_mul(spread.weight));
    }
}

/// A fragment in the place of fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread<'d> {
    pub(super) fragment: &'d [u8],
    /// Fields that it is within.
    pub(super) depth: u64,
    /// How often a server may have to resolve a field in its place.
    pub(super) weight: u64,
    /// Whether it is among the fields of the definition itself.
    pub(super) is_root: bool,
}

/// An operation or a fragment.
#[derive(Debug)]
pub(super) struct Definition<'d> {
    /// The name of a fragment; nothing for an operation.
    pub(super) fragment: Option<&'d [u8]>,
    pub(super) totals: Totals,
    pub(super) spreads: Range<usize>,
}

/// How far the sum of a definition has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    NotBegun,
    Open,
    Done,
}

/// The largest totals of an operation of a document, and whether its fragments are in order: one of each name, none
/// within itself.
pub(super) fn sum(mut definitions: Vec<Definition<'_>>, spreads: &[Spread<'_>]) -> (Totals, bool) {
    let mut by_name: Vec<(&[u8], usize)> = definitions
        .iter()
        .enumerate()
        .filter_map(|(at, definition)| Some((definition.fragment?, at)))
        .collect();
    by_name.sort_unstable();
    let mut in_order = by_name.windows(2).all(|pair| match pair {
        [(one, _), (next, _)] => one != next,
        _ => true,
    });
    let find = |name: &[u8]| {
        let at = by_name.binary_search_by_key(&name, |&(name, _)| name).ok()?;
        by_name.get(at).map(|&(_, definition)| definition)
    };
    let mut progress = vec![Progress::NotBegun; definitions.len()];
    // Definitions whose sum waits for that of the next one, each with the spreads that are left to add.
    let mut open: Vec<(usize, Range<usize>)> = Vec::new();
    for start in 0..definitions.len() {
        if progress.get(start) == Some(&Progress::NotBegun) {
            begin(start, &definitions, &mut progress, &mut open);
        }
        while let Some((current, left)) = open.last_mut() {
            let current = *current;
            let Some(spread) = left.start.lt(&left.end).then(|| spreads.get(left.start)).flatten()
            else {
                set(&mut progress, current, Progress::Done);
                open.pop();
                continue;
            };
            // A fragment that is not there: a server may know it, and nothing is known of it here.
            let Some(fragment) = find(spread.fragment) else {
                left.start += 1;
                continue;
            };
            match progress.get(fragment) {
                Some(Progress::NotBegun) => {
                    begin(fragment, &definitions, &mut progress, &mut open);
                    continue;
                }
                Some(Progress::Done) => {
                    let totals = definitions.get(fragment).map(|it| it.totals).unwrap_or_default();
                    if let Some(definition) = definitions.get_mut(current) {
                        definition.totals.add(&totals, spread);
                    }
                }
                Some(Progress::Open) | None => {
                    in_order = false;
                    if let Some(definition) = definitions.get_mut(current) {
                        definition.totals = Totals::HIGHEST;
                    }
                }
            }
            left.start += 1;
        }
    }
    let mut largest = Totals::default();
    for definition in definitions.iter().filter(|definition| definition.fragment.is_none()) {
        let Totals { depth, aliases, root_fields, cost } = definition.totals;
        largest.depth = largest.depth.max(depth);
        largest.aliases = largest.aliases.max(aliases);
        largest.root_fields = largest.root_fields.max(root_fields);
        largest.cost = largest.cost.max(cost);
    }
    (if in_order { largest } else { Totals::HIGHEST }, in_order)
}

fn begin(
    at: usize,
    definitions: &[Definition<'_>],
    progress: &mut [Progress],
    open: &mut Vec<(usize, Range<usize>)>,
) {
    set(progress, at, Progress::Open);
    open.extend(definitions.get(at).map(|definition| (at, definition.spreads.clone())));
}

fn set(progress: &mut [Progress], at: usize, to: Progress) {
    if let Some(progress) = progress.get_mut(at) {
        *progress = to;
    }
}
