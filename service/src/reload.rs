//! Reading what a service runs by anew: when its content has changed, and at SIGHUP.

use core::{panic::AssertUnwindSafe, time::Duration};
use std::{
    io,
    panic::catch_unwind,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
    time::Instant,
};

use tokio::signal::unix::{SignalKind, signal};

use crate::{clock::now, command::Failure, priority::give_way};

/// What can be read anew.
pub trait Reload: Send + 'static {
    /// A number that stands for the content when it was last read, whether or not it was good.
    fn as_read(&self) -> u64;

    /// The same number for the content as it is now.
    fn now(&self) -> u64;

    /// Reads the content and puts it to use if it is good; otherwise what was in use stays. Says what
    /// came of it in the log.
    fn reload(&mut self);
}

/// The last attempt to put something new to use, as the admin port tells it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct LastReload {
    /// Seconds since 1970.
    pub at: u64,
    /// Why it was not put to use.
    pub error: Option<String>,
}

/// What became of readings while the service runs, for the admin port. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Reloads(Arc<Mutex<Told>>);

#[derive(Debug, Default)]
struct Told {
    last: Option<LastReload>,
    /// The keys that differ from the start and are read only then.
    restart_needed: Vec<&'static str>,
}

impl Reloads {
    /// Remembers what came of an attempt.
    pub fn attempted(&self, last: LastReload) {
        self.told().last = Some(last);
    }

    /// What came of the last attempt, if there was one.
    #[must_use]
    pub fn last(&self) -> Option<LastReload> {
        self.told().last.clone()
    }

    /// Remembers which keys of the configuration in use wait for a restart, and says it in the log.
    pub fn wait_for_restart(&self, keys: Vec<&'static str>) {
        for key in &keys {
            tracing::warn!(key, "changed, but read at the start only: restart to put it to use");
        }
        self.told().restart_needed = keys;
    }

    /// The keys that wait for a restart.
    #[must_use]
    pub fn restart_needed(&self) -> Vec<&'static str> {
        self.told().restart_needed.clone()
    }

    fn told(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tries to put something new to use, and says in the log what came of it. `what` names it there.
pub fn attempt(what: &str, reload: impl FnOnce() -> Result<(), Failure>) -> LastReload {
    let began = Instant::now();
    // A panic, which is a bug, must not end the thread: no other configuration would be read then, and nobody be told.
    let result = catch_unwind(AssertUnwindSafe(reload))
        .unwrap_or_else(|_| Err("a bug: reading it panicked, see the log".into()));
    let milliseconds = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    match &result {
        Ok(()) => tracing::info!(what, milliseconds, "what was read anew is in use"),
        Err(error) => tracing::error!(
            what,
            %error,
            "what was read anew is not good: what was there before stays in use"
        ),
    }
    LastReload { at: now().as_secs(), error: result.err().map(|error| error.to_string()) }
}

/// The keys in which two configurations differ: `differing!(one, other; listen, admin)`.
#[macro_export]
macro_rules! differing {
    ($one:expr, $other:expr; $($key:ident),* $(,)?) => {
        [$((stringify!($key), $one.$key != $other.$key)),*]
    };
}

/// Looks after `target` on a thread of its own for as long as the runtime runs: it is read anew at SIGHUP,
/// and when two looks, `interval` apart, find the same new content. (A file that is being written is not
/// the same twice.) Without an interval only at SIGHUP. `what` names it in the log.
///
/// # Errors
/// When no signals can be received or no thread be started.
pub fn watch(what: &str, target: impl Reload, interval: Option<Duration>) -> io::Result<()> {
    let mut hangups = signal(SignalKind::hangup())?;
    // One is enough: a hangup that comes while another waits asks for nothing more.
    let (sender, receiver) = sync_channel(1);
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            if !wake(&sender) {
                return;
            }
        }
    });
    let what = what.to_owned();
    let look_after = move || look_after(&what, target, interval, &receiver);
    thread::Builder::new().name("reload".to_owned()).spawn(look_after)?;
    Ok(())
}

/// `false` when nobody listens any more.
fn wake(sender: &SyncSender<()>) -> bool {
    !matches!(sender.try_send(()), Err(std::sync::mpsc::TrySendError::Disconnected(())))
}

fn look_after(
    what: &str,
    mut target: impl Reload,
    interval: Option<Duration>,
    hangups: &Receiver<()>,
) {
    // Reading anew must not take from those that serve.
    give_way();
    let mut last = target.as_read();
    loop {
        let woken = match interval {
            Some(interval) => hangups.recv_timeout(interval),
            None => hangups.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match woken {
            Ok(()) => {
                tracing::info!(what, "SIGHUP: it is read anew");
                target.reload();
            }
            Err(RecvTimeoutError::Timeout) => {
                let now = target.now();
                if now == last && now != target.as_read() {
                    tracing::info!(what, "it has changed: it is read anew");
                    target.reload();
                }
                last = now;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Content as a script: what each look finds.
    struct Script {
        looks: Mutex<Vec<u64>>,
        read: u64,
        found: Arc<Mutex<Vec<u64>>>,
    }

    impl Reload for Script {
        fn as_read(&self) -> u64 {
            self.read
        }

        fn now(&self) -> u64 {
            self.looks.lock().unwrap().pop().unwrap_or(self.read)
        }

        fn reload(&mut self) {
            self.read = self.now();
            self.found.lock().unwrap().push(self.read);
        }
    }

    /// What is read of a content that looks so, one look after the other; it begins as 0.
    fn read(looks: &[u64]) -> Vec<u64> {
        let found: Arc<Mutex<Vec<u64>>> = Arc::default();
        let looks = Mutex::new(looks.iter().rev().copied().collect());
        let script = Script { looks, read: 0, found: Arc::clone(&found) };
        let (sender, receiver) = sync_channel(1);
        let thread = thread::spawn(move || {
            look_after("a script", script, Some(Duration::from_millis(1)), &receiver);
        });
        thread::sleep(Duration::from_millis(100));
        drop(sender);
        thread.join().unwrap();
        found.lock().unwrap().drain(..).collect()
    }

    #[test]
    fn a_panic_is_an_attempt_that_failed() {
        assert_eq!(attempt("tests", || Ok(())).error, None);
        let refused = attempt("tests", || Err("not good".into()));
        assert_eq!(refused.error.as_deref(), Some("not good"));
        let panicked = attempt("tests", || panic!("a bug"));
        assert!(panicked.error.is_some_and(|error| error.contains("a bug")));
    }

    #[test]
    fn what_stays_the_same_is_read_once() {
        // The look behind two that are the same is the reading itself.
        for (looks, expected) in [
            (&[0, 0, 0][..], &[][..]),
            (&[1, 1, 1], &[1]),
            (&[1, 2, 3, 3, 3, 3, 3], &[3]),
            (&[1, 0, 0], &[]),
            (&[1, 1, 1, 1, 2, 2, 2, 2], &[1, 2]),
            // It changed once more while it was read.
            (&[1, 1, 2, 2, 2], &[2]),
        ] {
            assert_eq!(read(looks), expected, "{looks:?}");
        }
    }
}
