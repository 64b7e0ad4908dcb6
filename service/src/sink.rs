//! Lines to standard output or to a file, written by a thread of their own: whoever hands one over never
//! waits.

mod file;

use core::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};
use std::{
    fmt, io,
    io::Write as _,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel},
    },
    thread,
};

pub use file::{FileError, RotatedFile, Rotation};

use crate::loss::{Loss, Losses, Reason, Room};

/// Lines, and bytes of lines, that wait to be written. What comes beyond that is lost, and counted.
const QUEUE_LINES_MAX: usize = 4_096;
const QUEUE_BYTES_MAX: usize = 32 << 20;

/// Bytes that are written at once, unless a line is longer.
const BATCH_BYTES: usize = 64 << 10;

/// How long the thread sleeps where there is nothing to write, before it looks whether to reopen.
const NAP: Duration = Duration::from_millis(250);

/// Where lines go.
trait Output: Send {
    /// Writes lines, each with its end. On an error says how many bytes were taken.
    fn write(&mut self, lines: &[u8]) -> Result<(), Torn>;

    /// Opens a file anew, as another one may be at its path.
    fn reopen(&mut self) {}
}

/// Not everything was written.
#[derive(Debug)]
struct Torn {
    written: usize,
    error: io::Error,
}

impl Torn {
    const fn at(written: usize, error: io::Error) -> Self {
        Self { written, error }
    }
}

/// A thread that writes lines. Clones are the same.
#[derive(Clone)]
pub struct LineSink {
    queue: SyncSender<Item>,
    room: Arc<Room>,
    loss: Arc<Loss>,
    reopen: Arc<AtomicBool>,
}

impl fmt::Debug for LineSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineSink").finish_non_exhaustive()
    }
}

enum Item {
    Line(Arc<str>),
    /// To be answered once everything before it is written.
    Flush(SyncSender<()>),
}

impl LineSink {
    /// Writes to standard output.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn stdout(losses: &Losses) -> io::Result<Self> {
        Self::start(Stdout, losses.sink("stdout")?)
    }

    /// Writes to a file.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn file(file: RotatedFile, losses: &Losses) -> io::Result<Self> {
        Self::start(file, losses.sink("file")?)
    }

    fn start(output: impl Output + 'static, loss: Arc<Loss>) -> io::Result<Self> {
        let (queue, lines) = sync_channel(QUEUE_LINES_MAX);
        let sink = Self {
            queue,
            room: Arc::new(Room::new(QUEUE_BYTES_MAX)),
            loss,
            reopen: Arc::default(),
        };
        let writer = Writer {
            output,
            lines,
            room: Arc::clone(&sink.room),
            loss: Arc::clone(&sink.loss),
            reopen: Arc::clone(&sink.reopen),
            batch: Vec::new(),
        };
        thread::Builder::new().name("lines".to_owned()).spawn(move || writer.run())?;
        Ok(sink)
    }

    /// Hands over a line, without its end. Never waits.
    pub fn write(&self, line: Arc<str>) {
        let bytes = line.len();
        if !self.room.take(bytes) {
            return self.loss.add(Reason::Queue, 1, &"too many bytes wait to be written");
        }
        if self.queue.try_send(Item::Line(line)).is_err() {
            self.room.give_back(bytes);
            self.loss.add(Reason::Queue, 1, &"too many lines wait to be written");
        }
    }

    /// Has the file opened anew, soon: somebody has moved it (as logrotate does).
    pub fn reopen(&self) {
        self.reopen.store(true, Ordering::Relaxed);
    }

    /// Waits until what was handed over is written, but no longer than `limit`.
    pub fn flush(&self, limit: Duration) {
        let (done, waits) = sync_channel(1);
        // A full queue stands still, or there would be room soon.
        if self.queue.try_send(Item::Flush(done)).is_ok() {
            let _ = waits.recv_timeout(limit);
        }
    }
}

/// What the thread has.
struct Writer<O> {
    output: O,
    lines: Receiver<Item>,
    room: Arc<Room>,
    loss: Arc<Loss>,
    reopen: Arc<AtomicBool>,
    batch: Vec<u8>,
}

