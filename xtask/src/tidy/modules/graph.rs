//! The modules of the crates, and which use which.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{Import, Path, written};
use crate::tidy::product::{Source, folder_of_modules};

/// Names that are imported under names that are imported: more of them than anybody writes.
const IMPORTS_FOLLOWED_MAX: usize = 8;

/// The modules of all crates, each behind its parent.
#[derive(Default)]
pub(super) struct Graph<'s> {
    pub(super) modules: Vec<Module<'s>>,
}

pub(super) struct Module<'s> {
    /// The file that it stands in.
    pub(super) file: &'s str,
    /// Empty for the root of a crate.
    pub(super) name: &'s str,
    parent: Option<usize>,
    children: BTreeMap<&'s str, usize>,
    imports: Vec<Import<'s>>,
    paths: Vec<Path<'s>>,
}

/// Where a module uses another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) line: usize,
    /// As it is written there.
    pub(super) path: String,
}

/// What the children of one module use of each other: who, whom, and one of the places.
pub(super) type Siblings = BTreeMap<(usize, usize), Place>;

impl<'s> Graph<'s> {
    /// The crates of libraries, programs and their `src/bin`. A file of two crates is a module in each.
    pub(super) fn of_sources(sources: &'s [Source<'s>]) -> Self {
        let by_path = sources.iter().map(|source| (source.path, source)).collect();
        let mut graph = Self::default();
        for source in sources.iter().filter(|source| is_root(source.path)) {
            graph.add_file(&by_path, source, "", None);
        }
        graph
    }

    fn add_file(
        &mut self,
        sources: &BTreeMap<&str, &'s Source<'s>>,
        source: &'s Source<'s>,
        name: &'s str,
        parent: Option<usize>,
    ) {
        let folder = folder_of_modules(source.path);
        let file = self.modules.len();
        for module in written(&source.code) {
            let (name, parent) = match module.inline.split_last() {
                None => (name, parent),
                Some((name, around)) => {
                    let parent = around.iter().try_fold(file, |at, name| self.child(at, name));
                    (*name, parent)
                }
            };
            let index = self.modules.len();
            self.modules.push(Module {
                file: source.path,
                name,
                parent,
                children: BTreeMap::new(),
                imports: module.imports,
                paths: module.paths,
            });
            if let Some(parent) = parent {
                self.modules[parent].children.insert(name, index);
            }
            let folder = [&[folder], module.inline.as_slice()].concat().join("/");
            for name in module.declared {
                let files = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
                if let Some(source) = files.iter().find_map(|file| sources.get(file.as_str())) {
                    self.add_file(sources, source, name, Some(index));
                }
            }
        }
    }

    /// The file that a module stands in, with the names of the inline modules around it.
    pub(super) fn label(&self, module: usize) -> String {
        let Module { file, name, parent, .. } = &self.modules[module];
        match parent {
            Some(parent) if self.modules[*parent].file == *file => {
                format!("{}::{name}", self.label(*parent))
            }
            _ => (*file).to_owned(),
        }
    }

    /// Imports of all names of a module of the same crate, with the file.
    pub(super) fn globs(&self) -> impl Iterator<Item = (&'s str, &Path<'s>)> {
        self.modules.iter().enumerate().flat_map(move |(index, module)| {
            let globs = module.imports.iter().filter(|import| import.name == "*");
            let of_modules = globs.filter(move |import| self.is_module(index, &import.path.words));
            of_modules.map(|import| (module.file, &import.path))
        })
    }

    /// Whether all words of a path are modules of the crate.
    fn is_module(&self, from: usize, words: &[&str]) -> bool {
        words.iter().try_fold(from, |module, word| self.next(module, word)).is_some()
    }

    /// The module that a word of a path leads to from another.
    fn next(&self, module: usize, word: &str) -> Option<usize> {
        match word {
            "crate" => self.ancestry(module).last().copied(),
            "self" => Some(module),
            "super" => self.modules[module].parent,
            name => self.child(module, name),
        }
    }

    fn child(&self, module: usize, name: &str) -> Option<usize> {
        self.modules[module].children.get(name).copied()
    }

    /// The module, the one that it is in, and so on to the crate.
    fn ancestry(&self, module: usize) -> Vec<usize> {
        std::iter::successors(Some(module), |module| self.modules[*module].parent).collect()
    }

    /// For each module with children, what these use of each other.
    pub(super) fn siblings(&self) -> BTreeMap<usize, Siblings> {
        let mut all: BTreeMap<usize, Siblings> = BTreeMap::new();
        for (from, module) in self.modules.iter().enumerate() {
            let imports = module.imports.iter().map(|import| &import.path);
            for path in imports.chain(&module.paths) {
                for to in self.used(from, &path.words) {
                    let Some((parent, siblings)) = self.siblings_of(from, to) else { continue };
                    all.entry(parent).or_default().entry(siblings).or_insert_with(|| Place {
                        file: module.file.to_owned(),
                        line: path.line,
                        path: path.words.join("::"),
                    });
                }
            }
        }
        all
    }

    /// The innermost module that both are in, and which of its children they are or are in.
    /// `None` if one of them is in the other.
    fn siblings_of(&self, from: usize, to: usize) -> Option<(usize, (usize, usize))> {
        let (from, to) = (self.ancestry(from), self.ancestry(to));
        let mut pairs = from.iter().rev().zip(to.iter().rev());
        let shared = pairs.by_ref().take_while(|(one, other)| one == other).count();
        let child = |ancestry: &[usize]| ancestry.iter().rev().nth(shared).copied();
        let parent = from.iter().rev().nth(shared.checked_sub(1)?)?;
        Some((*parent, (child(&from)?, child(&to)?)))
    }

    /// The modules that a path leads to: the one that it names, and those that the name is imported from.
    fn used(&self, from: usize, words: &[&str]) -> BTreeSet<usize> {
        let mut used = BTreeSet::new();
        self.follow(from, words, 0, &mut used);
        used
    }

    /// Goes along a path as far as its words are modules, and on from where the next one is imported.
    fn follow(&self, from: usize, words: &[&str], imports: usize, used: &mut BTreeSet<usize>) {
        let mut module = from;
        let mut words = words.iter();
        let next = words.find(|word| match self.next(module, word) {
            Some(next) => {
                module = next;
                false
            }
            None => true,
        });
        // A path of another crate ends where it began, and nothing uses itself.
        used.insert(module);
        let imported = self.modules[module].imports.iter().filter(|it| Some(&it.name) == next);
        for import in imported.filter(|_| imports < IMPORTS_FOLLOWED_MAX) {
            let words = [&import.path.words, words.as_slice()].concat();
            self.follow(module, &words, imports + 1, used);
        }
    }
}

fn is_root(path: &str) -> bool {
    let in_source =
        path.strip_prefix("src/").or_else(|| path.rsplit_once("/src/").map(|(_, file)| file));
    let words: Vec<&str> = in_source.unwrap_or_default().split('/').collect();
    matches!(words.as_slice(), ["lib.rs" | "main.rs"] | ["bin", _] | ["bin", _, "main.rs"])
}
