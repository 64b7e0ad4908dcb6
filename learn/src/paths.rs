//! From the paths on which something matched to the paths of an exclusion.

use std::collections::{BTreeMap, BTreeSet};

use crate::target::Reach;

/// Different texts at one place of a path that make it a variable segment.
const SEGMENTS_MIN: usize = 3;

/// Different paths of a page's parameter from which on it is excluded below their common folder.
const PAGES_MIN: usize = 4;

/// Different paths of a cookie or header from which on it is excluded everywhere.
const SITE_PATHS_MIN: usize = 2;

/// For each path the one of its exclusion; `None` for all paths of the site.
pub(crate) fn widened(paths: &BTreeSet<String>, reach: Reach) -> BTreeMap<String, Option<String>> {
    let to = |path: &str| path.to_owned();
    let same = || paths.iter().map(|path| (to(path), Some(to(path)))).collect();
    match reach {
        Reach::Path => same(),
        Reach::Site if paths.len() >= SITE_PATHS_MIN => {
            paths.iter().map(|path| (to(path), None)).collect()
        }
        Reach::Site => same(),
        Reach::Page => {
            let once = with_segments(paths);
            let again = with_segments(&once.values().cloned().collect());
            let patterns: BTreeSet<&String> = again.values().collect();
            let folder = (patterns.len() >= PAGES_MIN).then(|| common_folder(&patterns));
            let wide = |path: &String| {
                let pattern = once.get(path).and_then(|once| again.get(once)).unwrap_or(path);
                folder.clone().unwrap_or_else(|| Some(pattern.clone()))
            };
            paths.iter().map(|path| (to(path), wide(path))).collect()
        }
    }
}

/// Replaces a segment by `{segment}` where enough paths differ in nothing else.
fn with_segments(paths: &BTreeSet<String>) -> BTreeMap<String, String> {
    let mut alike: BTreeMap<String, BTreeSet<&String>> = BTreeMap::new();
    let variants = |path: &str| -> Vec<String> {
        let segments: Vec<&str> = path.split('/').collect();
        // The first one is before the slash that a path begins with.
        let without = |at: usize| {
            let part = |(index, text): (usize, &&str)| {
                if index == at { "{segment}".to_owned() } else { (*text).to_owned() }
            };
            segments.iter().enumerate().map(part).collect::<Vec<_>>().join("/")
        };
        let filled =
            (1..segments.len()).filter(|&at| segments.get(at).is_some_and(|s| !s.is_empty()));
        filled.map(without).collect()
    };
    for path in paths {
        for variant in variants(path) {
            alike.entry(variant).or_default().insert(path);
        }
    }
    let widest = |path: &String| {
        let enough = |variant: &String| {
            alike.get(variant).map(BTreeSet::len).filter(|&count| count >= SEGMENTS_MIN)
        };
        let counted =
            variants(path).into_iter().filter_map(|variant| Some((enough(&variant)?, variant)));
        counted.max().map_or_else(|| path.clone(), |(_, variant)| variant)
    };
    paths.iter().map(|path| (path.clone(), widest(path))).collect()
}

/// The folder that all are in; `None` when that is the whole site.
fn common_folder(paths: &BTreeSet<&String>) -> Option<String> {
    let mut common: Option<Vec<&str>> = None;
    for path in paths {
        let folders: Vec<&str> = path.split('/').collect();
        let folders = folders.split_last().map(|(_, folders)| folders).unwrap_or_default();
        common = Some(match common {
            None => folders.to_vec(),
            Some(known) => {
                let same = known.iter().zip(folders).take_while(|(a, b)| a == b).count();
                known.into_iter().take(same).collect()
            }
        });
    }
    let folder = format!("{}/", common?.join("/"));
    (folder != "/").then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(reach: Reach, paths: &[&str], expected: &[Option<&str>]) {
        let set = paths.iter().map(ToString::to_string).collect();
        let found: BTreeSet<Option<String>> = widened(&set, reach).into_values().collect();
        let expected: BTreeSet<Option<String>> =
            expected.iter().map(|path| path.map(str::to_owned)).collect();
        assert_eq!(found, expected, "{paths:?}");
    }

    #[test]
    fn paths_are_widened_with_evidence_only() {
        check(Reach::Page, &["/a"], &[Some("/a")]);
        check(Reach::Page, &["/a/x", "/a/y"], &[Some("/a/x"), Some("/a/y")]);
        check(Reach::Page, &["/a/x", "/a/y", "/a/z"], &[Some("/a/{segment}")]);
        check(
            Reach::Page,
            &["/a/x/1", "/a/y/1", "/a/z/1", "/b"],
            &[Some("/a/{segment}/1"), Some("/b")],
        );
        check(Reach::Page, &["/s/a/b", "/s/c", "/s/d/e/f", "/s/g/h/i/j"], &[Some("/s/")]);
        check(Reach::Page, &["/a/b", "/c", "/d/e/f", "/g/h/i/j"], &[None]);
        check(Reach::Site, &["/a"], &[Some("/a")]);
        check(Reach::Site, &["/a", "/b"], &[None]);
        check(Reach::Path, &["/a/x", "/a/y", "/a/z"], &[Some("/a/x"), Some("/a/y"), Some("/a/z")]);
    }
}
