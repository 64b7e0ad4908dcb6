//! Lock files of Cargo: what is built, to the byte.

/// A package of a lock file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Package<'l> {
    pub(crate) name: &'l str,
    pub(crate) version: &'l str,
    /// SHA-256 of what the registry has of it; nothing for those of a workspace.
    pub(crate) checksum: Option<&'l str>,
}

/// All of them, in the order of the file.
pub(crate) fn packages(lock: &str) -> impl Iterator<Item = Package<'_>> {
    lock.split("[[package]]\n").skip(1).filter_map(|package| {
        let field = |key: &str| package.lines().find_map(|line| quoted(line, key));
        let (name, version) = (field("name")?, field("version")?);
        Some(Package { name, version, checksum: field("checksum") })
    })
}

/// What stands in quotes behind a key.
fn quoted<'l>(line: &'l str, key: &str) -> Option<&'l str> {
    line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::cargo;

    #[test]
    fn packages_are_read() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n\
                    source = \"registry\"\nchecksum = \"12ab\"\ndependencies = [\n \"b\",\n]\n\n\
                    [[package]]\nname = \"b\"\nversion = \"2.0.1\"\n";
        let expected = [
            Package { name: "a", version: "1.0.0", checksum: Some("12ab") },
            Package { name: "b", version: "2.0.1", checksum: None },
        ];
        assert_eq!(Vec::from_iter(packages(lock)), expected);
    }
    /// What is fuzzed, and what is measured beside the peers, is what is built: lock files agree on what is in both,
    /// where versions that Cargo would not exchange for each other are not the same. If not,
    /// `cargo update --manifest-path FOLDER/Cargo.toml NAME --precise VERSION`.
    #[test]
    fn lock_files_agree() {
        let packages_of = |path: &str| -> BTreeSet<(String, String)> {
            let text = fs::read_to_string(cargo::root().join(path)).unwrap();
            let packages = packages(&text);
            packages.map(|package| (package.name.to_owned(), package.version.to_owned())).collect()
        };
        // 1.2.3 is a 1, 0.2.3 a 0.2.
        let series = |(name, version): &(String, String)| {
            let parts = if version.starts_with("0.") { 2 } else { 1 };
            (name.clone(), version.split('.').take(parts).collect::<Vec<_>>().join("."))
        };
        let built = packages_of("Cargo.lock");
        let known: BTreeSet<(String, String)> = built.iter().map(series).collect();
        for path in ["fuzz/Cargo.lock", "bench/drivers/Cargo.lock"] {
            let others = packages_of(path);
            assert!(others.iter().any(|(name, _)| name == "regex-automata"), "{path}");
            let in_both = others.iter().filter(|package| known.contains(&series(package)));
            let differing: Vec<_> = in_both.filter(|package| !built.contains(package)).collect();
            assert!(differing.is_empty(), "{path}: {differing:?}");
        }
    }
}
