//! The folder of a run: configurations and logs.

use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::{Outcome, io};

/// How much of each log a failure shows, in lines.
const SHOWN_LINES: usize = 25;

/// A folder for the files of one stack.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// An empty folder: what an earlier run has left there is removed.
    ///
    /// # Errors
    ///
    /// If it cannot be removed or made.
    pub fn new(path: &Path) -> Outcome<Self> {
        if path.exists() {
            fs::remove_dir_all(path).map_err(io("empty", path))?;
        }
        fs::create_dir_all(path).map_err(io("make", path))?;
        Ok(Self(path.to_path_buf()))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a file in it.
    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a file into it and returns its path.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> Outcome<PathBuf> {
        let path = self.file(name);
        fs::write(&path, text).map_err(io("write", &path))?;
        Ok(path)
    }

    /// The text of a file in it; empty if there is none (yet).
    pub fn read(&self, name: &str) -> String {
        fs::read(self.file(name)).map_or_else(|_| String::new(), |bytes| lossy(&bytes))
    }

    /// The ends of all logs, for whoever looks for the cause of a failure.
    pub fn story(&self) -> String {
        let mut story = format!("---- all logs: {}\n", self.0.display());
        let mut names: Vec<_> = fs::read_dir(&self.0)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.ends_with(".log"))
            .collect();
        names.sort();
        for name in names {
            story.push_str(&format!("---- {name}\n{}\n", tail(&self.read(&name))));
        }
        story
    }
}

/// The last lines of a text.
pub fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines.get(lines.len().saturating_sub(SHOWN_LINES)..).unwrap_or_default().join("\n")
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
