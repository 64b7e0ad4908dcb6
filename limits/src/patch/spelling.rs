//! Paths of patches, matched however a client spells them.
//!
//! Servers disagree about what `/a;x/b`, `/a//b`, `/a/./b`, `/a/x/../b`, `\a\b` and `/a/b%20` mean, and about the
//! order in which escapes, parameters and dot segments are undone. Each of these steps only removes text between
//! the segments that are left, so a value is matched as a sequence of segments with gaps: every server that
//! arrives at the segments of the value by some order of those steps is covered, and `/../` or `/..;/` in a value
//! is still found as it was sent. [`Wanted::pattern`] is the same as a pattern, for rules.

use super::text;
use crate::path::percent_decoded;

/// The most segments of a value: the matcher keeps a bit for each.
const SEGMENTS_MAX: usize = 32;

/// Bytes that may follow a segment, and segments of nothing else: blanks, control bytes, dots and separators.
const FILLER: &str = r"[\x00-\x20.\x2f\x5c]*";
/// From the end of a segment to the next one that counts, without the separator before that: filler, or segments
/// that `..` removes; and behind a `;` anything, since a server may have cut it before it decoded the rest.
const GAP: &str = r"[\x00-\x20.\x2f\x5c]*(?:(?:[\x2f\x5c][^\x2f\x5c]*)*[\x2f\x5c]\x2e\x2e[\x00-\x20.\x2f\x5c]*)?(?:\x3b.*)?";
const SEPARATOR: &str = r"[\x2f\x5c]";

/// The path of a request: decoded three times, in lower case, and cut at its separators.
#[derive(Debug)]
pub(super) struct Spelled {
    text: Vec<u8>,
    segments: Vec<Segment>,
    /// How many segments there are up to the last that goes up.
    up_to_last_climb: usize,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    start: usize,
    end: usize,
    /// Nothing but blanks, control bytes and dots, up to its end or a `;`.
    is_filler: bool,
    /// `..`, with filler up to its end or a `;`.
    climbs: bool,
    /// Whether the filler of these two ends at a `;`.
    has_parameters: bool,
}

/// Where a value has to be in a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// The whole path.
    Whole,
    /// Its first segments.
    First,
    /// Its end, which may begin within a segment.
    Last,
    /// Anywhere, from within a segment to within another.
    Anywhere,
}

/// A value of a condition on the path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    place: Place,
    /// The value between its slashes.
    pieces: Vec<Vec<u8>>,
}

/// Which pieces have been found, a bit for each, and what may follow.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// Only filler came since: the next segment may be the next piece.
    next: u64,
    /// Other segments came since, which `..` may remove.
    removable: u64,
    /// A `;` came since: any further segment may be the next piece.
    any: u64,
}

impl Spelled {
    /// Reads a path as it was sent. Linear in its length.
    pub(super) fn new(sent: &[u8]) -> Self {
        let mut text = uni_decoded(&uni_decoded(&percent_decoded(sent)));
        text.make_ascii_lowercase();
        let (mut segments, mut start) = (Vec::new(), 0);
        for part in text.split(|byte| is_separator(*byte)) {
            segments.push(Segment::new(part, start));
            start += part.len() + 1;
        }
        let last = segments.iter().rposition(|segment| segment.climbs);
        Self { text, segments, up_to_last_climb: last.map_or(0, |last| last + 1) }
    }

    /// The path, decoded and in lower case, with everything in it.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// How many segments it has.
    pub(super) fn segments(&self) -> usize {
        self.segments.len()
    }

    fn bytes(&self, segment: Segment) -> &[u8] {
        self.text.get(segment.start..segment.end).unwrap_or_default()
    }
}

impl Segment {
    fn new(bytes: &[u8], start: usize) -> Self {
        let climb = bytes.strip_prefix(b"..").and_then(after_filler);
        let filler = after_filler(bytes);
        Self {
            start,
            end: start + bytes.len(),
            is_filler: filler.is_some(),
            climbs: climb.is_some(),
            has_parameters: climb.or(filler).is_some_and(|rest| !rest.is_empty()),
        }
    }
}

impl Wanted {
    /// A value in lower case; or what to write instead.
    pub(super) fn new(place: Place, value: &str) -> Result<Self, String> {
        let pieces: Vec<_> = value.split('/').map(|piece| piece.as_bytes().to_vec()).collect();
        if pieces.len() > SEGMENTS_MAX {
            return Err(format!("write at most {SEGMENTS_MAX} segments"));
        }
        if value.contains('\\') && (place, pieces.len()) != (Place::Anywhere, 1) {
            let rule = "write / for a separator of either kind, and \\ in contains without / only";
            return Err(rule.to_owned());
        }
        Ok(Self { place, pieces })
    }

