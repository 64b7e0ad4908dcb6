//! `multipart/form-data` (RFC 7578, RFC 2046 section 5.1): arguments, files and part headers.
//!
//! The flags, and what sets them, are those of ModSecurity 3 (its multipart processor and the
//! reference manual's `MULTIPART_*` variables). The reading is more tolerant: where ModSecurity stops,
//! this goes on and keeps the error, so that rules see the parts whatever the operator does about
//! errors. Decisions where servers disagree:
//!
//! - A line that begins with the delimiter is one, even if something follows it on the line (an error). A delimiter
//!   elsewhere in a line is none, and an error.
//! - A part without a `filename`, or with an empty one, is an argument; one with it is a file. If
//!   anything is wrong with the headers of a file's part, or it has `filename*` only, it is reported as
//!   both: what might be taken for a field is shown as one.
//! - A part whose headers do not end is reported as an argument with its whole text as the value.
//! - A body without a boundary is one argument with an empty name.
//! - A part without a name is an argument with an empty name.
//! - A repeated `name` or `filename` is an error, also of an empty one; the first one that is not empty
//!   counts, the others are shown as names of an empty argument or of the same file.
//! - A name that is too long to be repeated with each of its headers is left out there (an error).
//! - What follows the final boundary is not read (`data_after`). Line ends alone are nothing: some clients write an
//!   empty line there.
#![deny(clippy::indexing_slicing)]

mod boundary;
mod disposition;
mod flags;
mod header_lines;

use memchr::memchr;
use memchr::memmem::{self, Finder};

use super::{BodyErrorKind, BodyScratch, BodySink, FirstError, NameBudget, Outcome, Room};
use crate::limits::Limits;
use disposition::Given;
pub use flags::{MultipartFlags, UnmatchedBoundary};
use header_lines::HeaderLines;

/// What a `Content-Type` begins with for this processor.
pub(super) const MEDIA_TYPE: &[u8] = b"multipart/form-data";

/// Bytes of a part's header line beyond which it is an error, as in ModSecurity 3.
const HEADER_LINE_BYTES_MAX: usize = 4096;

/// Reports the parts of `body`. Time is linear in the body; memory is one part's header line and names.
pub(super) fn parse(
    content_type: &[u8],
    body: &[u8],
    limits: &Limits,
    scratch: &mut BodyScratch,
    sink: &mut dyn BodySink,
) -> Outcome {
    let mut parser = Parser {
        limits,
        scratch,
        sink,
        flags: MultipartFlags::default(),
        error: FirstError::default(),
        names: NameBudget::of(body),
        part_failed: false,
        given: Given::default(),
        file_bytes: 0,
    };
    let parts = parser.boundary(content_type).map_or(0, |boundary| parser.parts(boundary, body));
    if parts == 0 {
        // Nothing in it could be told apart.
        parser.fail(BodyErrorKind::MultipartNoBoundaries, 0);
        parser.argument(b"", body, 0);
    }
    parser.flags.error = parser.error.0.is_some();
    Outcome {
        error: parser.error.0,
        invalid_escapes: false,
        multipart: parser.flags,
        bytes_without_files: body.len().saturating_sub(parser.file_bytes),
    }
}

struct Parser<'p> {
    limits: &'p Limits,
    scratch: &'p mut BodyScratch,
    sink: &'p mut dyn BodySink,
    flags: MultipartFlags,
    error: FirstError,
    names: NameBudget,
    /// Something is wrong with the part being read.
    part_failed: bool,
    /// The parameters that the part being read has had so far.
    given: Given,
    /// Bytes of content that was reported as a file only.
    file_bytes: usize,
}

/// A line of the body that is a boundary.
struct BoundaryLine {
    start: usize,
    /// Where the next line begins.
    end: usize,
    last: bool,
}

