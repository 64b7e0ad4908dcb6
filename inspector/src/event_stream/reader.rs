//! The reader of an event stream: from bytes to blocks.

/// What the bytes of a stream come to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamPart {
    /// An event with its blank line, or the beginning of one that is too long.
    Event(EventBlock),
    /// Bytes that belong to an event which was returned before, as they came.
    Rest(Vec<u8>),
}

/// An event of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBlock {
    /// The block as it came.
    pub raw: Vec<u8>,
    /// What is in it: first the data as clients join its lines, then each other field, comment and unknown line that
    /// holds something, one to a line.
    pub text: Vec<u8>,
    /// The event goes on beyond what is read.
    pub is_cut: bool,
}

/// The byte order mark that clients leave out at the beginning of a stream.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Parses an event stream, in pieces of any size.
#[derive(Debug)]
pub struct EventReader {
    /// Bytes of an event that are read.
    bytes_max: usize,
    /// What has come of the event that is not complete.
    raw: Vec<u8>,
    /// Where its last line begins.
    line_at: usize,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    /// Nothing has been returned yet: a byte order mark may come.
    is_start: bool,
    /// What comes belongs to an event whose beginning was returned; whether its last line is empty so far.
    passing: Option<bool>,
}

impl EventReader {
    /// A reader that returns at most `bytes_max` bytes of an event, its blank line included, and at least one.
    #[must_use]
    pub const fn new(bytes_max: usize) -> Self {
        let bytes_max = if bytes_max == 0 { 1 } else { bytes_max };
        Self {
            bytes_max,
            raw: Vec::new(),
            line_at: 0,
            after_return: false,
            is_start: true,
            passing: None,
        }
    }

    /// Takes bytes from `input` up to the next part; `None` when nothing is left of it. Call it until then.
    pub fn read(&mut self, input: &mut &[u8]) -> Option<StreamPart> {
        while let Some((&first, rest)) = input.split_first() {
            let closes_return = core::mem::take(&mut self.after_return) && first == b'\n';
            if closes_return && (self.raw.is_empty() || self.passing.is_some()) {
                *input = rest;
                return Some(StreamPart::Rest(vec![b'\n']));
            }
            if let Some(line_is_empty) = self.passing {
                return Some(self.pass(line_is_empty, input));
            }
            if self.raw.len() >= self.bytes_max {
                // A line feed that closes a line is no new line.
                self.after_return = closes_return;
                return Some(self.cut());
            }
            if closes_return {
                self.raw.push(b'\n');
                self.line_at = self.raw.len();
                *input = rest;
                continue;
            }
            if self.take_line(input) {
                return Some(StreamPart::Event(self.block(false)));
            }
        }
        None
    }

    /// What has come of an event without its blank line, when nothing more comes. Clients drop it.
    pub fn end(&mut self) -> Option<EventBlock> {
        (!self.raw.is_empty()).then(|| self.block(false))
    }

    /// Bytes that are held of an event that is not complete.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.raw.len()
    }

    /// Gives back what is held, as it came.
    pub fn take_held(&mut self) -> Vec<u8> {
        self.line_at = 0;
        core::mem::take(&mut self.raw)
    }

    /// Takes the rest of a line, or what fits of it. Returns whether it was the blank one that ends the event.
    fn take_line(&mut self, input: &mut &[u8]) -> bool {
        let room = self.bytes_max - self.raw.len();
        let fits = input.get(..room).unwrap_or(input);
        let end = fits.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let (piece, rest) = input.split_at(end.map_or(fits.len(), |at| at + 1));
        self.raw.extend_from_slice(piece);
        *input = rest;
        if end.is_none() {
            return false;
        }
        self.after_return = piece.last() == Some(&b'\r');
        let line = self.raw.get(self.line_at..self.raw.len() - 1).unwrap_or_default();
        let is_blank =
            line.is_empty() || self.is_start && self.line_at == 0 && line == BYTE_ORDER_MARK;
        self.line_at = self.raw.len();
        is_blank
    }

    /// Has bytes go on of an event whose beginning was returned.
    fn pass(&mut self, mut line_is_empty: bool, input: &mut &[u8]) -> StreamPart {
        let mut bytes = 0;
        self.passing = None;
        for &byte in *input {
            // A line feed that closes a carriage return is no blank line.
            if core::mem::take(&mut self.after_return) && byte == b'\n' {
                bytes += 1;
                continue;
            }
            bytes += 1;
            match byte {
                b'\r' | b'\n' => {
                    self.after_return = byte == b'\r';
                    if line_is_empty {
                        let (piece, rest) = input.split_at(bytes);
                        *input = rest;
                        return StreamPart::Rest(piece.to_vec());
                    }
                    line_is_empty = true;
                }
                _ => line_is_empty = false,
            }
        }
        self.passing = Some(line_is_empty);
        StreamPart::Rest(core::mem::take(input).to_vec())
    }

    /// Returns the beginning of an event that is too long.
    fn cut(&mut self) -> StreamPart {
        self.passing = Some(self.line_at == self.raw.len());
        StreamPart::Event(self.block(true))
    }

    fn block(&mut self, is_cut: bool) -> EventBlock {
        let raw = self.take_held();
        let is_start = core::mem::take(&mut self.is_start);
        let marked = raw.strip_prefix(BYTE_ORDER_MARK).filter(|_| is_start);
        let text = text(marked.unwrap_or(&raw));
        EventBlock { raw, text, is_cut }
    }
}

/// What the lines of an event hold.
fn text(lines: &[u8]) -> Vec<u8> {
    let (mut data, mut others): (Vec<&[u8]>, Vec<&[u8]>) = (Vec::new(), Vec::new());
    for line in lines.split(|byte| matches!(byte, b'\r' | b'\n')) {
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = line.split_at(colon.unwrap_or(line.len()));
        let value = value.get(1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => data.push(value),
            b"retry" if value.iter().all(u8::is_ascii_digit) => {}
            b"" | b"event" | b"id" => others.push(value),
            _ => others.push(line),
        }
    }
    let others = others.into_iter().filter(|value| !value.is_empty());
    let data = data.join(&b'\n');
    let first = Some(&*data).filter(|data| !data.is_empty());
    first.into_iter().chain(others).collect::<Vec<_>>().join(&b'\n')
}
