//! A file that is exchanged for a new one when it is large enough, and opened anew when somebody else has moved it.

use core::fmt;
use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Write as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use super::{Output, Torn};

/// When a file is exchanged for a new one, and how many there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rotation {
    /// Bytes from which on a new file is begun; 0 for never.
    pub bytes_max: u64,
    /// Files that are kept, the one that is written to included: `name`, `name.1` (the newest of the old
    /// ones), `name.2`, and so on. At least 1.
    pub files_max: u16,
    /// The permissions of a file that is made, whatever the process's mask is.
    pub mode: u32,
}

/// A file that cannot be opened, and why.
#[derive(Debug)]
pub struct FileError {
    path: PathBuf,
    error: io::Error,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.error)
    }
}

impl core::error::Error for FileError {}

/// A file to whose end lines are written.
#[derive(Debug)]
pub struct RotatedFile {
    path: PathBuf,
    rotation: Rotation,
    file: File,
    bytes: u64,
    /// The last line was written in part: the next one must not be joined to it.
    torn: bool,
    /// Exchanging it has failed, and was said.
    stays: bool,
}

impl RotatedFile {
    /// Opens the file, or makes it.
    ///
    /// # Errors
    /// When that cannot be done.
    pub fn open(path: &Path, rotation: Rotation) -> Result<Self, FileError> {
        let refuse = |error| FileError { path: path.to_owned(), error };
        let (file, bytes) = open(path, rotation.mode).map_err(refuse)?;
        let path = path.to_owned();
        Ok(Self { path, rotation, file, bytes, torn: false, stays: false })
    }

    /// Begins a new file if this one is large enough for `more` bytes not to go into it.
    fn rotate(&mut self, more: usize) {
        let more = u64::try_from(more).unwrap_or(u64::MAX);
        let bytes_max = self.rotation.bytes_max;
        let full = bytes_max > 0 && self.bytes > 0 && self.bytes.saturating_add(more) > bytes_max;
        if !full {
            return;
        }
        match self.exchange() {
            Ok(()) => self.stays = false,
            // Lines go on into the file that there is: the limit is a matter of order, losing them is not.
            Err(error) if !self.stays => {
                self.stays = true;
                let path = self.path.display();
                tracing::error!(%path, %error, "no new file can be begun: the old one grows");
            }
            Err(_) => {}
        }
    }

    fn exchange(&mut self) -> io::Result<()> {
        // Where there is none, an attempt before has come no further, or somebody has moved it: to move the old ones
        // on once more would cost one of them each time.
        if fs::symlink_metadata(&self.path).is_ok() {
            self.move_on()?;
        }
        (self.file, self.bytes) = open(&self.path, self.rotation.mode)?;
        self.torn = false;
        Ok(())
    }

