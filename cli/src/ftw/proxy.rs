//! A running proxy as the target of tests.
//!
//! The request goes out byte by byte as the test says, with an `x-request-id` header more. What
//! matched is read from the audit log of ext-proc: JSON lines in which `request_id` is that header's
//! value. Every request has to have a record there (`SecAuditEngine On`): a record without rules says
//! that nothing matched, no record says that the request did not reach the rules.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    net::{TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;

use super::{Entry, Log, Observed, engine::fields, message::Message};

/// How long the proxy may take for each step.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of an answer that are read.
const RESPONSE_BYTES_MAX: u64 = 16 << 20;

/// How long to wait for an audit record after the answer. All that came through has one: only a test
/// that fails waits so long.
const AUDIT_WAIT: Duration = Duration::from_secs(5);

/// How often to look for it.
const AUDIT_POLL: Duration = Duration::from_millis(5);

/// Bytes of the audit log that are read at once.
const AUDIT_READ_BYTES_MAX: u64 = 16 << 20;

/// A proxy, and where its audit records appear. Threads share it.
pub(crate) struct Proxy {
    authority: String,
    audit_log: Option<Mutex<AuditLog>>,
    /// What request ids begin with; it differs from that of an earlier run.
    run: String,
    count: AtomicU64,
}

#[derive(Debug, Deserialize)]
struct AuditRecord {
    request_id: String,
    rules: Vec<AuditRule>,
    /// Rules that did not fit into the record.
    #[serde(default)]
    rules_omitted: u32,
}

#[derive(Debug, Deserialize)]
struct AuditRule {
    id: u32,
    #[serde(default)]
    msg: String,
    #[serde(default)]
    logdata: String,
}

impl Proxy {
    pub(crate) fn new(authority: String, audit_log: Option<&Path>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let run = format!("glacis-ftw-{now:x}-");
        let audit_log = audit_log.map(|path| Mutex::new(AuditLog::at_end(path, run.clone())));
        Self { authority, audit_log, run, count: AtomicU64::new(0) }
    }

    /// Sends the request and waits for the answer; if `looks_at_log`, also for what the rules say
    /// about it.
    pub(crate) fn send(&self, message: &Message, looks_at_log: bool) -> Observed {
        let count = self.count.fetch_add(1, Ordering::Relaxed);
        let request_id = format!("{}{count}", self.run);
        let answer = exchange(&self.authority, &message.to_bytes("x-request-id", &request_id));
        let wait = if looks_at_log { AUDIT_WAIT } else { Duration::ZERO };
        let log = match &self.audit_log {
            Some(log) => wait_for_record(log, &request_id, wait),
            None => Log::Unknown,
        };
        match answer.map(|response| (parse_status(&response), response)) {
            Ok((Some(status), response)) => Observed { status, response, log, error: None },
            Ok((None, response)) => Observed {
                response,
                log,
                error: Some("what came back is not HTTP".to_owned()),
                status: 0,
            },
            Err(error) => {
                let error = Some(format!("{}: {error}", self.authority));
                Observed { log, error, ..Observed::default() }
            }
        }
    }
}

fn exchange(authority: &str, request: &[u8]) -> io::Result<Vec<u8>> {
    let address = authority.to_socket_addrs()?.next();
    let address = address.ok_or_else(|| io::Error::other("the name has no address"))?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // The proxy may refuse before it has read everything: then its answer is what counts.
    let sent = stream.write_all(request);
    let response = read(&mut stream)?;
    if response.is_empty() {
        sent?;
        return Err(io::Error::other("closed without an answer"));
    }
    Ok(response)
}

/// Reads one answer: to the end of the stream, or to the end that its headers announce.
fn read(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut response = Vec::new();
    let mut buffer = [0; 16 << 10];
    while (response.len() as u64) < RESPONSE_BYTES_MAX && !is_complete(&response) {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(length) => response.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if !response.is_empty() => break,
            Err(error) => return Err(error),
        }
    }
    Ok(response)
}

/// Whether `Content-Length` bytes or the last chunk have come.
fn is_complete(response: &[u8]) -> bool {
    let Some(end) = response.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let (head, body) = response.split_at(end + 4);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    if let Some(length) = header("content-length:").and_then(|value| value.parse::<usize>().ok()) {
        return body.len() >= length;
    }
    header("transfer-encoding:").is_some() && body.ends_with(b"0\r\n\r\n")
}

fn parse_status(response: &[u8]) -> Option<u16> {
    let rest = response.strip_prefix(b"HTTP/1.")?;
    std::str::from_utf8(rest.get(2..5)?).ok()?.parse().ok()
}

/// The audit log, read as it grows.
struct AuditLog {
    path: PathBuf,
    /// What the ids of our requests begin with.
    run: String,
    position: u64,
    /// The beginning of a record whose end is not written yet.
    line: Vec<u8>,
    /// Records that nobody has asked for yet.
    records: HashMap<String, Log>,
}

impl AuditLog {
    /// Only what is appended from now on can be about our requests.
    fn at_end(path: &Path, run: String) -> Self {
        let position = path.metadata().map_or(0, |metadata| metadata.len());
        let path = path.to_owned();
        Self { path, run, position, line: Vec::new(), records: HashMap::new() }
    }

    /// Takes the record of a request out of the log, if it is there.
    fn take(&mut self, request_id: &str) -> Option<Log> {
        // A log that cannot be read (yet) is one without records.
        let _ = self.read();
        self.records.remove(request_id)
    }

    fn read(&mut self) -> io::Result<()> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(self.position))?;
        let mut bytes = Vec::new();
        file.take(AUDIT_READ_BYTES_MAX).read_to_end(&mut bytes)?;
        self.position += bytes.len() as u64;
        let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
        for piece in &mut lines {
            self.line.extend_from_slice(piece);
            if self.line.ends_with(b"\n") {
                self.add_record();
                self.line.clear();
            }
        }
        Ok(())
    }

    /// Keeps what the line says, if it is a record of ours.
    fn add_record(&mut self) {
        let Ok(record) = serde_json::from_slice::<AuditRecord>(&self.line) else { return };
        // Of a record that is not complete no test can be judged.
        if record.request_id.starts_with(&self.run) && record.rules_omitted == 0 {
            let entries = record.rules.iter().map(entry).collect();
            self.records.insert(record.request_id, Log::Entries(entries));
        }
    }
}

fn wait_for_record(log: &Mutex<AuditLog>, request_id: &str, wait: Duration) -> Log {
    let begin = Instant::now();
    loop {
        let taken = log.lock().unwrap_or_else(PoisonError::into_inner).take(request_id);
        match taken {
            Some(found) => return found,
            None if begin.elapsed() >= wait => return Log::Missing,
            None => thread::sleep(AUDIT_POLL),
        }
    }
}

fn entry(rule: &AuditRule) -> Entry {
    let line = format!("Glacis: Warning.{}", fields(rule.id, &rule.msg, &rule.logdata));
    Entry { id: rule.id, line }
}
