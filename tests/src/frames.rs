//! An HTTP/2 client that sends the frames it is given (RFC 9113), one by one and on as many streams as a test wants.
//!
//! A client library decides on its own how a request becomes frames. Tests of framing need the frames that no
//! library sends: HEADERS without END_STREAM and then trailers, empty DATA, a header block in pieces.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::failure::{Failure, Outcome, doing};
use crate::http::{self, BROWSER, Connection as Socket, HOST};

/// What a connection begins with (section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;

/// No dynamic table, so that a header block can be read without those before it; no pushes; a window that no
/// answer of these tests fills (section 6.5.2).
const OWN_SETTINGS: [(u16, u32); 3] = [(1, 0), (2, 0), (4, WINDOW_BYTES)];
const WINDOW_BYTES: u32 = 64 << 20;
/// The window of a connection before any WINDOW_UPDATE (section 6.9.2).
const FIRST_WINDOW_BYTES: u32 = 65_535;
/// Of each frame (section 4.1).
const HEADER_BYTES: usize = 9;
/// A client cancels a stream (section 7).
const CANCEL: u32 = 8;

/// Header fields: names in lower case, pseudo fields first.
pub type Fields = Vec<(String, String)>;

/// A request's header fields, with those that a browser sends. `more` replaces the browser's fields of the same name.
pub fn fields(method: &str, path: &str, more: &[(&str, &str)]) -> Fields {
    let pseudo = [(":method", method), (":scheme", "http"), (":authority", HOST), (":path", path)];
    let browser =
        { BROWSER.iter() }.filter(|(name, _)| more.iter().all(|(other, _)| other != name));
    let all = pseudo.iter().chain(browser).chain(more);
    all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// One frame of a request, or a pause before the next.
#[derive(Clone, Debug)]
pub enum Frame {
    /// HEADERS; the block is cut into so many pieces, of which the second and all after it are CONTINUATION.
    Headers {
        /// The fields.
        fields: Fields,
        /// How many frames the block takes; 0 counts as 1.
        pieces: usize,
        /// Whether the request ends here.
        end_stream: bool,
    },
    /// DATA.
    Data {
        /// The part of the body.
        bytes: Vec<u8>,
        /// Octets of padding; `None` is a frame without the field.
        padding: Option<u8>,
        /// Whether the request ends here.
        end_stream: bool,
    },
    /// HEADERS that end the stream, with fields of any kind.
    Trailers(Fields),
    /// PRIORITY, which nobody has to obey.
    Priority,
    /// WINDOW_UPDATE of the stream.
    WindowUpdate(u32),
    /// RST_STREAM with CANCEL.
    Reset,
    /// Nothing for a while: what follows does not arrive together with what was before.
    Pause(Duration),
}

impl Frame {
    /// DATA without padding.
    pub fn data(bytes: &[u8], end_stream: bool) -> Self {
        Self::Data { bytes: bytes.to_vec(), padding: None, end_stream }
    }

    /// The frames on the wire.
    fn encode(&self, stream: u32) -> Vec<u8> {
        match self {
            Self::Headers { fields, pieces, end_stream } => {
                header_frames(stream, &block(fields), *pieces, *end_stream)
            }
            Self::Trailers(fields) => header_frames(stream, &block(fields), 1, true),
            Self::Data { bytes, padding, end_stream } => {
                let end = if *end_stream { END_STREAM } else { 0 };
                match padding {
                    None => frame(DATA, end, stream, bytes),
                    Some(padding) => {
                        let zeros = vec![0; usize::from(*padding)];
                        let payload = [&[*padding][..], bytes, &zeros].concat();
                        frame(DATA, end | PADDED, stream, &payload)
                    }
                }
            }
            // Of stream 0, with the usual weight.
            Self::Priority => frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 15]),
            Self::WindowUpdate(bytes) => frame(WINDOW_UPDATE, 0, stream, &bytes.to_be_bytes()),
            Self::Reset => frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()),
            Self::Pause(_) => Vec::new(),
        }
    }
}

