//! A running proxy as the target of tests.
//!
//! The request goes out byte by byte as the test says, with an `x-request-id` header more. What
//! matched is read from the audit records that the proxy's rules write: JSON lines in which
//! `request_id` is that header's value.

use std::{
    fs::File,
    io::{self, Read, Seek, SeekFrom, Write},
    net::{TcpStream, ToSocketAddrs},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;

use super::{Entry, Observed, engine::fields, message::Message};

/// How long the proxy may take for each step.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of an answer that are read.
const RESPONSE_BYTES_MAX: u64 = 16 << 20;

/// How long to wait for an audit record. None may come: not every request is worth one.
const AUDIT_WAIT: Duration = Duration::from_millis(500);

/// How often to look for it.
const AUDIT_POLL: Duration = Duration::from_millis(5);

/// A proxy, and where its audit records appear.
pub(crate) struct Proxy {
    authority: String,
    audit_log: Option<PathBuf>,
    /// Makes ids differ from those of an earlier run.
    run: u128,
    count: u64,
}

#[derive(Debug, Deserialize)]
struct AuditRecord {
    request_id: String,
    #[serde(default)]
    matched: Vec<AuditMatch>,
}

#[derive(Debug, Deserialize)]
struct AuditMatch {
    id: u32,
    #[serde(default)]
    msg: String,
    #[serde(default)]
    logdata: String,
}

impl Proxy {
    pub(crate) fn new(authority: String, audit_log: Option<PathBuf>) -> Self {
        let run = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Self { authority, audit_log, run, count: 0 }
    }

    /// Sends the request and waits for the answer, and for what the rules say about it.
    pub(crate) fn send(&mut self, message: &Message) -> Observed {
        self.count += 1;
        let request_id = format!("glacis-ftw-{:x}-{}", self.run, self.count);
        // Only what is appended from now on can be about this request.
        let before = self.audit_log.as_deref().map(|path| (path, length(path)));
        let answer = exchange(&self.authority, &message.to_bytes("x-request-id", &request_id));
        let log = before.map(|(path, from)| matched(path, from, &request_id));
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

fn length(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

/// Waits for the record of `request_id`; none is the same as one without matches.
fn matched(path: &Path, from: u64, request_id: &str) -> Vec<Entry> {
    let begin = Instant::now();
    loop {
        let text = read_from(path, from).unwrap_or_default();
        let records = text.lines().filter(|line| line.contains(request_id));
        let mut records = records.filter_map(|line| serde_json::from_str::<AuditRecord>(line).ok());
        if let Some(record) = records.find(|record| record.request_id == request_id) {
            return record.matched.iter().map(entry).collect();
        }
        if begin.elapsed() >= AUDIT_WAIT {
            return Vec::new();
        }
        thread::sleep(AUDIT_POLL);
    }
}

fn read_from(path: &Path, from: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn entry(matched: &AuditMatch) -> Entry {
    let line = format!("Glacis: Warning.{}", fields(matched.id, &matched.msg, &matched.logdata));
    Entry { id: matched.id, line }
}
