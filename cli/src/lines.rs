//! The lines of an input: a file, standard input, or what is in memory.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::Path,
};

use glacis_explain::{Malformed, Request};

use crate::{output::Fault, progress};

/// Bytes of a line; of a longer one only an error remains.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Bytes of input read at a time.
const READ_BYTES: usize = 1 << 20;

/// Bytes of input that are evaluated together. A line is never divided.
const BATCH_BYTES: usize = 64 << 20;

/// A line of the input.
pub(crate) struct Line {
    number: usize,
    /// `None` when it was too long.
    text: Option<Vec<u8>>,
}

impl Line {
    /// The line as it is; nothing where it was too long.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.text.as_deref().unwrap_or_default().trim_ascii_end()
    }

    /// Reads the request; the message of an error names the line.
    pub(crate) fn parse(&self) -> Result<Request, Malformed> {
        self.read(Request::parse)
    }

    /// Reads the line with `read`; the message of an error names the line.
    pub(crate) fn read<T>(
        &self,
        read: impl Fn(&[u8]) -> Result<T, Malformed>,
    ) -> Result<T, Malformed> {
        let number = self.number;
        let Some(text) = &self.text else {
            let message = format!("line {number}: longer than {LINE_BYTES_MAX} bytes");
            return Err(Malformed { id: None, message });
        };
        read(text).map_err(|malformed| Malformed {
            id: malformed.id,
            message: format!("line {number}: {}", malformed.message),
        })
    }
}

/// The lines of the input that are not blank.
pub(crate) struct Lines {
    name: String,
    input: BufReader<Box<dyn Read>>,
    number: usize,
}

impl Lines {
    /// Opens the file, or standard input.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Fault> {
        let Some(path) = path.filter(|path| path.as_os_str() != "-") else {
            let input =
                BufReader::with_capacity(READ_BYTES, Box::new(io::stdin()) as Box<dyn Read>);
            return Ok(Self { name: "standard input".to_owned(), input, number: 0 });
        };
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => {
                let input = BufReader::with_capacity(READ_BYTES, Box::new(file) as Box<dyn Read>);
                Ok(Self { name, input, number: 0 })
            }
            Err(error) => Err(Fault::Input(format!("{name}: {error}"))),
        }
    }

    /// Lines that are already in memory.
    pub(crate) fn of_memory(name: String, text: Vec<u8>) -> Self {
        let text: Box<dyn Read> = Box::new(io::Cursor::new(text));
        Self { name, input: BufReader::with_capacity(READ_BYTES, text), number: 0 }
    }

    /// The bytes that come next, without taking them; none at the end.
    pub(crate) fn peek(&mut self) -> Result<&[u8], Fault> {
        let (name, number) = (self.name.clone(), self.number + 1);
        let fault = |error: io::Error| Fault::Input(format!("{name}: line {number}: {error}"));
        self.input.fill_buf().map_err(fault)
    }

    /// All that is left, up to `max` bytes.
    pub(crate) fn rest(mut self, max: u64) -> Result<(String, Vec<u8>), Fault> {
        let mut text = Vec::new();
        let read = (&mut self.input).take(max.saturating_add(1)).read_to_end(&mut text);
        read.map_err(|error| self.fault(&error))?;
        if text.len() as u64 > max {
            return Err(Fault::Input(format!("{}: larger than {max} bytes", self.name)));
        }
        Ok((self.name, text))
    }

    /// At most `max` lines, fewer when more would have to be waited for; none at the end.
    pub(crate) fn batch(&mut self, max: usize) -> Result<Vec<Line>, Fault> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        while lines.len() < max && bytes < BATCH_BYTES {
            if !lines.is_empty() && self.input.buffer().is_empty() {
                break;
            }
            let Some(line) = self.line()? else { break };
            bytes += line.text.as_ref().map_or(0, Vec::len);
            lines.push(line);
        }
        Ok(lines)
    }

    /// As [`Self::batch`], without regard to how much can be read at once, and without lines that are too long.
    pub(crate) fn texts(&mut self, max: usize) -> Result<Vec<Vec<u8>>, Fault> {
        let (mut texts, mut bytes) = (Vec::new(), 0);
        while texts.len() < max && bytes < BATCH_BYTES {
            let Some(line) = self.line()? else { break };
            let Some(text) = line.text else {
                return Err(Fault::Input(format!(
                    "{}: line {}: longer than {LINE_BYTES_MAX} bytes",
                    self.name, line.number
                )));
            };
            bytes += text.len();
            texts.push(text);
        }
        Ok(texts)
    }

    fn line(&mut self) -> Result<Option<Line>, Fault> {
        loop {
            let mut text = Vec::new();
            let limit = LINE_BYTES_MAX as u64 + 1;
            let read = (&mut self.input).take(limit).read_until(b'\n', &mut text);
            if read.map_err(|error| self.fault(&error))? == 0 {
                return Ok(None);
            }
            self.number += 1;
            progress::count();
            let ended = text.last() == Some(&b'\n');
            if !ended && text.len() > LINE_BYTES_MAX {
                self.input.skip_until(b'\n').map_err(|error| self.fault(&error))?;
                return Ok(Some(Line { number: self.number, text: None }));
            }
            if !text.trim_ascii().is_empty() {
                return Ok(Some(Line { number: self.number, text: Some(text) }));
            }
        }
    }

    /// A malformed line as a fault, where it cannot be an answer.
    pub(crate) fn malformed(&self, malformed: &Malformed) -> Fault {
        Fault::Input(format!("{}: {}", self.name, malformed.message))
    }

    fn fault(&self, error: &io::Error) -> Fault {
        Fault::Input(format!("{}: line {}: {error}", self.name, self.number + 1))
    }
}
