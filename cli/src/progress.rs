//! Progress of a command that runs for more than a second: one line on standard error, written again and again while
//! standard error is a terminal. Nobody else sees it.
//!
//! There is one for the process, as there is one terminal: what a command does is [`stage`], how far it is [`count`].
//! It goes before results are written to a terminal, and before each remark.

use std::{
    io::{self, IsTerminal as _, Write as _},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a command runs without a word.
const QUIET: Duration = Duration::from_secs(1);

/// Between two lines.
const BETWEEN: Duration = Duration::from_millis(200);

/// Back to the start of the line, and clear it (ECMA-48, EL).
const CLEAR: &str = "\r\x1b[K";

static TERMINAL: Mutex<Terminal> =
    Mutex::new(Terminal { is_watched: false, is_shown: false, stage: "", total: None });
static DONE: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct Terminal {
    is_watched: bool,
    is_shown: bool,
    stage: &'static str,
    total: Option<u64>,
}

fn terminal() -> MutexGuard<'static, Terminal> {
    TERMINAL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Terminal {
    fn clear(&mut self) {
        if core::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr().lock(), "{CLEAR}");
        }
    }
}

/// Progress is shown until this is dropped.
#[derive(Debug)]
pub(crate) struct Watch(());

impl Drop for Watch {
    fn drop(&mut self) {
        end();
    }
}

/// Shows progress from now on, where standard error is a terminal.
pub(crate) fn watch() -> Watch {
    if io::stderr().is_terminal() {
        terminal().is_watched = true;
        let began = Instant::now();
        // Without the thread there is no progress, and everything else as always.
        drop(thread::Builder::new().name("progress".to_owned()).spawn(move || {
            loop {
                thread::sleep(BETWEEN);
                let mut terminal = terminal();
                if !terminal.is_watched {
                    return;
                }
                let done = DONE.load(Ordering::Relaxed);
                if let Some(line) = line(terminal.stage, done, terminal.total, began.elapsed()) {
                    terminal.is_shown = true;
                    let _ = write!(io::stderr().lock(), "{CLEAR}{line}");
                }
            }
        }));
    }
    Watch(())
}

/// Begins another part of the work, such as `evaluating requests`; `total` is how much there is to do, where that is known.
pub(crate) fn stage(name: &'static str, total: Option<usize>) {
    let mut terminal = terminal();
    DONE.store(0, Ordering::Relaxed);
    terminal.stage = name;
    terminal.total = total.and_then(|total| u64::try_from(total).ok());
}

/// One more is done.
pub(crate) fn count() {
    DONE.fetch_add(1, Ordering::Relaxed);
}

/// Makes room for a line of somebody else's on standard error.
pub(crate) fn clear() {
    terminal().clear();
}

/// Ends it: the command is over, or results go to the terminal.
pub(crate) fn end() {
    let mut terminal = terminal();
    terminal.is_watched = false;
    terminal.clear();
}

/// `evaluating requests: 50 of 200 (25 %), 3 s`; nothing in the first second.
fn line(stage: &str, done: u64, total: Option<u64>, elapsed: Duration) -> Option<String> {
    if elapsed < QUIET {
        return None;
    }
    let stage = if stage.is_empty() { "working" } else { stage };
    let count = match total.filter(|total| *total > 0) {
        Some(total) => format!(": {done} of {total} ({} %)", done.saturating_mul(100) / total),
        None if done > 0 => format!(": {done}"),
        None => String::new(),
    };
    Some(format!("{stage}{count}, {} s", elapsed.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let seconds = Duration::from_secs;
        for (stage, done, total, elapsed, expected) in [
            ("requests", 50, Some(200), Duration::from_millis(999), None),
            ("requests", 50, Some(200), seconds(1), Some("requests: 50 of 200 (25 %), 1 s")),
            ("requests", 7, None, seconds(2), Some("requests: 7, 2 s")),
            ("compiling rules", 0, Some(0), seconds(61), Some("compiling rules, 61 s")),
            ("", 0, None, seconds(1), Some("working, 1 s")),
        ] {
            assert_eq!(line(stage, done, total, elapsed).as_deref(), expected, "{stage}");
        }
    }
}
