//! `@detectSQLi`: whether a value is a piece of SQL that was made to change a query.
//!
//! The method is libinjection's: read the value as SQL would, as if it stood bare, inside single
//! and inside double quotes; fold what does not matter; and look up the *fingerprint*, the kinds of
//! the first five tokens, in a table of fingerprints of known attacks. The table and the dictionary
//! of SQL words come from the crate `libinjectionrs`. The reading and folding are ours, because
//! those of the crate differ from libinjection on inputs with comments, NUL and Latin-1 bytes.
//!
//! Source: libinjection (`libinjection_sqli`, as of February 2025), whose answers and fingerprints
//! these are. The value is read at most five times from front to back, without allocation.

mod fold;
mod token;

use std::sync::LazyLock;

use libinjectionrs::sqli::sqli_data::SQL_KEYWORDS;
use memchr::{memchr, memmem};

use fold::fold;
use token::{Dialect, Lexer, Quote, Token, kind};

/// The most tokens in a fingerprint.
const TOKENS_MAX: usize = 5;

/// The kinds of the tokens by which an injection was recognised, one letter each: `s&1c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    kinds: [u8; TOKENS_MAX],
    len: usize,
}

impl Fingerprint {
    fn of(tokens: &[Token]) -> Self {
        // One token that databases read differently spoils the others.
        if tokens.iter().any(|token| token.kind == kind::EVIL) {
            return Self { kinds: [kind::EVIL, 0, 0, 0, 0], len: 1 };
        }
        let mut kinds = [0; TOKENS_MAX];
        for (place, token) in kinds.iter_mut().zip(tokens) {
            *place = token.kind;
        }
        Self { kinds, len: tokens.len().min(TOKENS_MAX) }
    }

    /// The letters; ASCII, one to five of them.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.kinds.get(..self.len).unwrap_or_default()
    }
}

/// The fingerprint of the injection in `input`, if it holds one.
pub(crate) fn detect(input: &[u8]) -> Option<Fingerprint> {
    if is_one_token(input) { None } else { read(input) }
}

/// Whether `input` is empty, a number without letters, or one word: most values of ordinary requests are,
/// and one such token is never an injection.
fn is_one_token(input: &[u8]) -> bool {
    match input.first() {
        None => true,
        Some(byte) if byte.is_ascii_digit() => input.iter().all(u8::is_ascii_digit),
        Some(byte) if byte.is_ascii_alphabetic() => {
            input.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
        }
        Some(_) => false,
    }
}

/// Reads a value that has more than one token, in all its contexts.
fn read(input: &[u8]) -> Option<Fingerprint> {
    let bare = || reading_as(input, Quote::None);
    let single = || memchr(b'\'', input).and_then(|_| reading_as(input, Quote::Single));
    // Only MySQL quotes text with double quotes.
    let double = || {
        memchr(b'"', input)?;
        Reading::new(input, Quote::Double, Dialect::MySql).verdict()
    };
    bare().or_else(single).or_else(double)
}

/// The verdict on the value as standard SQL and, where a comment may mean something else there, as
/// MySQL.
fn reading_as(input: &[u8], quote: Quote) -> Option<Fingerprint> {
    let ansi = Reading::new(input, quote, Dialect::Ansi);
    ansi.verdict().or_else(|| {
        if !ansi.mysql_may_differ {
            return None;
        }
        Reading::new(input, quote, Dialect::MySql).verdict()
    })
}

/// What one way of reading a value found.
struct Reading<'a> {
    input: &'a [u8],
    tokens: [Token; fold::ROOM],
    fingerprint: Fingerprint,
    /// How many tokens there were before folding.
    tokens_read: usize,
    mysql_may_differ: bool,
}

impl<'a> Reading<'a> {
    fn new(input: &'a [u8], quote: Quote, dialect: Dialect) -> Self {
        let mut lexer = Lexer::new(input, quote, dialect);
        let mut tokens = [Token::EMPTY; fold::ROOM];
        let len = fold(&mut lexer, &mut tokens);
        // PHP and MySQL take an unclosed, empty backtick name at the end for a comment.
        let standing = tokens.get_mut(..len).unwrap_or_default();
        if let [_, _, .., last] = &mut *standing
            && last.is_open_empty_tick()
        {
            last.kind = kind::COMMENT;
        }
        let fingerprint = Fingerprint::of(standing);
        Self {
            input,
            tokens,
            fingerprint,
            tokens_read: lexer.tokens_read,
            mysql_may_differ: lexer.mysql_may_differ,
        }
    }

    fn verdict(&self) -> Option<Fingerprint> {
        (self.is_known_attack() && !self.is_excused()).then_some(self.fingerprint)
    }

    /// Whether the fingerprint is in the table: there with a `0` in front and in upper case.
    fn is_known_attack(&self) -> bool {
        let [a, b, c, d, e] = self.fingerprint.kinds;
        let key = [b'0', a, b, c, d, e];
        let key = key.get(..=self.fingerprint.len).unwrap_or_default();
        self.fingerprint.len > 0 && keyword(key) == Some(kind::FINGERPRINT)
    }

