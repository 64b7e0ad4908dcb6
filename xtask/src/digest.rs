//! SHA-256 of files, and lists of them in the format of `sha256sum`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::failure::{self, Failure, Outcome};

/// Lower-case hexadecimal digest of `bytes`.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hexadecimal(Sha256::new_with_prefix(bytes))
}

/// Lower-case hexadecimal digest of the file, read in pieces: Envoy's binary is 100 MB.
pub(crate) fn of_file(path: &Path) -> Outcome<String> {
    let mut file = File::open(path).map_err(failure::io("open", path))?;
    let mut hasher = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        let length = file.read(&mut piece).map_err(failure::io("read", path))?;
        let Some(filled) = piece.get(..length).filter(|filled| !filled.is_empty()) else {
            return Ok(hexadecimal(hasher));
        };
        hasher.update(filled);
    }
}

/// Compares a file with its pin.
pub(crate) fn verify(file: &Path, pinned: &str) -> Outcome<()> {
    let actual = of_file(file)?;
    if actual == pinned {
        return Ok(());
    }
    let name = file.file_name().unwrap_or_default().display();
    Err(Failure::new(format!("{name}: sha256 is {actual}, pinned is {pinned}")))
}

fn hexadecimal(hasher: Sha256) -> String {
    hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// File name (relative, `/`-separated) → digest.
pub(crate) type Sums = BTreeMap<String, String>;

/// Reads a list in `sha256sum` format. Blank lines are not allowed: the list is generated.
pub(crate) fn parse_sums(text: &str) -> Outcome<Sums> {
    let mut sums = Sums::new();
    for (index, line) in text.lines().enumerate() {
        let wrong = || Failure::new(format!("line {} is not `DIGEST  NAME`: {line}", index + 1));
        let (digest, name) = line.split_once("  ").ok_or_else(wrong)?;
        if digest.len() != 64 || !digest.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        if sums.insert(name.to_owned(), digest.to_owned()).is_some() {
            return Err(Failure::new(format!("line {} names {name} again", index + 1)));
        }
    }
    Ok(sums)
}

/// Writes what `parse_sums` reads, sorted by name.
pub(crate) fn render_sums(sums: &Sums) -> String {
    sums.iter().map(|(name, digest)| format!("{digest}  {name}\n")).collect()
}

/// One line per file that is missing, unknown or different; empty when the two lists are equal.
pub(crate) fn differences(pinned: &Sums, actual: &Sums) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, digest) in pinned {
        match actual.get(name) {
            None => lines.push(format!("{name}: pinned, but not there")),
            Some(other) if other != digest => {
                lines.push(format!("{name}: sha256 is {other}, pinned is {digest}"));
            }
            Some(_) => {}
        }
    }
    let unknown = actual.keys().filter(|name| !pinned.contains_key(*name));
    lines.extend(unknown.map(|name| format!("{name}: there, but not pinned")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn digests_are_those_of_the_standard() {
        assert_eq!(of_bytes(b"abc"), ABC);
    }

    #[test]
    fn lists_survive_a_round_trip() {
        let text = format!("{ABC}  a b\n{ABC}  c/d\n");
        assert_eq!(render_sums(&parse_sums(&text).unwrap()), text);
    }

    #[test]
    fn damaged_lists_are_refused() {
        let short = format!("{}  a\n", ABC.split_at(63).0);
        let one_space = format!("{ABC} a\n");
        let twice = format!("{ABC}  a\n{ABC}  a\n");
        for text in [short.as_str(), &one_space, &twice, "\n", "a\n"] {
            assert!(parse_sums(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_kind_of_difference_is_named() {
        let sums = |rows: &[(&str, &str)]| -> Sums {
            rows.iter().map(|(name, digest)| (name.to_string(), digest.to_string())).collect()
        };
        let pinned = sums(&[("gone", "1"), ("same", "2"), ("changed", "3")]);
        let actual = sums(&[("same", "2"), ("changed", "4"), ("new", "5")]);
        assert_eq!(
            differences(&pinned, &actual),
            [
                "changed: sha256 is 4, pinned is 3",
                "gone: pinned, but not there",
                "new: there, but not pinned"
            ]
        );
        assert!(differences(&pinned, &pinned).is_empty());
    }
}
