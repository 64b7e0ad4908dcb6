//! Writing audit records, away from the threads that answer Envoy.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write},
    path::Path,
    sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    thread::JoinHandle,
};

/// Records that wait for the disk. Beyond that they are dropped and counted: a full disk must not
/// stop traffic.
const QUEUE_RECORDS_MAX: usize = 4_096;

/// A thread that writes records, one per line.
#[derive(Debug)]
pub struct AuditWriter {
    queue: Option<SyncSender<String>>,
    thread: Option<JoinHandle<()>>,
}

impl AuditWriter {
    /// Writes to standard output, to the end of `file`, to both or to neither.
    ///
    /// # Errors
    /// When the file cannot be opened or no thread be started.
    pub fn start(stdout: bool, file: Option<&Path>) -> io::Result<Self> {
        let file = match file {
            Some(path) => Some(BufWriter::new(open(path)?)),
            None => None,
        };
        if !stdout && file.is_none() {
            return Ok(Self { queue: None, thread: None });
        }
        let (queue, records) = sync_channel(QUEUE_RECORDS_MAX);
        let stdout = stdout.then(|| BufWriter::new(io::stdout()));
        let thread = std::thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(&records, stdout, file))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    /// Hands over a record. `false` means that it was dropped, as the queue is full.
    pub(crate) fn write(&self, record: String) -> bool {
        self.queue.as_ref().is_none_or(|queue| queue.try_send(record).is_ok())
    }
}

impl Drop for AuditWriter {
    /// Waits until everything is written.
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

fn write_all(
    records: &Receiver<String>,
    mut stdout: Option<BufWriter<io::Stdout>>,
    mut file: Option<BufWriter<File>>,
) {
    let mut outputs: Vec<&mut dyn Write> = Vec::with_capacity(2);
    outputs.extend(stdout.as_mut().map(|output| output as &mut dyn Write));
    outputs.extend(file.as_mut().map(|output| output as &mut dyn Write));
    while let Ok(record) = next(records, &mut outputs) {
        for output in &mut outputs {
            if let Err(error) =
                output.write_all(record.as_bytes()).and_then(|()| output.write_all(b"\n"))
            {
                tracing::error!(%error, "an audit record is lost");
            }
        }
    }
}

/// The next record; what is written so far goes out before waiting for one.
fn next(
    records: &Receiver<String>,
    outputs: &mut [&mut dyn Write],
) -> Result<String, std::sync::mpsc::RecvError> {
    match records.try_recv() {
        Ok(record) => return Ok(record),
        Err(TryRecvError::Empty | TryRecvError::Disconnected) => {}
    }
    for output in outputs {
        if let Err(error) = output.flush() {
            tracing::error!(%error, "audit records are lost");
        }
    }
    records.recv()
}