impl Parser<'_> {
    fn fail(&mut self, kind: BodyErrorKind, offset: usize) {
        self.error.set(kind, offset);
        self.part_failed = true;
    }

    /// Finds the boundary lines and reads what is between them. Returns how many lines there are.
    fn parts(&mut self, boundary: &[u8], body: &[u8]) -> usize {
        // The delimiter takes the place of the value, which no part needs at the same time.
        let mut delimiter = std::mem::take(&mut self.scratch.value);
        delimiter.clear();
        delimiter.extend_from_slice(b"--");
        delimiter.extend_from_slice(boundary);
        let finder = Finder::new(&delimiter);

        let mut unmatched = None;
        let mut part_start = None;
        let mut parts = 0;
        let mut at = 0;
        let mut end = body.len();
        while let Some(found) = finder.find(body.get(at..).unwrap_or_default()) {
            let start = at + found;
            at = start + delimiter.len();
            if !begins_line(body, start) {
                // No client chooses a boundary that its content has. Django takes this for a boundary.
                self.error.set(BodyErrorKind::MultipartBoundaryLine, start);
                unmatched = Some(start);
                continue;
            }
            let line = self.boundary_line(body, start, at);
            match part_start {
                None => self.flags.data_before |= start > 0,
                Some(from) => self.part(body, from, line.start, true),
            }
            parts += 1;
            at = line.end;
            part_start = (!line.last).then_some(line.end);
            if line.last {
                let after = body.get(line.end..).unwrap_or_default();
                self.flags.data_after = after.iter().any(|byte| !matches!(byte, b'\r' | b'\n'));
                end = line.end;
                break;
            }
            if parts > self.limits.multipart_parts_max {
                self.fail(BodyErrorKind::MultipartParts, at);
                part_start = None;
                break;
            }
        }
        if let Some(from) = part_start {
            self.fail(BodyErrorKind::MultipartFinalBoundary, body.len());
            if from < body.len() {
                self.part(body, from, body.len(), false);
            }
        }
        let read = body.get(..end).unwrap_or_default();
        self.flags.unmatched_boundary = unmatched_boundary(read, &delimiter, unmatched);
        self.scratch.value = delimiter;
        parts
    }

    /// Reads the rest of a boundary line: `start` is where it begins and `after` where its
    /// delimiter ends.
    fn boundary_line(&mut self, body: &[u8], start: usize, after: usize) -> BoundaryLine {
        let rest = body.get(after..).unwrap_or_default();
        let (mut last, rest) = match rest.strip_prefix(b"--") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        match rest {
            [b'\r', b'\n', ..] => self.flags.crlf_line = true,
            [b'\n', ..] => self.flags.lf_line = true,
            [] if last => {}
            _ => {
                // Whether a server takes this for the end is open, so reading goes on.
                last = false;
                self.fail(BodyErrorKind::MultipartBoundaryLine, start);
            }
        }
        if start > 0 && !body.get(..start).is_some_and(|before| before.ends_with(b"\r\n")) {
            self.flags.lf_line = true;
        }
        let line_length = memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        BoundaryLine { start, end: body.len() - rest.len() + line_length, last }
    }

    /// Reads the part from `from` to `to`. `closed` says that a boundary follows.
    fn part(&mut self, body: &[u8], from: usize, to: usize, closed: bool) {
        let part = body.get(from..to).unwrap_or_default();
        let headers_end = self.headers_end(part);
        let (headers, content) = match headers_end {
            Some((lines, skip)) => (
                part.get(..lines).unwrap_or_default(),
                part.get(lines + skip..).unwrap_or_default(),
            ),
            None => (part, part),
        };
        if closed && (headers_end.is_none() || content.is_empty()) {
            self.flags.invalid_part = true;
        }
        let content = if closed { without_line_end(content) } else { content };

        self.part_failed = false;
        self.given = Given::default();
        self.scratch.name.clear();
        self.scratch.file_name.clear();
        self.scratch.file_name_extended.clear();
        let mut line = std::mem::take(&mut self.scratch.line);
        self.inspect_headers(headers, from, &mut line);
        if self.scratch.name.is_empty() {
            self.flags.invalid_part = true;
            self.fail(BodyErrorKind::MultipartName, from);
        }
        self.report_headers(headers, from, &mut line);
        self.scratch.line = line;
        self.report_content(content, from);
    }

    /// Where the headers of a part end and how long the empty line after them is. Says which line
    /// ends are used on the way.
    fn headers_end(&mut self, part: &[u8]) -> Option<(usize, usize)> {
        let mut at = 0;
        while let Some(length) = memchr(b'\n', part.get(at..)?) {
            let line = part.get(at..at + length)?;
            if line.ends_with(b"\r") {
                self.flags.crlf_line = true;
            } else {
                self.flags.lf_line = true;
            }
            if line.is_empty() || line == b"\r" {
                return Some((at, length + 1));
            }
            at += length + 1;
        }
        None
    }

    /// Checks the header lines and takes the names from `Content-Disposition`.
    fn inspect_headers(&mut self, headers: &[u8], offset: usize, line: &mut Vec<u8>) {
        if memchr(0, headers).is_some() {
            self.fail(BodyErrorKind::MultipartHeaderNul, offset);
        }
        let mut lines = HeaderLines { rest: headers };
        let mut dispositions = 0;
        let mut count = 0;
        while let Some(folding) = lines.next(line) {
            count += 1;
            if count > self.limits.multipart_part_headers_max {
                self.fail(BodyErrorKind::MultipartHeaders, offset);
                break;
            }
            self.flags.header_folding |= folding.folded;
            self.flags.invalid_header_folding |= folding.invalid;
            if folding.without_header {
                self.fail(BodyErrorKind::MultipartHeaderFolding, offset);
            }
            if line.len() > HEADER_LINE_BYTES_MAX {
                self.fail(BodyErrorKind::MultipartHeaderLength, offset);
            }
            let Some(colon) = memchr(b':', line) else {
                self.fail(BodyErrorKind::MultipartHeaderColon, offset);
                continue;
            };
            let (name, value) = line.split_at_checked(colon).unwrap_or_default();
            if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
                self.fail(BodyErrorKind::MultipartHeaderName, offset);
            }
            // White space and control characters around the name are an error above; servers that
            // overlook them read the header, so it is read here.
            if trim_controls(name).eq_ignore_ascii_case(b"content-disposition") {
                dispositions += 1;
                self.disposition(value.get(1..).unwrap_or_default(), offset);
            }
        }
        match dispositions {
            0 => self.fail(BodyErrorKind::MultipartDispositionMissing, offset),
            1 => {}
            _ => self.fail(BodyErrorKind::MultipartHeaderRepeated, offset),
        }
    }

    /// Reports the header lines, now that the part's name is known.
    fn report_headers(&mut self, headers: &[u8], offset: usize, line: &mut Vec<u8>) {
        let mut lines = HeaderLines { rest: headers };
        for _ in 0..self.limits.multipart_part_headers_max {
            if lines.next(line).is_none() {
                break;
            }
            let fits = self.name_fits(offset);
            let part = if fits { self.scratch.name.as_slice() } else { &[] };
            if self.sink.part_header(part, line) == Room::Full {
                break;
            }
        }
    }

    /// Whether the part's name may be repeated once more.
    fn name_fits(&mut self, offset: usize) -> bool {
        let fits = self.names.take(&self.scratch.name);
        if !fits {
            self.fail(BodyErrorKind::MultipartNames, offset);
        }
        fits
    }

    /// Reports a further name of the part's file.
    fn further_file_name(&mut self, file_name: &[u8], offset: usize) {
        let fits = self.name_fits(offset);
        let field = if fits { self.scratch.name.as_slice() } else { &[] };
        if self.sink.file_name(field, file_name) == Room::Full {
            self.files_full(offset);
        }
    }

    /// Reports a part's content under the names that its headers gave.
    fn report_content(&mut self, content: &[u8], offset: usize) {
        let name = std::mem::take(&mut self.scratch.name);
        let file_name = std::mem::take(&mut self.scratch.file_name);
        let extended = std::mem::take(&mut self.scratch.file_name_extended);
        if file_name.is_empty() && !extended.is_empty() {
            self.fail(BodyErrorKind::MultipartFileNameExtended, offset);
        }
        let first = if file_name.is_empty() { &extended } else { &file_name };
        let is_argument = first.is_empty() || self.part_failed;
        if is_argument {
            self.argument(&name, content, offset);
        } else {
            self.file_bytes += content.len();
        }
        if !first.is_empty() {
            self.file(&name, first, content, offset);
        }
        self.scratch.name = name;
        if !file_name.is_empty() && !extended.is_empty() {
            self.further_file_name(&extended, offset);
        }
        self.scratch.file_name = file_name;
        self.scratch.file_name_extended = extended;
    }

    fn argument(&mut self, name: &[u8], value: &[u8], offset: usize) {
        if self.sink.argument(name, value) == Room::Full {
            self.fail(BodyErrorKind::ArgumentsFull, offset);
        }
    }

    fn file(&mut self, field: &[u8], file_name: &[u8], content: &[u8], offset: usize) {
        if self.sink.file(field, file_name, content) == Room::Full {
            self.files_full(offset);
        }
    }

    fn files_full(&mut self, offset: usize) {
        self.flags.file_limit_exceeded = true;
        self.fail(BodyErrorKind::MultipartFilesFull, offset);
    }
}