    /// How many bytes or segments are compared at most when a path is searched for it.
    pub(super) fn work(&self, path: &Spelled) -> usize {
        let within = self.place == Place::Anywhere || self.place == Place::Last;
        let by_bytes = within && self.pieces.first().is_some_and(|piece| !piece.is_empty());
        let segments = path.segments.len() * self.pieces.len();
        if by_bytes { path.text.len() + segments } else { segments }
    }

    /// Whether a path has it in its place. Linear in the path, for each piece.
    pub(super) fn is_in(&self, path: &Spelled) -> bool {
        if let ([piece], Place::Anywhere) = (self.pieces.as_slice(), self.place) {
            return text::contains(&path.text, piece);
        }
        let anchored = matches!(self.place, Place::Whole | Place::First);
        let begins_segment = self.pieces.first().is_some_and(Vec::is_empty);
        let mut found = Found::default();
        for (i, segment) in path.segments.iter().enumerate() {
            let bytes = path.bytes(*segment);
            let mut now = found.behind(*segment);
            if self.later_pieces(found, bytes, &mut now) {
                return true;
            }
            let done = match (anchored, begins_segment) {
                // The pieces behind the first slash: from the beginning, or from any separator.
                (true, _) if i == 0 => self.first_piece(bytes, &mut now),
                (true, _) => false,
                (false, true) => {
                    now.any |= 1;
                    false
                }
                (false, false) => self.first_piece_within(bytes, &mut now),
            };
            if done {
                return true;
            }
            found = now;
            if anchored && found.next | found.any == 0 && i >= path.up_to_last_climb {
                return false;
            }
        }
        let last = 1 << (self.pieces.len() - 1);
        matches!(self.place, Place::Whole | Place::Last) && (found.next | found.any) & last != 0
    }

    /// Looks whether a segment is the next piece for any that have been found; true if that is all.
    fn later_pieces(&self, found: Found, segment: &[u8], now: &mut Found) -> bool {
        let mut candidates = found.next | found.any;
        while candidates != 0 {
            let next = candidates.trailing_zeros() as usize + 1;
            candidates &= candidates - 1;
            let Some(piece) = self.pieces.get(next) else { continue };
            if let Some(rest) = segment.strip_prefix(piece.as_slice())
                && self.piece_ends(next, rest, now)
            {
                return true;
            }
        }
        false
    }

    fn first_piece(&self, segment: &[u8], now: &mut Found) -> bool {
        let rest = self.pieces.first().and_then(|piece| segment.strip_prefix(piece.as_slice()));
        rest.is_some_and(|rest| self.piece_ends(0, rest, now))
    }

    /// Looks for the first piece anywhere in a segment; true if nothing has to follow it.
    fn first_piece_within(&self, segment: &[u8], now: &mut Found) -> bool {
        let Some(piece) = self.pieces.first() else { return false };
        let (mut from, mut looked_to) = (0, 0);
        while let Some(at) = segment.get(from..).and_then(|rest| text::find(rest, piece)) {
            let end = from + at + piece.len();
            // The filler behind one occurrence is that behind all which begin in it: it is read once.
            if end >= looked_to {
                let rest = segment.get(end..).unwrap_or_default();
                if self.piece_ends(0, rest, now) {
                    return true;
                }
                looked_to = end + rest.iter().take_while(|byte| is_filler(**byte)).count() + 1;
            }
            from += at + 1;
        }
        false
    }

    /// Notes a piece with what may follow, by the rest of its segment; true if nothing has to.
    fn piece_ends(&self, piece: usize, rest: &[u8], now: &mut Found) -> bool {
        let is_last = piece + 1 == self.pieces.len();
        let in_parameters = self.pieces.get(piece).is_some_and(|piece| piece.contains(&b';'));
        if is_last && (in_parameters || self.place == Place::Anywhere) {
            return true;
        }
        match after_filler(rest) {
            _ if in_parameters => now.any |= 1 << piece,
            Some([]) => now.next |= 1 << piece,
            Some(_) => now.any |= 1 << piece,
            None => return is_last && self.place == Place::First && self.ends_in_slash(),
        }
        is_last && self.place == Place::First
    }

    fn ends_in_slash(&self) -> bool {
        self.pieces.last().is_some_and(Vec::is_empty)
    }

