//! The files of the repository, read once.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::cargo;
use crate::failure::{Failure, Outcome};

/// A file that is, or is about to be, in version control.
pub(super) struct TreeFile {
    /// Relative to the top folder, with `/`.
    pub(super) path: String,
    pub(super) bytes: u64,
    /// `None` for what is not UTF-8 text.
    pub(super) text: Option<String>,
}

/// All such files, sorted by path.
pub(super) struct Tree {
    pub(super) files: Vec<TreeFile>,
}

impl Tree {
    /// What git tracks, and what it would: a new file should fail before it is committed.
    pub(super) fn of_repository(root: &Path) -> Outcome<Self> {
        let mut git = Command::new("git");
        git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = cargo::output(git.current_dir(root))
            .map_err(|failure| Failure::new(format!("tidy asks git for the files: {failure}")))?;
        let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
        paths.sort_unstable();
        paths.dedup();
        // A file that is deleted but not yet so in the index cannot be read and is passed over.
        let files = paths.into_iter().filter_map(|path| read(root, path)).collect();
        Ok(Self { files })
    }

    /// Each text file with its path.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files.iter().filter_map(|file| Some((file.path.as_str(), file.text.as_deref()?)))
    }

    /// The text of one file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.texts().find(|(known, _)| *known == path).map(|(_, text)| text)
    }

    #[cfg(test)]
    pub(super) fn of_texts(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| TreeFile {
            path: (*path).to_owned(),
            bytes: u64::try_from(text.len()).unwrap(),
            text: Some((*text).to_owned()),
        };
        Self { files: files.iter().map(file).collect() }
    }
}

fn read(root: &Path, path: &str) -> Option<TreeFile> {
    let content = fs::read(root.join(path)).ok()?;
    let bytes = u64::try_from(content.len()).unwrap_or(u64::MAX);
    let text = String::from_utf8(content).ok().filter(|text| !text.contains('\0'));
    Some(TreeFile { path: path.to_owned(), bytes, text })
}
