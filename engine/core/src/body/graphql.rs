//! GraphQL requests: what a body processor finds, with documents taken apart.
//!
//! [`Requests`] stands between a processor and the sink. It keeps documents back, and what else holds JSON, until the
//! processor has ended: the variables that say how long lists are may follow the document. Then each document is
//! read: its values are arguments, named by field and argument, and what it comes to is measured.
//!
//! | transport | document | variables |
//! |---|---|---|
//! | JSON | `json.query`, `json.array_N.query` of a batch | `json.variables.…` |
//! | query string, form | `query` | `variables`, JSON |
//! | multipart | in `operations`, JSON; or `query` | in `operations`; or `variables` |
//! | `application/graphql` | the body | of the query string |
//! | message of a WebSocket | `json.payload.query` | `json.payload.variables.…` |
//!
//! The law: every byte of a document reaches rules, but for names, punctuation, white space and commas in what is valid
//! GraphQL. Comments are arguments, too: servers write documents into logs. A document that cannot be read to its end,
//! for whatever reason, is an argument as it is, as it would be anywhere else.
//!
//! Sources: GraphQL over HTTP (working draft), section 5 "Request"; GraphQL multipart request specification (v2);
//! GraphQL over WebSocket (graphql-transport-ws), "Subscribe".
#![deny(clippy::indexing_slicing)]

mod document;
mod lexer;
mod measure;
mod numbers;

use core::mem;

use super::{BodyErrorKind, BodyScratch, BodySink, NameBudget, Room, json, json::Values};
use crate::limits::Limits;
use document::{Context, Stop};
pub(crate) use measure::Measures;
pub(crate) use numbers::Numbers;

/// The media type of a body that is a document.
const MEDIA_TYPE: &[u8] = b"application/graphql";

/// Whether a body with that `Content-Type` is a document.
pub(crate) fn is_document(content_type: &[u8]) -> bool {
    let media_type = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
    media_type.trim_ascii().eq_ignore_ascii_case(MEDIA_TYPE)
}

/// The kind of a text that is read after the rest of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Document,
    /// A JSON text with the variables.
    Variables,
    /// A JSON text with one request or a batch of them.
    Operations,
}

/// A text that is read after the rest of the request.
#[derive(Debug)]
struct Held {
    part: Part,
    /// The place of the request in its batch.
    element: usize,
    name: Vec<u8>,
    text: Vec<u8>,
}

/// The GraphQL requests found so far, and their measures.
#[derive(Debug, Default)]
struct Found {
    held: Vec<Held>,
    /// Texts that may still be held.
    left: usize,
    numbers: Numbers,
    /// Requests in the longest batch.
    batch: usize,
}

impl Found {
    fn hold(&mut self, part: Part, element: usize, name: &[u8], text: &[u8]) -> Room {
        let Some(left) = self.left.checked_sub(1) else { return Room::Full };
        self.left = left;
        self.held.push(Held { part, element, name: name.to_vec(), text: text.to_vec() });
        Room::Left
    }
}

/// Takes the place of a sink.
pub(crate) struct Requests<'s> {
    sink: &'s mut dyn BodySink,
    found: Found,
    /// The prefix of names of JSON members; empty while `variables` are read.
    root: &'static [u8],
    /// Requests may be in the member `payload` as well.
    in_payload: bool,
}

impl<'s> Requests<'s> {
    /// `numbers` are those of variables that came before.
    pub(crate) fn new(limits: &Limits, numbers: Numbers, sink: &'s mut dyn BodySink) -> Self {
        let left = limits.query_arguments_max.min(limits.arguments_max);
        let found = Found { left, numbers, ..Found::default() };
        Self { sink, found, root: b"json", in_payload: false }
    }

    /// Reads the member `payload` of JSON as a request too: `subscribe` of graphql-transport-ws and `start` of
    /// subscriptions-transport-ws have it there.
    pub(crate) fn in_payload(mut self) -> Self {
        self.in_payload = true;
        self
    }

    /// For a body that is a document.
    pub(crate) fn document(&mut self, body: &[u8]) {
        self.found.hold(Part::Document, 0, b"query", body);
    }

    /// Reads what was kept back. Returns what it comes to, and an error where not all of it could be kept.
    pub(crate) fn finish(
        mut self,
        limits: &Limits,
        scratch: &mut BodyScratch,
    ) -> (Measures, Option<BodyErrorKind>) {
        let mut measures = Measures::default();
        let mut error = None;
        for held in mem::take(&mut self.found.held) {
            if held.part == Part::Document {
                self.found.held.push(held);
            } else if let Err(kind) = self.json(&held, limits, scratch, &mut measures) {
                error = Some(kind);
            }
        }
        let Self { sink, found: Found { held, numbers, batch, .. }, .. } = self;
        let bytes: usize = held.iter().map(|held| held.text.len()).sum();
        let mut names = NameBudget::of_bytes(bytes);
        let tokens_left = limits.graphql_tokens_max;
        let mut context = Context { limits, names: &mut names, tokens_left, sink };
        for Held { name, text, element, .. } in &held {
            let (read, result) = document::read(name, text, &numbers, *element, &mut context);
            measures.add(&read);
            let is_full = match result {
                Ok(()) => false,
                Err(Stop::Full) => true,
                Err(Stop::Malformed | Stop::Depth | Stop::Tokens | Stop::Names) => {
                    context.sink.argument(name, text) == Room::Full
                }
            };
            if is_full {
                error = Some(BodyErrorKind::ArgumentsFull);
            }
        }
        measures.batch = held.len().max(batch) as u64;
        (measures, error)
    }