    /// Makes room for a new file: each takes the number behind its own, and the last one goes.
    fn move_on(&self) -> io::Result<()> {
        let old = |number: u16| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{number}"));
            PathBuf::from(name)
        };
        let last = self.rotation.files_max.saturating_sub(1);
        if last == 0 {
            fs::remove_file(&self.path)?;
        }
        for number in (1..last).rev() {
            match fs::rename(old(number), old(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        if last > 0 {
            fs::rename(&self.path, old(1))?;
        }
        Ok(())
    }
}

impl Output for RotatedFile {
    fn write(&mut self, lines: &[u8]) -> Result<(), Torn> {
        if lines.is_empty() {
            return Ok(());
        }
        self.rotate(lines.len());
        if self.torn {
            self.file.write_all(b"\n").map_err(|error| Torn::at(0, error))?;
            (self.torn, self.bytes) = (false, self.bytes.saturating_add(1));
        }
        let mut written = 0;
        while let Some(rest) = lines.get(written..).filter(|rest| !rest.is_empty()) {
            match self.file.write(rest) {
                Ok(0) => return Err(self.tear(lines, written, io::ErrorKind::WriteZero.into())),
                Ok(count) => written = written.saturating_add(count),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.tear(lines, written, error)),
            }
        }
        self.bytes = self.bytes.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        Ok(())
    }

    fn reopen(&mut self) {
        match open(&self.path, self.rotation.mode) {
            Ok((file, bytes)) => {
                (self.file, self.bytes, self.torn) = (file, bytes, false);
                tracing::info!(path = %self.path.display(), "reopened");
            }
            Err(error) => {
                let path = self.path.display();
                tracing::error!(%path, %error, "cannot be reopened: the old file stays in use");
            }
        }
    }
}

impl RotatedFile {
    /// So much of `lines` was written before the error.
    fn tear(&mut self, lines: &[u8], written: usize, error: io::Error) -> Torn {
        let last = written.checked_sub(1).and_then(|last| lines.get(last));
        self.torn = last.is_some_and(|byte| *byte != b'\n');
        self.bytes = self.bytes.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
        Torn::at(written, error)
    }
}

/// The file, to write to its end, and its size.
fn open(path: &Path, mode: u32) -> io::Result<(File, u64)> {
    let mut options = OpenOptions::new();
    options.append(true);
    let file = match options.clone().create_new(true).mode(mode).open(path) {
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(mode))?;
            file
        }
        // The permissions of a file that was there are somebody's decision.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path)?,
        Err(error) => return Err(error),
    };
    let bytes = file.metadata()?.len();
    Ok((file, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("glacis-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    const ROTATION: Rotation = Rotation { bytes_max: 20, files_max: 3, mode: 0o640 };

    /// The files of the folder, with what is in them.
    fn files(folder: &Path) -> Vec<(String, String)> {
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let entry = entry.unwrap();
                let text = fs::read_to_string(entry.path()).unwrap();
                (entry.file_name().into_string().unwrap(), text)
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn files_are_exchanged() {
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        for (rotation, writes, expected) in [
            (ROTATION, &["one\n"][..], vec![file("a", "one\n")]),
            // Exactly as much as fits.
            (
                ROTATION,
                &["012345678\n", "abcdefghi\n", "b\n"],
                vec![file("a", "b\n"), file("a.1", "012345678\nabcdefghi\n")],
            ),
            // A line is never cut in two, and one that is larger than a file has one for itself.
            (
                ROTATION,
                &["0123456789\n", "0123456789\n", "a line larger than the limit\n", "b\n"],
                vec![
                    file("a", "b\n"),
                    file("a.1", "a line larger than the limit\n"),
                    file("a.2", "0123456789\n"),
                ],
            ),
            (
                Rotation { files_max: 1, ..ROTATION },
                &["0123456789\n", "abcdefghij\n"],
                vec![file("a", "abcdefghij\n")],
            ),
            (
                Rotation { bytes_max: 0, ..ROTATION },
                &["0123456789\n", "abcdefghij\n"],
                vec![file("a", "0123456789\nabcdefghij\n")],
            ),
        ] {
            let folder = folder("rotation");
            let mut output = RotatedFile::open(&folder.join("a"), rotation).unwrap();
            for line in writes {
                output.write(line.as_bytes()).unwrap();
            }
            assert_eq!(files(&folder), expected, "{rotation:?} {writes:?}");
            for entry in fs::read_dir(&folder).unwrap() {
                let mode = entry.unwrap().metadata().unwrap().permissions().mode();
                assert_eq!(mode & 0o777, 0o640);
            }
            fs::remove_dir_all(folder).unwrap();
        }
    }

    #[test]
    fn what_was_there_is_kept_and_counts() {
        let folder = folder("kept");
        let path = folder.join("a");
        fs::write(&path, "from before, 19 b.\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let mut output = RotatedFile::open(&path, ROTATION).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        output.write(b"new\n").unwrap();
        let names: Vec<_> = files(&folder).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["a", "a.1"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_file_that_was_moved_is_made_anew() {
        let folder = folder("moved");
        let path = folder.join("a");
        let mut output = RotatedFile::open(&path, ROTATION).unwrap();
        output.write(b"one\n").unwrap();
        fs::rename(&path, folder.join("moved")).unwrap();
        output.write(b"two\n").unwrap();
        output.reopen();
        output.write(b"three\n").unwrap();
        let texts: Vec<_> = files(&folder).into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["three\n", "one\ntwo\n"]);
        fs::remove_dir_all(folder).unwrap();
    }

    /// As after an attempt that has moved the file, and could not begin another one.
    #[test]
    fn a_file_that_is_gone_costs_no_other() {
        let folder = folder("gone");
        let path = folder.join("a");
        fs::write(folder.join("a.1"), "old\n").unwrap();
        let mut output = RotatedFile::open(&path, ROTATION).unwrap();
        output.write(b"0123456789\n").unwrap();
        fs::rename(&path, folder.join("moved")).unwrap();
        output.write(b"abcdefghij\n").unwrap();
        let files = files(&folder);
        let found: Vec<_> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(found, [("a", "abcdefghij\n"), ("a.1", "old\n"), ("moved", "0123456789\n")]);
        fs::remove_dir_all(folder).unwrap();
    }

    /// `/dev/full` is a disk that is always full.
    #[test]
    fn a_full_disk_is_an_error() {
        let rotation = Rotation { bytes_max: 0, ..ROTATION };
        let mut output = RotatedFile::open(Path::new("/dev/full"), rotation).unwrap();
        for _ in 0..2 {
            let Torn { written, error } = output.write(b"lost\n").unwrap_err();
            assert_eq!((written, error.kind()), (0, io::ErrorKind::StorageFull));
        }
    }

    /// What was written of a line counts, and the end that it gets afterwards.
    #[test]
    fn a_torn_line_has_its_size() {
        let folder = folder("torn-size");
        let rotation = Rotation { bytes_max: 0, ..ROTATION };
        let mut output = RotatedFile::open(&folder.join("a"), rotation).unwrap();
        for (written, bytes, torn) in [(0, 0, false), (3, 3, true), (5, 8, false)] {
            output.tear(b"half\n", written, io::ErrorKind::StorageFull.into());
            assert_eq!((output.bytes, output.torn), (bytes, torn), "{written}");
        }
        output.torn = true;
        output.write(b"a\n").unwrap();
        assert_eq!((output.bytes, output.torn), (8 + 3, false));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_torn_line_stays_by_itself() {
        let folder = folder("torn");
        let mut output = RotatedFile::open(&folder.join("a"), ROTATION).unwrap();
        output.file.write_all(b"hal").unwrap();
        let torn = output.tear(b"half\n", 3, io::ErrorKind::StorageFull.into());
        assert_eq!(torn.written, 3);
        output.write(b"whole\n").unwrap();
        assert_eq!(files(&folder), [("a".to_owned(), "hal\nwhole\n".to_owned())]);
        fs::remove_dir_all(folder).unwrap();
    }
}
