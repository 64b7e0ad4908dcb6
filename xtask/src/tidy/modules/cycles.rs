//! Cycles among siblings.

use std::collections::{BTreeMap, BTreeSet};

use super::Row;
use super::graph::{Graph, Place, Siblings};
use crate::tidy::Finding;

/// Siblings each of which uses, directly or around others of them, every other one.
pub(super) struct Cycle {
    /// The file that declares them, with `::` and the name of the inline module, if one does.
    pub(super) declared_by: String,
    /// In alphabetical order.
    pub(super) names: Vec<String>,
    /// A shortest way from one of them back to it: who uses whom, and where.
    way: Vec<(String, String, Place)>,
}

impl Cycle {
    pub(super) fn is(&self, (declared_by, names): &Row) -> bool {
        self.declared_by == *declared_by && self.names == *names
    }

    pub(super) fn finding(&self) -> Finding {
        let steps = self.way.iter().map(|(from, to, Place { file, line, path })| {
            format!("`{from}` uses `{to}` ({file}:{line}: `{path}`)")
        });
        let steps: Vec<String> = steps.collect();
        let message =
            format!("a cycle of modules ({}): {}", self.names.join(" "), steps.join(", "));
        let (file, line) =
            self.way.first().map_or((self.declared_by.as_str(), 1), |(.., place)| {
                (place.file.as_str(), place.line)
            });
        Finding::new(file, line, message)
    }
}

/// All cycles, those of more than one way through them once.
pub(super) fn of(graph: &Graph<'_>) -> Vec<Cycle> {
    let mut cycles = Vec::new();
    for (parent, siblings) in graph.siblings() {
        for members in components(&siblings) {
            let name = |module: usize| graph.modules[module].name.to_owned();
            let way = shortest(&siblings, &members);
            let step = |pair: &[usize]| {
                let (from, to) = (*pair.first()?, *pair.last()?);
                Some((name(from), name(to), siblings.get(&(from, to))?.clone()))
            };
            let mut names: Vec<String> = members.iter().copied().map(name).collect();
            names.sort_unstable();
            cycles.push(Cycle {
                declared_by: graph.label(parent),
                names,
                way: way.windows(2).filter_map(step).collect(),
            });
        }
    }
    cycles.sort_unstable_by(|one, other| {
        (&one.declared_by, &one.names).cmp(&(&other.declared_by, &other.names))
    });
    cycles
}

/// The largest sets of siblings in which each leads to each.
fn components(siblings: &Siblings) -> Vec<BTreeSet<usize>> {
    let modules: BTreeSet<usize> = siblings.keys().map(|(from, _)| *from).collect();
    let reached: BTreeMap<usize, BTreeSet<usize>> =
        modules.iter().map(|module| (*module, reached(siblings, *module))).collect();
    let leads = |from: usize, to: usize| reached.get(&from).is_some_and(|all| all.contains(&to));
    let component = |module: usize| -> BTreeSet<usize> {
        modules
            .iter()
            .copied()
            .filter(|other| leads(module, *other) && leads(*other, module))
            .collect()
    };
    // Each is found from its first module only.
    let found = modules.iter().map(|module| (module, component(*module)));
    found
        .filter(|(module, members)| members.first() == Some(module))
        .map(|(_, members)| members)
        .collect()
}

/// The siblings that one uses, directly or around others; itself only if it is in a cycle.
fn reached(siblings: &Siblings, from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(module) = waiting.pop() {
        waiting.extend(used(siblings, module).filter(|used| reached.insert(*used)));
    }
    reached
}

fn used(siblings: &Siblings, from: usize) -> impl Iterator<Item = usize> {
    siblings.range((from, 0)..=(from, usize::MAX)).map(|((_, to), _)| *to)
}

/// The shortest way from a module back to itself, of all modules of a component.
fn shortest(siblings: &Siblings, members: &BTreeSet<usize>) -> Vec<usize> {
    let ways = members.iter().filter_map(|module| way_back(siblings, *module));
    ways.min_by_key(Vec::len).unwrap_or_default()
}

fn way_back(siblings: &Siblings, module: usize) -> Option<Vec<usize>> {
    let mut seen = BTreeSet::new();
    let mut ways = std::collections::VecDeque::from([vec![module]]);
    while let Some(way) = ways.pop_front() {
        for next in used(siblings, *way.last()?) {
            if next == module || seen.insert(next) {
                let way = [way.as_slice(), &[next]].concat();
                if next == module {
                    return Some(way);
                }
                ways.push_back(way);
            }
        }
    }
    None
}