    /// Reads `operations` or `variables`. JSON that cannot be read is reported as it is.
    fn json(
        &mut self,
        held: &Held,
        limits: &Limits,
        scratch: &mut BodyScratch,
        measures: &mut Measures,
    ) -> Result<(), BodyErrorKind> {
        let root: &[u8] = match held.part {
            Part::Operations => b"operations",
            Part::Variables | Part::Document => b"variables",
        };
        self.root = if held.part == Part::Operations { b"operations" } else { b"" };
        let depth_max = limits.json_depth_max;
        let parsed = json::parse_at(root, &held.text, Values::One, depth_max, scratch, self);
        let full = Err(BodyErrorKind::ArgumentsFull);
        match parsed {
            None => Ok(()),
            Some(error) if error.kind == BodyErrorKind::ArgumentsFull => full,
            Some(_) => {
                measures.malformed = true;
                match self.sink.argument(&held.name, &held.text) {
                    Room::Left => Ok(()),
                    Room::Full => full,
                }
            }
        }
    }

    /// An argument of a form.
    fn field(&mut self, name: &[u8], value: &[u8]) -> Room {
        let part = if name.eq_ignore_ascii_case(b"query") {
            Part::Document
        } else if name.eq_ignore_ascii_case(b"variables") {
            Part::Variables
        } else if name.eq_ignore_ascii_case(b"operations") {
            Part::Operations
        } else {
            return self.sink.argument(name, value);
        };
        if value.trim_ascii().is_empty() {
            return self.sink.argument(name, value);
        }
        self.found.hold(part, 0, name, value)
    }

    /// A member of JSON, whose path below the root is given.
    fn member(&mut self, path: &[u8], name: &[u8], value: &[u8]) -> Room {
        let (element, path) = match path.strip_prefix(b".array_").and_then(element) {
            Some((index, path)) => {
                self.found.batch = self.found.batch.max(index.saturating_add(1));
                (index, path)
            }
            None => (0, path),
        };
        let payload = path.split_at_checked(b".payload".len()).filter(|_| self.in_payload);
        let path = match payload {
            Some((start, path)) if start.eq_ignore_ascii_case(b".payload") => path,
            Some(_) | None => path,
        };
        if path.eq_ignore_ascii_case(b".query") && !value.is_empty() {
            return self.found.hold(Part::Document, element, name, value);
        }
        let room = self.sink.argument(name, value);
        if room == Room::Left
            && let Some((start, path)) = path.split_at_checked(b".variables.".len())
            && start.eq_ignore_ascii_case(b".variables.")
        {
            self.found.numbers.note_path(element, path, value);
        }
        room
    }
}

/// `3.query` → 3 and `.query`.
fn element(path: &[u8]) -> Option<(usize, &[u8])> {
    let digits = path.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (index, path) = path.split_at_checked(digits)?;
    let index = core::str::from_utf8(index).ok()?.parse().ok()?;
    Some((index, path))
}

impl BodySink for Requests<'_> {
    /// Each element of a batch is a request.
    fn tells_elements_apart(&self) -> bool {
        true
    }

    fn argument(&mut self, name: &[u8], value: &[u8]) -> Room {
        if self.root.is_empty() {
            if let Some(path) = name.strip_prefix(b"variables.") {
                self.found.numbers.note_path(0, path, value);
            }
            return self.sink.argument(name, value);
        }
        match name.strip_prefix(self.root) {
            Some(path) => self.member(path, name, value),
            None => self.field(name, value),
        }
    }

    fn file(&mut self, field: &[u8], file_name: &[u8], content: &[u8]) -> Room {
        self.sink.file(field, file_name, content)
    }

    fn file_name(&mut self, field: &[u8], file_name: &[u8]) -> Room {
        self.sink.file_name(field, file_name)
    }

    fn part_header(&mut self, part: &[u8], line: &[u8]) -> Room {
        self.sink.part_header(part, line)
    }

    fn xml_text(&mut self, text: &[u8]) -> Room {
        self.sink.xml_text(text)
    }

    fn xml_attribute(&mut self, name: &[u8], value: &[u8]) -> Room {
        self.sink.xml_attribute(name, value)
    }

    fn xml_open(&mut self, name: &[u8]) {
        self.sink.xml_open(name);
    }

    fn xml_close(&mut self) {
        self.sink.xml_close();
    }
}