/// RFC 2045, section 5.1.
fn is_token_character(byte: u8) -> bool {
    byte.is_ascii_graphic() && !b"()<>@,;:\\\"/[]?=".contains(&byte)
}

/// Whether a line begins at `at`.
fn begins_line(body: &[u8], at: usize) -> bool {
    match at.checked_sub(1) {
        None => true,
        Some(before) => body.get(before) == Some(&b'\n'),
    }
}

/// What comes before the first `byte`; all of `input` if there is none.
fn before_byte(input: &[u8], byte: u8) -> &[u8] {
    memchr(byte, input).and_then(|at| input.get(..at)).unwrap_or(input)
}

/// Without the one CRLF or LF at the end, which belongs to the boundary after it.
fn without_line_end(content: &[u8]) -> &[u8] {
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    content.strip_suffix(b"\r").unwrap_or(content)
}

/// Without what is no visible character at either end.
fn trim_controls(name: &[u8]) -> &[u8] {
    let visible = u8::is_ascii_graphic;
    let Some(start) = name.iter().position(visible) else { return &[] };
    let end = name.iter().rposition(visible).map_or(0, |at| at + 1);
    name.get(start..end).unwrap_or_default()
}

/// See [`UnmatchedBoundary`]. `inside` is the last delimiter that does not begin a line.
fn unmatched_boundary(body: &[u8], delimiter: &[u8], inside: Option<usize>) -> UnmatchedBoundary {
    let mut last_unmatched = inside;
    let mut last_matched = None;
    let first = body.starts_with(b"--").then_some(0);
    for start in first.into_iter().chain(memmem::find_iter(body, b"\n--").map(|at| at + 1)) {
        let line = body.get(start..).unwrap_or_default();
        if line.starts_with(delimiter) {
            last_matched = Some(start);
        } else if !matches!(line.get(2..), None | Some([] | [b'\n', ..] | [b'\r', b'\n', ..])) {
            last_unmatched = last_unmatched.max(Some(start));
        }
    }
    match last_unmatched {
        None => UnmatchedBoundary::None,
        Some(at) if last_matched > Some(at) => UnmatchedBoundary::Resolved,
        Some(_) => UnmatchedBoundary::Unresolved,
    }
}
