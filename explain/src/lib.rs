//! What became of a request, why, and what would let it pass: the work of `glacis explain` and of a
//! service's `/explain`.
//!
//! A [`Request`] is read from a line of JSON in the format of `glacis eval`, or from an audit record, and
//! evaluated with a trace by [`inspect()`]. [`explain`] tells its story, and looks for the narrowest
//! exclusion with which it passes; for that the host builds its rules again, as often as asked
//! ([`Rebuild`]), and may put an end to it.
//!
//! Invariants: no I/O and no clock; the size of a story is bounded by the engine's limits of a trace, and
//! the number of rulesets that are built by a constant.

mod audit_record;
mod blocking;
mod bytes;
mod exclusion;
mod inspect;
mod request;
mod story;
mod text;
mod timestamp;

use glacis_engine::{BuildErrors, Program, Transaction};
use glacis_second_opinion::{Evidence, Opinion, Weights};
use serde::Serialize;

pub use audit_record::Reading;
pub use blocking::Blocking;
pub use bytes::{Base64, Bytes, base64};
pub use exclusion::Removal;
pub use inspect::{Occasion, inspect, status};
pub use request::{Id, Malformed, Peer, Request, Response};
pub use timestamp::{Timestamp, TimestampError};

use exclusion::Exclusion;
use story::Story;

/// The rules of a host, to be built again with more.
pub trait Rebuild {
    /// Why no more can be built: it ends the search.
    type Fault;

    /// Builds the rules with SecLang text before them and behind them.
    ///
    /// # Errors
    /// When the host cannot or will not build. Rules that do not compile are an answer, not a fault.
    fn build(
        &mut self,
        before: Option<&str>,
        behind: Option<&str>,
    ) -> Result<Result<Program, BuildErrors>, Self::Fault>;
}

/// What an explanation shows besides.
#[derive(Clone, Copy, Debug, Default)]
pub struct Show<'w> {
    /// Rules that neither log nor change a score.
    pub all: bool,
    /// The second opinion by these weights.
    pub second_opinion: Option<&'w Weights>,
}

/// All that is said of one request.
#[derive(Debug, Serialize)]
pub struct Explanation {
    id: Box<serde_json::value::RawValue>,
    #[serde(flatten)]
    story: Story,
    /// The second opinion on the request, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    second_opinion: Option<Opinion>,
    /// What an audit record did not tell; empty for a request.
    notes: Vec<String>,
    /// What would let the request pass; `None` when nothing refuses it.
    exclusion: Option<Exclusion>,
}

impl Explanation {
    /// Whether the request is refused, or would be where rules may not block.
    #[must_use]
    pub const fn is_refused(&self) -> bool {
        self.story.refusal.is_some()
    }

    /// What the exclusion takes away that lets the request pass; empty where none was found.
    #[must_use]
    pub fn removals(&self) -> &[Removal] {
        self.exclusion.as_ref().map_or(&[], |exclusion| &exclusion.removals)
    }

    /// The path for which it can be written, as rules see it; empty where it is not text.
    #[must_use]
    pub fn path(&self) -> &str {
        self.exclusion.as_ref().map_or("", |exclusion| &exclusion.path)
    }

    /// Adds something that has to be said about it.
    pub fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }

    /// As a page of plain text, without what could command a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        text::page(self)
    }
}

/// Reads a line that is a request, or an audit record of ours.
///
/// # Errors
/// When it is neither; the message says what is wrong with it.
pub fn read(line: &[u8]) -> Result<(Request, Option<Reading>), Malformed> {
    match audit_record::read(line) {
        Some(read) => read.map_err(|message| Malformed { id: None, message }),
        None => Ok((Request::parse(line)?, None)),
    }
}

/// Tells what becomes of `request`.
///
/// `transaction` keeps a trace and runs the rules that `rules` builds. With no `rules` nothing is looked for
/// that would let the request pass.
///
/// # Errors
/// When the rules could not be built again.
pub fn explain<R: Rebuild>(
    rules: Option<&mut R>,
    transaction: &mut Transaction,
    request: Request,
    record: Option<Reading>,
    occasion: &Occasion,
    show: Show<'_>,
) -> Result<Explanation, R::Fault> {
    inspect(transaction, &request, &request.id.text(), occasion);
    let story = Story::of(transaction, &request, show.all);
    let weights = show.second_opinion;
    let second_opinion = weights.map(|weights| weights.opinion(&Evidence::of(transaction)));
    let notes = record.map_or_else(Vec::new, |record| record.notes(transaction));
    let exclusion = match (&story.refusal, rules) {
        (Some(refusal), Some(rules)) => {
            let mut search = exclusion::Search { rules, request: &request, occasion };
            Some(search.find(transaction, refusal)?)
        }
        _ => None,
    };
    Ok(Explanation { id: request.id.0, story, second_opinion, notes, exclusion })
}