impl<O: Output> Writer<O> {
    /// Until nobody can hand over anything any more.
    fn run(mut self) {
        loop {
            let first = self.lines.recv_timeout(NAP);
            if self.reopen.swap(false, Ordering::Relaxed) {
                self.output.reopen();
            }
            match first {
                Ok(item) => self.take(item),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Writes what waits, up to a batch.
    fn take(&mut self, first: Item) {
        let mut next = Some(first);
        while let Some(item) = next.take() {
            match item {
                Item::Line(line) => {
                    self.room.give_back(line.len());
                    self.batch.extend_from_slice(line.as_bytes());
                    self.batch.push(b'\n');
                }
                Item::Flush(done) => {
                    self.write();
                    // Who waited for it may have gone.
                    let _ = done.try_send(());
                }
            }
            if self.batch.len() < BATCH_BYTES {
                next = self.lines.try_recv().ok();
            }
        }
        self.write();
    }

    fn write(&mut self) {
        if let Err(Torn { written, error }) = self.output.write(&self.batch) {
            let lost = self.batch.get(written..).unwrap_or_default();
            let lines = lost.iter().filter(|byte| **byte == b'\n').count();
            self.loss.add(Reason::Write, lines, &error);
        }
        self.batch.clear();
    }
}

struct Stdout;

impl Output for Stdout {
    fn write(&mut self, lines: &[u8]) -> Result<(), Torn> {
        let mut stdout = io::stdout().lock();
        // What part of it was taken the standard library does not say.
        stdout.write_all(lines).and_then(|()| stdout.flush()).map_err(|error| Torn::at(0, error))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::loss::lost;

    /// A disk that is full for a while, or never done.
    #[derive(Clone, Default)]
    struct Disk {
        written: Arc<Mutex<Vec<u8>>>,
        full: Arc<AtomicBool>,
        stuck: Arc<Mutex<()>>,
    }

    impl Output for Disk {
        fn write(&mut self, lines: &[u8]) -> Result<(), Torn> {
            drop(self.stuck.lock());
            if self.full.load(Ordering::Relaxed) {
                return Err(Torn::at(0, io::ErrorKind::StorageFull.into()));
            }
            self.written.lock().unwrap().extend_from_slice(lines);
            Ok(())
        }
    }

    fn sink(disk: &Disk) -> (LineSink, impl Fn(&'static str) -> u64) {
        let losses = Losses::default();
        let loss = losses.sink("disk").unwrap();
        let sink = LineSink::start(disk.clone(), loss).unwrap();
        (sink, move |reason| lost(&losses, "disk", reason))
    }

    const LONG: Duration = Duration::from_secs(10);

    #[test]
    fn lines_are_written_in_order() {
        let disk = Disk::default();
        let (sink, lost) = sink(&disk);
        let lines: Vec<String> = (0..1_000).map(|number| format!("line {number}")).collect();
        for line in &lines {
            sink.write(line.as_str().into());
        }
        sink.flush(LONG);
        let written = String::from_utf8(disk.written.lock().unwrap().clone()).unwrap();
        assert_eq!(written.lines().collect::<Vec<_>>(), lines);
        assert_eq!((lost("queue"), lost("write")), (0, 0));
    }

    #[test]
    fn a_full_disk_loses_lines_and_nothing_else() {
        let disk = Disk::default();
        let (sink, lost) = sink(&disk);
        disk.full.store(true, Ordering::Relaxed);
        for _ in 0..5 {
            sink.write("lost".into());
        }
        sink.flush(LONG);
        assert_eq!(lost("write"), 5);
        disk.full.store(false, Ordering::Relaxed);
        sink.write("kept".into());
        sink.flush(LONG);
        assert_eq!(*disk.written.lock().unwrap(), b"kept\n");
    }

    #[test]
    fn a_disk_that_stands_still_blocks_nobody() {
        for (line, count, waits) in [
            ("x".repeat(4 << 10), QUEUE_LINES_MAX + 100, QUEUE_LINES_MAX),
            // Bytes run out before lines do.
            ("x".repeat(1 << 20), 40, QUEUE_BYTES_MAX >> 20),
        ] {
            let disk = Disk::default();
            let (sink, lost) = sink(&disk);
            let held = disk.stuck.lock().unwrap();
            let line: Arc<str> = line.into();
            for _ in 0..count {
                sink.write(Arc::clone(&line));
            }
            sink.flush(Duration::from_millis(10));
            // One batch is in the hands of the thread already, perhaps.
            let lost = usize::try_from(lost("queue")).unwrap();
            let batch = BATCH_BYTES / line.len() + 1;
            assert!((count - waits - batch..=count - waits).contains(&lost), "{lost} of {count}");
            drop(held);
        }
    }
}
