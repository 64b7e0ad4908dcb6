//! `glacis eval`: requests in, verdicts out, a line each.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Write as _},
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use glacis_engine::Transaction;
use glacis_explain::{Id, Malformed, Request};
use glacis_second_opinion::{Evidence, Weights};

use crate::{
    arguments::EvalOptions,
    expect::Expected,
    input,
    inspect::{inspect, status},
    output::{self, Fault, Outcome},
    record::{ErrorRecord, Record},
    ruleset, second_opinion,
};

/// Bytes of a line; of a longer one only an error remains.
const LINE_BYTES_MAX: usize = 64 << 20;

/// Bytes of input read at a time.
const READ_BYTES: usize = 1 << 20;

/// Lines that are evaluated before their answers are written, for each thread.
const BATCH_LINES: usize = 64;

/// Bytes of lines in one batch; one longer line is a batch of its own.
const BATCH_BYTES: usize = 64 << 20;

/// Answers every line of the input.
pub(crate) fn run(options: &EvalOptions) -> Result<Outcome, Fault> {
    let (rules, weights) = second_opinion::rules(&options.rules, options.second_opinion.as_ref())?;
    let program = Arc::new(ruleset::load(&rules, options.quiet)?);
    let body_chunk = options.body_chunk.unwrap_or(usize::MAX);
    let worker = |_| Worker {
        transaction: Transaction::new(Arc::clone(&program)),
        body_chunk,
        weights: weights.as_ref(),
    };
    let mut workers: Vec<Worker<'_>> = (0..options.jobs).map(worker).collect();
    let mut lines = input::open(&options.requests, options.quiet)?;
    let mut out = output::results();
    let mut outcome = Outcome::Clean;
    let mut expected = options.expect.as_deref().map(Expected::read).transpose()?;
    loop {
        let batch = lines.batch(BATCH_LINES * workers.len())?;
        if batch.is_empty() {
            let differs = expected.is_some_and(Expected::finish);
            return Ok(if differs { Outcome::Unexpected } else { outcome });
        }
        for answer in evaluate(&batch, &mut workers, Worker::answer) {
            out.write_all(&answer.line)?;
            if let Some(expected) = &mut expected {
                expected.compare(&answer.line);
            }
            if answer.malformed {
                outcome = Outcome::Findings;
            }
        }
        // A batch ends when nothing more can be read at once: whoever writes line by line waits.
        out.flush()?;
    }
}

/// The answers to `batch`, in order, on as many threads as there are workers.
pub(crate) fn evaluate<W: Send, A: Send>(
    batch: &[Line],
    workers: &mut [W],
    answer: impl Fn(&mut W, &Line) -> A + Sync,
) -> Vec<A> {
    if let [worker] = workers {
        return batch.iter().map(|line| answer(worker, line)).collect();
    }
    let answer = &answer;
    let next = AtomicUsize::new(0);
    let answers = Mutex::new(Vec::with_capacity(batch.len()));
    thread::scope(|scope| {
        for worker in workers {
            scope.spawn(|| {
                while let Some((at, line)) = take(batch, &next) {
                    let answer = answer(worker, line);
                    answers.lock().unwrap_or_else(PoisonError::into_inner).push((at, answer));
                }
            });
        }
    });
    let mut answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    answers.sort_unstable_by_key(|(at, _)| *at);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn take<'b>(batch: &'b [Line], next: &AtomicUsize) -> Option<(usize, &'b Line)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    batch.get(at).map(|line| (at, line))
}

struct Answer {
    line: Vec<u8>,
    malformed: bool,
}

/// What one thread works with.
struct Worker<'w> {
    transaction: Transaction,
    body_chunk: usize,
    weights: Option<&'w Weights>,
}

impl Worker<'_> {
    fn answer(&mut self, line: &Line) -> Answer {
        match line.parse() {
            Ok(request) => Answer { line: self.evaluate(&request), malformed: false },
            Err(malformed) => {
                let mut text = Vec::new();
                let id = malformed.id.as_ref().map(|Id(id)| &**id);
                ErrorRecord { id, error: &malformed.message }.write(&mut text);
                Answer { line: text, malformed: true }
            }
        }
    }

    fn evaluate(&mut self, request: &Request) -> Vec<u8> {
        inspect(&mut self.transaction, request, &request.id.text(), self.body_chunk);
        let status = status(&self.transaction, request);
        let opinion = self.weights.map(|weights| weights.opinion(&Evidence::of(&self.transaction)));
        let record = Record::new(&request.id.0, &self.transaction, status, |rule| rule.log);
        let mut line = Vec::new();
        record.with_opinion(opinion.as_ref()).write(&mut line);
        line
    }
}

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
