//! `glacis eval`: requests in, verdicts out, a line each.

use std::{
    io::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use glacis_engine::Transaction;
use glacis_explain::{Id, Request};
use glacis_second_opinion::{Evidence, Weights};

use crate::{
    arguments::EvalOptions,
    expect::Expected,
    input,
    inspect::{inspect, status},
    lines::Line,
    output::{self, Fault, Outcome},
    record::{ErrorRecord, Record},
    ruleset, second_opinion,
};

/// Lines that are evaluated before their answers are written, for each thread.
const BATCH_LINES: usize = 64;

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