    /// Fingerprints of harmless text too, unless a second look says otherwise.
    fn is_excused(&self) -> bool {
        let [first, second, third, ..] = &self.tokens;
        let kinds = self.fingerprint.as_bytes();
        // Comments that hide what follows from the log are attacks.
        if kinds.len() > 1
            && kinds.last() == Some(&kind::COMMENT)
            && SP_PASSWORD.find(self.input).is_some()
        {
            return false;
        }
        match kinds.len() {
            2 => self.is_excused_pair(first, second, kinds),
            3 => self.is_excused_triple(first, second, third, kinds),
            _ => false,
        }
    }

    fn is_excused_pair(&self, first: &Token, second: &Token, kinds: &[u8]) -> bool {
        if let [_, kind::UNION] = kinds {
            // "1 union" alone is text; with anything folded away it is not.
            return self.tokens_read == 2;
        }
        let mark = second.first_byte();
        if mark == b'#' {
            return true;
        }
        match (first.kind, second.kind) {
            // Words end in "--" for many reasons, in "/*" for one.
            (kind::BAREWORD, kind::COMMENT) if mark != b'/' => true,
            (kind::NUMBER, kind::COMMENT) if mark == b'/' => false,
            (kind::NUMBER, kind::COMMENT) => {
                // Encoded identifiers look like "1234-abc--": excused unless tokens were folded
                // away or a comment or white space follows the number at once.
                let at = |index: usize| self.input.get(first.len() + index).copied().unwrap_or(0);
                let follows_at_once = matches!((at(0), at(1)), (b'/', b'*') | (b'-', b'-'));
                // Bytes outside ASCII count as white space here.
                let white = at(0) <= b' ' || !at(0).is_ascii();
                self.tokens_read <= 2 && !white && !follows_at_once
            }
            // Plain text has "--" in the middle, probes have it at the end.
            _ => second.len() > 2 && mark == b'-',
        }
    }

    fn is_excused_triple(
        &self,
        first: &Token,
        second: &Token,
        third: &Token,
        kinds: &[u8],
    ) -> bool {
        match kinds {
            // ...foo" + "bar...: cut out of a quoted text, at both ends.
            b"sos" | b"s&s" => {
                let cut = first.open == 0 && third.close == 0 && first.close == third.open;
                !cut
            }
            // "sexy and 17" is text, "sexy and 17<18" is not.
            b"s&n" | b"n&1" | b"1&1" | b"1&v" | b"1&s" => self.tokens_read == 3,
            // Of the other keywords only INTO OUTFILE and INTO DUMPFILE do harm so early.
            [_, kind::KEYWORD, _] => {
                let into = second.value().get(..4).is_some_and(|v| v.eq_ignore_ascii_case(b"INTO"));
                second.len() < 5 || !into
            }
            _ => false,
        }
    }
}

/// What the dictionary says of a word or a fingerprint, in any case of ASCII letters.
fn keyword(word: &[u8]) -> Option<u8> {
    let shelf = shelf(word)?;
    let first = *DICTIONARY.shelves.get(shelf)? as usize;
    let end = *DICTIONARY.shelves.get(shelf + 1)? as usize;
    let beginnings = DICTIONARY.beginnings.get(first..end)?;
    let beginning = beginning(word);
    let found = beginnings.partition_point(|&known| known < beginning);
    let alike = beginnings.get(found..)?.iter().take_while(|&&known| known == beginning).count();
    let words = DICTIONARY.words.get(first + found..)?.iter().take(alike);
    words.copied().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, kind)| kind)
}

/// The dictionary, with words of one first letter and length together: most words of ordinary text are
/// told apart by that.
struct Dictionary {
    words: Vec<(&'static [u8], u8)>,
    /// Of each word, by which those of a shelf are sorted.
    beginnings: Vec<u128>,
    /// Where in `words` each shelf begins, and where the last one ends.
    shelves: Vec<u32>,
}

/// The first bytes of a word in upper case, as a number that sorts as they do: one comparison, where a
/// loop over bytes would be left at another place for each word.
fn beginning(word: &[u8]) -> u128 {
    let mut bytes = [0; size_of::<u128>()];
    bytes.iter_mut().zip(word).for_each(|(to, from)| *to = from.to_ascii_uppercase());
    u128::from_be_bytes(bytes)
}

/// Longer words share a shelf.
const SHELF_LENGTHS: usize = 32;

/// The shelf of a word; none for an empty one.
fn shelf(word: &[u8]) -> Option<usize> {
    let first = usize::from(word.first()?.to_ascii_uppercase());
    Some(first * SHELF_LENGTHS + word.len().min(SHELF_LENGTHS) - 1)
}

static DICTIONARY: LazyLock<Dictionary> = LazyLock::new(|| {
    let entries = SQL_KEYWORDS.iter().map(|entry| (entry.word.as_bytes(), entry.token_type));
    let mut words: Vec<_> = entries.collect();
    // The sort is stable: words that begin alike stay in their order.
    words.sort_by_key(|(word, _)| (shelf(word), beginning(word)));
    let beginnings = words.iter().map(|(word, _)| beginning(word)).collect();
    let begin = |number: usize| words.partition_point(|(word, _)| shelf(word) < Some(number));
    let shelves = (0..=256 * SHELF_LENGTHS).map(|number| u32::try_from(begin(number)).unwrap_or(0));
    Dictionary { shelves: shelves.collect(), beginnings, words }
});

/// SQL Server logs nothing that mentions this procedure.
static SP_PASSWORD: LazyLock<memmem::Finder<'static>> =
    LazyLock::new(|| memmem::Finder::new("sp_password"));

#[cfg(test)]
mod tests;
