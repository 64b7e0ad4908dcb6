//! Progress of commands that take long: a line on standard error that is written again and again, when standard error is
//! a terminal and a second has passed.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

/// How long a command runs without a word.
const QUIET: Duration = Duration::from_secs(1);

/// Between two lines.
const BETWEEN: Duration = Duration::from_millis(100);

/// Back to the start of the line, and clear it (ECMA-48, EL).
const CLEAR: &str = "\r\x1b[K";

/// Progress of one piece of work. The line disappears when it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    what: &'static str,
    total: Option<usize>,
    done: usize,
    /// When the next line is due; `None` where nobody looks.
    due: Option<Instant>,
    shown: bool,
}

impl Progress {
    /// Progress of `what`, such as `requests`; `total` is how many there are, where that is known.
    pub(crate) fn new(what: &'static str, total: Option<usize>) -> Self {
        let due = io::stderr().is_terminal().then(|| Instant::now() + QUIET);
        Self { what, total, done: 0, due, shown: false }
    }

    /// One more is done.
    pub(crate) fn step(&mut self) {
        self.done += 1;
        let Some(due) = self.due else { return };
        let now = Instant::now();
        if now >= due {
            self.due = Some(now + BETWEEN);
            self.shown = true;
            let line = line(self.what, self.done, self.total);
            let _ = write!(io::stderr().lock(), "{CLEAR}{line}");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.shown {
            let _ = write!(io::stderr().lock(), "{CLEAR}");
        }
    }
}

/// `requests: 50 of 200 (25 %)`.
fn line(what: &str, done: usize, total: Option<usize>) -> String {
    match total.filter(|total| *total > 0) {
        Some(total) => format!("{what}: {done} of {total} ({} %)", done * 100 / total),
        None => format!("{what}: {done}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        for (done, total, expected) in [
            (50, Some(200), "requests: 50 of 200 (25 %)"),
            (0, Some(0), "requests: 0"),
            (7, None, "requests: 7"),
        ] {
            assert_eq!(line("requests", done, total), expected);
        }
    }
}