    /// The value and its place as a pattern, for a path that is decoded and in lower case as [`Spelled::new`] does.
    pub(super) fn pattern(&self) -> String {
        let mut out = match self.place {
            Place::Whole | Place::First => "\\A".to_owned(),
            Place::Last | Place::Anywhere => String::new(),
        };
        let anchored = !out.is_empty();
        for (i, piece) in self.pieces.iter().enumerate() {
            if i > 0 {
                let before = self.pieces.get(i - 1).map_or(&[][..], Vec::as_slice);
                match (i, before) {
                    (1, b"") if !anchored => {}
                    (_, before) if before.contains(&b';') => out.push_str(".*"),
                    _ => out.push_str(GAP),
                }
                out.push_str(SEPARATOR);
            }
            out.push_str(&text::escaped(piece));
        }
        let in_parameters = self.pieces.last().is_some_and(|piece| piece.contains(&b';'));
        match self.place {
            Place::Anywhere => {}
            Place::First if in_parameters || self.ends_in_slash() => {}
            Place::First => out.push_str(r"[\x00-\x20.]*(?:[\x3b\x2f\x5c]|\z)"),
            Place::Whole | Place::Last if in_parameters => out.push_str(".*\\z"),
            Place::Whole | Place::Last => {
                out.push_str(GAP);
                out.push_str("\\z");
            }
        }
        out
    }
}

impl Found {
    /// The pieces found so far, after a segment that is no piece.
    fn behind(self, segment: Segment) -> Self {
        let removable = self.removable | self.next;
        let mut now = Self { next: 0, removable, any: self.any };
        let kept = match (segment.climbs, segment.is_filler) {
            (true, _) => removable,
            (false, true) => self.next,
            (false, false) => 0,
        };
        match segment.has_parameters {
            true => now.any |= kept,
            false => now.next |= kept,
        }
        now
    }
}

/// A pattern of an operator's with `/` as a separator in any spelling but one that goes up and down again, and `\z`
/// as the end of the path whatever filler and parameters come behind it.
pub(super) fn spelled_pattern(text: &str) -> String {
    const SLASH: &str =
        r"(?:(?:\x3b[^\x2f\x5c]*)?[\x2f\x5c](?:\x2e?(?:\x3b[^\x2f\x5c]*)?[\x2f\x5c])*)";
    let (mut out, mut in_class, mut chars) = (String::new(), false, text.chars());
    while let Some(char) = chars.next() {
        match char {
            '\\' => match chars.next() {
                Some('/') if !in_class => out.push_str(SLASH),
                Some('z') => out.extend(["(?:", FILLER, "(?:\\x3b.*)?\\z)"]),
                Some(next) => out.extend(['\\', next]),
                None => out.push(char),
            },
            '/' if !in_class => out.push_str(SLASH),
            _ => {
                in_class = char == '[' || in_class && char != ']';
                out.push(char);
            }
        }
    }
    out
}

/// The bytes after the filler at the beginning of a segment, if it is nothing or begins with a `;`.
fn after_filler(bytes: &[u8]) -> Option<&[u8]> {
    let end = bytes.iter().position(|byte| !is_filler(*byte)).unwrap_or(bytes.len());
    let rest = bytes.get(end..).unwrap_or_default();
    (rest.is_empty() || rest.starts_with(b";")).then_some(rest)
}

const fn is_filler(byte: u8) -> bool {
    byte <= b' ' || byte == b'.'
}

const fn is_separator(byte: u8) -> bool {
    byte == b'/' || byte == b'\\'
}

/// `%XX`, IIS's `%uXXXX` and `+` decoded once, as `t:urlDecodeUni` does: the low byte of four digits counts, and
/// full-width ASCII is ASCII.
fn uni_decoded(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((byte, after)) = rest.split_first() {
        let plain = (if *byte == b'+' { b' ' } else { *byte }, after);
        let (byte, after) = if *byte == b'%' { escape(after).unwrap_or(plain) } else { plain };
        out.push(byte);
        rest = after;
    }
    out
}

/// The byte of an escape, from behind its `%`, and what follows.
fn escape(bytes: &[u8]) -> Option<(u8, &[u8])> {
    match bytes {
        [b'u' | b'U', a, b, c, d, after @ ..] => {
            let (high, low) = (hex_pair(*a, *b)?, hex_pair(*c, *d)?);
            let full_width = high == 0xff && (0x01..0x5f).contains(&low);
            Some((if full_width { low + 0x20 } else { low }, after))
        }
        [high, low, after @ ..] => Some((hex_pair(*high, *low)?, after)),
        _ => None,
    }
}

fn hex_pair(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(high)? << 4 | digit(low)?)
}
