//! Child processes that never outlive us.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome, io};

/// How long a process may take to end after SIGTERM before it is killed.
const GRACE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// A running program, stopped when dropped.
///
/// It is in a process group of its own, so that Ctrl-C reaches only us and things stop in order. A
/// small shell beside it waits for the end of a pipe that we hold open: however we end, by SIGKILL
/// or with the process in a `static`, the pipe closes and the shell kills the process.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    watch: Child,
}

impl Process {
    /// Starts a program; both its output streams go to `log`.
    ///
    /// # Errors
    ///
    /// If the program cannot be started or the log cannot be made.
    pub fn start(name: &str, command: &mut Command, log: &Path) -> Outcome<Self> {
        let out = File::options().create(true).append(true).open(log).map_err(io("open", log))?;
        let err = out.try_clone().map_err(io("open", log))?;
        command.stdin(Stdio::null()).stdout(out).stderr(err).process_group(0);
        let program = command.get_program().to_owned();
        let mut child = command.spawn().map_err(io("start", Path::new(&program)))?;
        match watch(child.id()) {
            Ok(watch) => Ok(Self { name: name.to_owned(), child, watch }),
            Err(failure) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(failure)
            }
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Asks `ready` until it says yes.
    ///
    /// # Errors
    ///
    /// If the process ends before, or the time is over.
    pub fn wait_until(&mut self, limit: Duration, ready: impl Fn() -> bool) -> Outcome<()> {
        let begun = Instant::now();
        while !ready() {
            let name = &self.name;
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Failure::new(format!("{name} ended at its start: {status}")));
            }
            if begun.elapsed() > limit {
                return Err(Failure::new(format!("{name} was not ready within {limit:?}")));
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Stops its execution in the middle of whatever it does (SIGSTOP).
    ///
    /// # Errors
    ///
    /// If the signal cannot be sent, or the process goes on all the same.
    pub fn freeze(&self) -> Outcome<()> {
        signal("-STOP", self.id())?;
        // On a busy machine threads go on for a moment after the signal has been sent.
        let begun = Instant::now();
        while !is_stopped(self.id()) {
            if begun.elapsed() > GRACE {
                return Err(Failure::new(format!("process {} does not stop", self.id())));
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    ///
    /// If the signal cannot be sent.
    pub fn thaw(&self) -> Outcome<()> {
        signal("-CONT", self.id())
    }

    /// Ends it without a chance to say goodbye (SIGKILL).
    pub fn kill(&mut self) {
        // The watch goes first: it must not kill whoever gets the process id next.
        let _ = self.watch.kill();
        let _ = self.watch.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Asks it to read its configuration anew (SIGHUP).
    ///
    /// # Errors
    ///
    /// If no signal can be sent.
    pub fn hang_up(&self) -> Outcome<()> {
        signal("-HUP", self.child.id())
    }

    /// Asks it to end (SIGTERM), and does not wait.
    ///
    /// # Errors
    ///
    /// If no signal can be sent.
    pub fn terminate(&self) -> Outcome<()> {
        signal("-TERM", self.child.id())
    }

    /// Asks it to end (SIGTERM); kills it if it takes too long.
    pub fn stop(&mut self) {
        let begun = Instant::now();
        if self.ended().is_none() && signal("-TERM", self.id()).is_ok() {
            while self.ended().is_none() && begun.elapsed() < GRACE {
                sleep(PAUSE);
            }
        }
        self.kill();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Signals go through the program `kill`: the standard library sends only SIGKILL.
fn signal(signal: &str, id: u32) -> Outcome<()> {
    let sent = Command::new("kill").args([signal, &id.to_string()]).stderr(Stdio::null()).status();
    match sent {
        Ok(status) if status.success() => Ok(()),
        _ => Err(Failure::new(format!("cannot send {signal} to process {id}"))),
    }
}

/// Whether all threads of a process are stopped, as Linux tells it (proc(5), `/proc/pid/stat`): the
/// state stands after the name, which is in parentheses and may contain some.
fn is_stopped(id: u32) -> bool {
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{id}/task")) else { return false };
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
    })
}

fn watch(id: u32) -> Outcome<Child> {
    Command::new("sh")
        .args(["-c", "read -r _; kill -KILL \"$1\"", "sh", &id.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(io("start", Path::new("sh")))
}
