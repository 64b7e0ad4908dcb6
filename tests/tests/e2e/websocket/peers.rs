//! A client and a server that send frames as they are told to, right or wrong.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use glacis_tests::stack::Stack;
use glacis_tests::websocket;

use crate::support::client;

/// What the server answers to the text `leak`.
pub(super) const LEAK: &str = "ORA-00933: SQL command not properly ended";

/// A frame: its first byte, and its payload without the mask.
pub(super) type Frame = (u8, Vec<u8>);

pub(super) const TEXT: u8 = 0x81;
pub(super) const BINARY: u8 = 0x82;
pub(super) const COMPRESSED: u8 = 0xc1;
pub(super) const CLOSE: u8 = 0x88;
pub(super) const PING: u8 = 0x89;
pub(super) const PONG: u8 = 0x8a;

/// A frame of a client.
pub(super) fn masked(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [0x37, 0xfa, 0x21, 0x3d];
    let mut frame = head(first, 0x80, payload.len());
    frame.extend(mask);
    frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A frame of a server.
pub(super) fn plain(first: u8, payload: &[u8]) -> Vec<u8> {
    [head(first, 0, payload.len()), payload.to_vec()].concat()
}

fn head(first: u8, mask: u8, bytes: usize) -> Vec<u8> {
    match u16::try_from(bytes) {
        Ok(short) if short < 126 => vec![first, mask | u8::try_from(short).unwrap()],
        Ok(long) => [&[first, mask | 126], &long.to_be_bytes()[..]].concat(),
        Err(_) => [&[first, mask | 127], &(bytes as u64).to_be_bytes()[..]].concat(),
    }
}

/// A message, compressed by itself.
pub(super) fn deflated(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut compress = Compress::new(Compression::default(), false);
    compress.compress_vec(text, &mut out, FlushCompress::Sync).unwrap();
    out.truncate(out.len() - 4);
    out
}

pub(super) fn inflated(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(1 << 16);
    let input = [bytes, &[0, 0, 0xff, 0xff]].concat();
    Decompress::new(false).decompress_vec(&input, &mut out, FlushDecompress::Sync).unwrap();
    out
}

/// Takes a frame from the front of `bytes`.
fn take(bytes: &mut Vec<u8>) -> Option<Frame> {
    let (&first, &second) = (bytes.first()?, bytes.get(1)?);
    let (length, at) = match second & 0x7f {
        126 => (usize::from(u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?)), 4),
        127 => (usize::try_from(u64::from_be_bytes(bytes.get(2..10)?.try_into().ok()?)).ok()?, 10),
        length => (usize::from(length), 2),
    };
    let (mask, at) = match second & 0x80 {
        0 => ([0; 4], at),
        _ => (bytes.get(at..at + 4)?.try_into().ok()?, at + 4),
    };
    let payload = bytes.get(at..at + length)?.iter().zip(mask.iter().cycle());
    let payload = payload.map(|(byte, mask)| byte ^ mask).collect();
    bytes.drain(..at + length);
    Some((first, payload))
}

/// What servers have got, by the path that was asked for.
static GOT: LazyLock<Mutex<HashMap<String, Vec<Frame>>>> = LazyLock::new(Mutex::default);

/// What the server has got on a path.
pub(super) fn got(path: &str) -> Vec<Frame> {
    GOT.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned().unwrap_or_default()
}

/// One test at a time, as what servers have got is known by the path.
static TURN: Mutex<()> = Mutex::new(());

/// Waits for the turn of a test, and forgets what was got in others.
pub(super) fn turn() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    GOT.lock().unwrap_or_else(PoisonError::into_inner).clear();
    turn
}

fn keep(path: &str, frame: Frame) {
    let mut got = GOT.lock().unwrap_or_else(PoisonError::into_inner);
    got.entry(path.to_owned()).or_default().push(frame);
}

/// Serves in threads until the process ends. The path says what the server does:
///
/// - `…/chat…`: sends each frame back, accepts compression without windows if it is offered;
/// - `…/window…`: accepts compression with windows; `…/other…`: an extension that nobody has offered;
/// - `…/refuse…`: answers 200, with a body that has no end;
/// - `…/tungstenite…`: is tungstenite's server, which sends each message back.
pub(super) fn serve(port: u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                // An error here is a client that went away.
                let _ = connection(stream);
            });
        }
    });
}