/// A frame (section 4.1). No payload here comes near the 16 KiB that every peer accepts, but for DATA, which tests
/// cut up.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn header_frames(stream: u32, block: &[u8], pieces: usize, end_stream: bool) -> Vec<u8> {
    let size = block.len().div_ceil(pieces.max(1)).max(1);
    let chunks: Vec<&[u8]> = block.chunks(size).collect();
    let mut frames = Vec::new();
    for (number, chunk) in chunks.iter().enumerate() {
        let end = if number + 1 == chunks.len() { END_HEADERS } else { 0 };
        let (kind, flags) = match number {
            0 => (HEADERS, if end_stream { end | END_STREAM } else { end }),
            _ => (CONTINUATION, end),
        };
        frames.extend(frame(kind, flags, stream, chunk));
    }
    frames
}

/// A header block of literals that enter no table, without Huffman (RFC 7541, section 6.2.2).
fn block(fields: &Fields) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            integer(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// An integer with a prefix of seven bits (RFC 7541, section 5.1).
fn integer(block: &mut Vec<u8>, value: usize) {
    let Some(mut rest) = value.checked_sub(0x7f) else {
        block.push(value as u8);
        return;
    };
    block.push(0x7f);
    while rest > 0x7f {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

/// How a stream was answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The final status; 0 if none came.
    pub status: u16,
    /// Statuses before it, such as 100.
    pub interim: Vec<u16>,
    /// The body.
    pub body: Vec<u8>,
    /// Whether trailers came.
    pub trailers: bool,
    /// The error code of RST_STREAM, if it came.
    pub reset: Option<u32>,
    /// Whether nothing more comes.
    pub ended: bool,
}

/// A connection, for any number of streams.
#[derive(Debug)]
pub struct Connection {
    socket: Socket,
    next: u32,
    /// The header of a frame whose payload has not come.
    header: Option<[u8; HEADER_BYTES]>,
    answers: BTreeMap<u32, Answer>,
}

impl Connection {
    /// Connects from the address `from`, and says what a client says first.
    ///
    /// # Errors
    ///
    /// If nobody listens.
    pub fn open(from: Ipv4Addr, to: SocketAddr) -> Outcome<Self> {
        let mut socket = Socket::open(Some(from), to)?;
        let settings: Vec<u8> = { OWN_SETTINGS.iter() }
            .flat_map(|(id, value)| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat())
            .collect();
        let window = (WINDOW_BYTES - FIRST_WINDOW_BYTES).to_be_bytes();
        let first =
            [PREFACE, &frame(SETTINGS, 0, 0, &settings), &frame(WINDOW_UPDATE, 0, 0, &window)];
        socket.write(&first.concat())?;
        Ok(Self { socket, next: 1, header: None, answers: BTreeMap::new() })
    }

    /// Begins a request on a new stream, and returns its number. What is missing of it may follow by
    /// [`Connection::send`], or never.
    ///
    /// # Errors
    ///
    /// If the peer is gone.
    pub fn begin(&mut self, frames: &[Frame]) -> Outcome<u32> {
        let stream = self.next;
        self.next += 2;
        self.answers.insert(stream, Answer::default());
        self.send(stream, frames)?;
        Ok(stream)
    }

    /// Sends frames on a stream. Those between two pauses are written together.
    ///
    /// # Errors
    ///
    /// If the peer is gone.
    pub fn send(&mut self, stream: u32, frames: &[Frame]) -> Outcome<()> {
        for together in frames.split_inclusive(|frame| matches!(frame, Frame::Pause(_))) {
            let bytes: Vec<u8> = together.iter().flat_map(|frame| frame.encode(stream)).collect();
            if !bytes.is_empty() {
                self.socket.write(&bytes)?;
            }
            if let Some(Frame::Pause(time)) = together.last() {
                sleep(*time);
            }
        }
        Ok(())
    }

    /// Reads until the answer to a stream has ended.
    ///
    /// # Errors
    ///
    /// If the peer is gone or silent before that.
    pub fn answer(&mut self, stream: u32) -> Outcome<Answer> {
        loop {
            match self.answers.get(&stream) {
                None => return Err(Failure::new(format!("there is no stream {stream}"))),
                Some(answer) if answer.ended => break,
                Some(_) => self.read_frame()?,
            }
        }
        Ok(self.answers.remove(&stream).unwrap_or_default())
    }

    /// Waits so long for the end of an answer, and returns it with its stream.
    ///
    /// # Errors
    ///
    /// If the peer is gone.
    pub fn next_answer(&mut self, patience: Duration) -> Outcome<Option<(u32, Answer)>> {
        let begun = Instant::now();
        self.socket.set_patience(patience)?;
        let ended = loop {
            let ended = self.answers.iter().find(|(_, answer)| answer.ended);
            if let Some((stream, _)) = ended {
                break Some(*stream);
            }
            match self.read_frame() {
                Ok(()) => {}
                Err(_) if begun.elapsed() >= patience => break None,
                Err(failure) => return Err(failure),
            }
        };
        self.socket.set_patience(http::PATIENCE)?;
        Ok(ended.and_then(|stream| self.answers.remove_entry(&stream)))
    }

    /// Sends a request on a new stream, and reads its answer.
    ///
    /// # Errors
    ///
    /// As [`Connection::answer`].
    pub fn exchange(&mut self, frames: &[Frame]) -> Outcome<Answer> {
        let stream = self.next;
        // A refusal may come, and the stream or the connection end, before the request is sent.
        let sent = self.begin(frames);
        match (self.answer(stream), sent) {
            (Err(_), Err(failure)) => Err(failure),
            (answer, _) => answer,
        }
    }

    fn read_frame(&mut self) -> Outcome<()> {
        let header = match self.header.take() {
            Some(header) => header,
            None => header_of(&self.socket.read_exact(HEADER_BYTES)?)?,
        };
        let [a, b, c, kind, flags, s, t, u, v] = header;
        let payload = self.socket.read_exact(u32::from_be_bytes([0, a, b, c]) as usize);
        let payload = payload.inspect_err(|_| self.header = Some(header))?;
        let stream = u32::from_be_bytes([s & 0x7f, t, u, v]);
        match kind {
            SETTINGS if flags & ACK == 0 => self.socket.write(&frame(SETTINGS, ACK, 0, &[]))?,
            PING if flags & ACK == 0 => self.socket.write(&frame(PING, ACK, 0, &payload))?,
            GOAWAY => return Err(Failure::new(format!("the connection is ended: {payload:?}"))),
            _ => {}
        }
        let Some(answer) = self.answers.get_mut(&stream) else { return Ok(()) };
        match kind {
            HEADERS => answer.headers(&payload, flags)?,
            // Envoy pads nothing.
            DATA => answer.body.extend(payload),
            RST_STREAM => {
                let code = payload.first_chunk().map_or(0, |code| u32::from_be_bytes(*code));
                answer.reset = Some(code);
                answer.ended = true;
            }
            _ => {}
        }
        answer.ended |= matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0;
        Ok(())
    }
}

fn header_of(bytes: &[u8]) -> Outcome<[u8; HEADER_BYTES]> {
    bytes.try_into().map_err(doing("read a frame"))
}

impl Answer {
    /// Takes a header block: an interim status, the status, or trailers.
    fn headers(&mut self, payload: &[u8], flags: u8) -> Outcome<()> {
        if self.status != 0 {
            self.trailers = true;
            return Ok(());
        }
        let block = if flags & PADDED == 0 { payload } else { payload.get(1..).unwrap_or(&[]) };
        let status = status(block);
        let status =
            status.ok_or_else(|| Failure::new(format!("no status in front: {block:02x?}")))?;
        match status {
            100..200 => self.interim.push(status),
            _ => self.status = status,
        }
        Ok(())
    }
}

/// The status, which stands first in a header block, as there are no other pseudo fields in an answer.
fn status(block: &[u8]) -> Option<u16> {
    // The size of the dynamic table may be changed before it, to what we have asked for (RFC 7541, section 6.3).
    let block = match block {
        [0x20, rest @ ..] => rest,
        block => block,
    };
    match block {
        // Appendix A.
        [byte @ 0x88..=0x8e, ..] => {
            [200, 204, 206, 304, 400, 404, 500].get(usize::from(byte - 0x88)).copied()
        }
        // A literal with the name of entry 8: to be indexed, or not, or never.
        [0x48 | 0x08 | 0x18, length, rest @ ..] => {
            let text = rest.get(..usize::from(length & 0x7f))?;
            if length & 0x80 == 0 { str::from_utf8(text).ok()?.parse().ok() } else { digits(text) }
        }
        _ => None,
    }
}

/// A number of three digits in Huffman's code (RFC 7541, appendix B): `0` to `2` have five bits, the others six.
fn digits(coded: &[u8]) -> Option<u16> {
    let bits: Vec<u8> =
        { coded.iter() }.flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    let mut rest = &bits[..];
    let mut number = 0;
    for _ in 0..3 {
        let take = |count: usize| {
            let bits = rest.get(..count)?;
            Some(bits.iter().fold(0_u16, |value, bit| value << 1 | u16::from(*bit)))
        };
        let (digit, used) = match (take(5)?, take(6).unwrap_or(0)) {
            (short @ 0..=2, _) => (short, 5),
            (_, long @ 0x19..=0x1f) => (long - 0x16, 6),
            _ => return None,
        };
        number = number * 10 + digit;
        rest = rest.get(used..)?;
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_block_in_pieces() {
        let fields = vec![("a".to_owned(), "bc".to_owned())];
        let headers = |pieces, end_stream| {
            Frame::Headers { fields: fields.clone(), pieces, end_stream }.encode(1)
        };
        assert_eq!(headers(1, true), [0, 0, 6, 1, 5, 0, 0, 0, 1, 0, 1, b'a', 2, b'b', b'c']);
        assert_eq!(headers(0, false)[3..5], [1, 4]);
        // END_STREAM stands on HEADERS, END_HEADERS on what is last.
        let two = headers(2, true);
        assert_eq!(two[..12], [0, 0, 3, 1, 1, 0, 0, 0, 1, 0, 1, b'a']);
        assert_eq!(two[12..], [0, 0, 3, 9, 4, 0, 0, 0, 1, 2, b'b', b'c']);
    }

    #[test]
    fn data_with_padding() {
        let data = Frame::Data { bytes: b"x".to_vec(), padding: Some(2), end_stream: true };
        assert_eq!(data.encode(3), [0, 0, 4, 0, 9, 0, 0, 0, 3, 2, b'x', 0, 0]);
        assert_eq!(Frame::data(b"", false).encode(3), [0, 0, 0, 0, 0, 0, 0, 0, 3]);
    }

    /// RFC 7541, appendix C.1, with a prefix of seven bits.
    #[test]
    fn integers() {
        for (value, expected) in [
            (10, &[10][..]),
            (126, &[126]),
            (127, &[127, 0]),
            (128, &[127, 1]),
            (255, &[127, 128, 1]),
            (1337, &[127, 0xba, 9]),
        ] {
            let mut block = Vec::new();
            integer(&mut block, value);
            assert_eq!(block, expected, "{value}");
        }
    }

    #[test]
    fn statuses() {
        for (block, expected) in [
            (&[0x88][..], Some(200)),
            (&[0x20, 0x8e, 0x00], Some(500)),
            (&[0x48, 3, b'4', b'0', b'3'], Some(403)),
            // RFC 7541, appendix C.6.1: 302.
            (&[0x48, 0x82, 0x64, 0x02], Some(302)),
            // Appendix C.6.2: 307.
            (&[0x48, 0x83, 0x64, 0x0e, 0xff], Some(307)),
            (&[0x08, 0x83, 0x68, 0x0c, 0xff], Some(403)),
            (&[0x48, 0x82, 0x6c, 0x0c], None),
            (&[0x82], None),
            (&[], None),
        ] {
            assert_eq!(status(block), expected, "{block:02x?}");
        }
    }
}