fn connection(mut stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut first = [0; 4_096];
    let head = loop {
        let bytes = stream.peek(&mut first)?;
        let text = String::from_utf8_lossy(&first[..bytes]).into_owned();
        if text.contains("\r\n\r\n") || bytes == 0 {
            break text;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    if path.contains("/tungstenite") {
        return tungstenite(stream, &path);
    }
    let length = head.find("\r\n\r\n").unwrap_or(0) + 4;
    stream.read_exact(&mut vec![0; length])?;
    let field = |name: &str| {
        let mut lines = head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned())
    };
    if let Some(offer) = field("sec-websocket-extensions") {
        keep(&format!("{path} offer"), (0, offer.into_bytes()));
    }
    if path.contains("/refuse") {
        stream.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nno\r\n")?;
        let mut bytes = [0; 1_024];
        loop {
            match stream.read(&mut bytes)? {
                0 => return Ok(()),
                count => keep(&path, (0, bytes[..count].to_vec())),
            }
        }
    }
    let extension = match field("sec-websocket-extensions") {
        _ if path.contains("/other") => "sec-websocket-extensions: x-other\r\n",
        Some(_) if path.contains("/window") => "sec-websocket-extensions: permessage-deflate\r\n",
        Some(_) => "sec-websocket-extensions: permessage-deflate; server_no_context_takeover\r\n",
        None => "",
    };
    let key = field("sec-websocket-key").unwrap_or_default();
    let accept = websocket::accept(key.as_bytes());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: Upgrade\r\n\
         sec-websocket-accept: {accept}\r\n{extension}\r\n"
    );
    stream.write_all(answer.as_bytes())?;
    echo(stream, &path)
}

fn echo(mut stream: TcpStream, path: &str) -> std::io::Result<()> {
    let (mut bytes, mut piece) = (Vec::new(), [0; 16 << 10]);
    loop {
        while let Some(frame) = take(&mut bytes) {
            keep(path, frame.clone());
            let (first, payload) = frame;
            let answer = match (first, &*payload) {
                (PING, payload) => plain(PONG, payload),
                (PONG, _) => continue,
                (TEXT, b"leak") => plain(TEXT, LEAK.as_bytes()),
                (TEXT, b"leak in fragments") => {
                    let (one, two) = LEAK.split_at(7);
                    [plain(0x01, one.as_bytes()), plain(PING, b"p"), plain(0x80, two.as_bytes())]
                        .concat()
                }
                (COMPRESSED, payload) if inflated(payload) == b"leak" => {
                    plain(COMPRESSED, &deflated(LEAK.as_bytes()))
                }
                (first, payload) => plain(first, payload),
            };
            if first == CLOSE && path.contains("/stubborn") {
                continue;
            }
            stream.write_all(&answer)?;
            if first == CLOSE {
                // In these modes nothing but the answer to a piece of the server can tell the client.
                if ["/streamed/", "/buffered/", "/partial/"].iter().any(|mode| path.contains(mode))
                {
                    std::thread::sleep(Duration::from_millis(300));
                }
                return Ok(());
            }
        }
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            count => bytes.extend_from_slice(&piece[..count]),
        }
    }
}

fn tungstenite(stream: TcpStream, path: &str) -> std::io::Result<()> {
    let Ok(mut socket) = tungstenite::accept(stream) else { return Ok(()) };
    while let Ok(message) = socket.read() {
        keep(path, (0, message.to_string().into_bytes()));
        if (message.is_text() || message.is_binary()) && socket.send(message).is_err() {
            break;
        }
    }
    Ok(())
}

/// A client.
pub(super) struct Client {
    stream: TcpStream,
    bytes: Vec<u8>,
    /// The headers of the answer.
    pub(super) answer: String,
}

impl Client {
    /// Asks for a socket with more header lines, and sends `early` in the same piece.
    pub(super) fn ask(stack: &Stack, path: &str, more: &str, early: &[u8]) -> Self {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: shop.example\r\nuser-agent: Mozilla/5.0\r\naccept: */*\r\n\
             connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
             sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
        );
        Self::send_head(stack.proxy(), &[request.as_bytes(), early].concat())
    }

    fn send_head(to: SocketAddr, head: &[u8]) -> Self {
        let from = client();
        let socket = connect_from(from, to);
        let mut client = Self { stream: socket, bytes: Vec::new(), answer: String::new() };
        client.stream.set_nodelay(true).unwrap();
        client.stream.set_read_timeout(Some(Duration::from_secs(15))).unwrap();
        client.stream.write_all(head).unwrap();
        let end = loop {
            if let Some(at) = client.bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if !client.read() {
                break client.bytes.len();
            }
        };
        client.answer = String::from_utf8_lossy(&client.bytes[..end]).to_ascii_lowercase();
        client.bytes.drain(..end);
        client
    }

    /// The status of the answer.
    pub(super) fn status(&self) -> &str {
        self.answer.split(' ').nth(1).unwrap_or_default()
    }

    /// The address from which it speaks.
    pub(super) fn address(&self) -> Ipv4Addr {
        match self.stream.local_addr().unwrap() {
            SocketAddr::V4(address) => *address.ip(),
            SocketAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        }
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next frame; `None` when the connection has ended.
    pub(super) fn hear(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = take(&mut self.bytes) {
                return Some(frame);
            }
            if !self.read() {
                return None;
            }
        }
    }

    fn read(&mut self) -> bool {
        let mut piece = [0; 16 << 10];
        match self.stream.read(&mut piece) {
            Ok(count) if count > 0 => {
                self.bytes.extend_from_slice(&piece[..count]);
                true
            }
            Ok(_) => false,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("nothing was heard: {error}"),
        }
    }
}

/// A connection from an address of loopback, so that logs can tell clients apart.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let stream = runtime.block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(to).await.unwrap().into_std().unwrap()
    });
    stream.set_nonblocking(false).unwrap();
    stream
}
