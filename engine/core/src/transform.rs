//! Transformations: what a rule does to a value before its operator looks at it (`t:lowercase`).
//!
//! Every transformation is a pure function from bytes to bytes in a file of its own (or of its
//! family) under `transform/`. The behaviour is ModSecurity 3's, surprises included, because rules
//! are written against it; where a leaf departs from it, its documentation says so and why.
//!
//! The law every leaf keeps: it is total (no input panics), it runs in time linear in the input,
//! and its output is at most [`Transformation::output_limit`] bytes long.

pub(crate) mod base64;
mod case;
mod cmd_line;
mod comments;
mod css_decode;
mod digest;
mod escape_seq_decode;
mod hex;
mod html_entity_decode;
mod js_decode;
mod length;
pub(crate) mod normalise_path;
mod nulls;
mod parity;
mod trim;
mod url;
mod utf8_to_unicode;
mod whitespace;

use crate::scan::{ByteSet, Marks};
use crate::unicode_map::UnicodeMap;

/// A transformation of ModSecurity 3 and Coraza, by its SecLang name.
///
/// `none` is not here: it empties the list of transformations and never touches a value.
///
/// ```
/// use glacis_engine::transform::Transformation;
///
/// let decode = Transformation::from_name("urldecodeuni").expect("ModSecurity has it");
/// let mut out = Vec::new();
/// assert!(decode.apply(b"%u003cscript>", &mut out));
/// assert_eq!(out, b"<script>");
/// // Nothing to do: nothing is written, and the input is the result.
/// assert!(!decode.apply(b"<script>", &mut out) && out.is_empty());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transformation {
    /// `base64Decode`: strict Base64; a value that is not Base64 becomes empty.
    Base64Decode,
    /// `base64DecodeExt`: forgiving Base64, which skips every byte outside the alphabet.
    Base64DecodeExt,
    /// `base64Encode`: Base64 with padding (RFC 4648 section 4).
    Base64Encode,
    /// `cmdLine`: undoes the usual disguises of a shell command line.
    CmdLine,
    /// `compressWhitespace`: every run of white space becomes one space.
    CompressWhitespace,
    /// `cssDecode`: CSS 2 backslash escapes.
    CssDecode,
    /// `escapeSeqDecode`: ANSI C backslash escapes.
    EscapeSeqDecode,
    /// `hexDecode`: pairs of hexadecimal digits to bytes.
    HexDecode,
    /// `hexEncode`: bytes to pairs of lower-case hexadecimal digits.
    HexEncode,
    /// `htmlEntityDecode`: numeric entities and `quot`, `amp`, `lt`, `gt`, `nbsp`.
    HtmlEntityDecode,
    /// `jsDecode`: JavaScript backslash escapes.
    JsDecode,
    /// `length`: the number of bytes, in decimal.
    Length,
    /// `lowercase`: ASCII letters to lower case.
    Lowercase,
    /// `md5`: the raw 16-byte digest.
    Md5,
    /// `normalisePath`: resolves `//`, `/./` and `/../`.
    NormalisePath,
    /// `normalisePathWin`: as `normalisePath`, with `\` read as `/`.
    NormalisePathWin,
    /// `parityEven7bit`: sets the eighth bit to even parity.
    ParityEven7bit,
    /// `parityOdd7bit`: sets the eighth bit to odd parity.
    ParityOdd7bit,
    /// `parityZero7bit`: clears the eighth bit.
    ParityZero7bit,
    /// `removeComments`: removes comments with their text.
    RemoveComments,
    /// `removeCommentsChar`: removes the marks of comments, keeping the text.
    RemoveCommentsChar,
    /// `removeNulls`: removes NUL bytes.
    RemoveNulls,
    /// `removeWhitespace`: removes white space and no-break spaces.
    RemoveWhitespace,
    /// `replaceComments`: every `/* */` comment becomes one space.
    ReplaceComments,
    /// `replaceNulls`: NUL bytes become spaces.
    ReplaceNulls,
    /// `sha1`: the raw 20-byte digest.
    Sha1,
    /// `sqlHexDecode`: SQL literals such as `0x414243`.
    SqlHexDecode,
    /// `trim`: white space off both ends.
    Trim,
    /// `trimLeft`: white space off the front.
    TrimLeft,
    /// `trimRight`: white space off the end.
    TrimRight,
    /// `uppercase`: ASCII letters to upper case.
    Uppercase,
    /// `urlDecode`: `%HH` and `+`.
    UrlDecode,
    /// `urlDecodeUni`: as `urlDecode`, and IIS's `%uHHHH`.
    UrlDecodeUni,
    /// `urlEncode`: everything but letters, digits and `*` as `%hh`; space as `+`.
    UrlEncode,
    /// `utf8toUnicode`: multi-byte UTF-8 characters as `%uHHHH`.
    Utf8toUnicode,
}

/// Every spelling of every transformation; the first of each is its canonical name.
///
/// The aliases are those ModSecurity 3 accepts.
pub const TABLE: &[(&str, Transformation)] = &[
    ("base64Decode", Transformation::Base64Decode),
    ("base64DecodeExt", Transformation::Base64DecodeExt),
    ("base64Encode", Transformation::Base64Encode),
    ("cmdLine", Transformation::CmdLine),
    ("cmd_line", Transformation::CmdLine),
    ("compressWhitespace", Transformation::CompressWhitespace),
    ("compress_whitespace", Transformation::CompressWhitespace),
    ("cssDecode", Transformation::CssDecode),
    ("escapeSeqDecode", Transformation::EscapeSeqDecode),
    ("hexDecode", Transformation::HexDecode),
    ("hexEncode", Transformation::HexEncode),
    ("htmlEntityDecode", Transformation::HtmlEntityDecode),
    ("jsDecode", Transformation::JsDecode),
    ("length", Transformation::Length),
    ("lowercase", Transformation::Lowercase),
    ("md5", Transformation::Md5),
    ("normalisePath", Transformation::NormalisePath),
    ("normalizePath", Transformation::NormalisePath),
    ("normalisePathWin", Transformation::NormalisePathWin),
    ("normalizePathWin", Transformation::NormalisePathWin),
    ("parityEven7bit", Transformation::ParityEven7bit),
    ("parityOdd7bit", Transformation::ParityOdd7bit),
    ("parityZero7bit", Transformation::ParityZero7bit),
    ("removeComments", Transformation::RemoveComments),
    ("removeCommentsChar", Transformation::RemoveCommentsChar),
    ("removeNulls", Transformation::RemoveNulls),
    ("removeWhitespace", Transformation::RemoveWhitespace),
    ("replaceComments", Transformation::ReplaceComments),
    ("replaceNulls", Transformation::ReplaceNulls),
    ("sha1", Transformation::Sha1),
    ("sqlHexDecode", Transformation::SqlHexDecode),
    ("trim", Transformation::Trim),
    ("trimLeft", Transformation::TrimLeft),
    ("trimRight", Transformation::TrimRight),
    ("uppercase", Transformation::Uppercase),
    ("urlDecode", Transformation::UrlDecode),
    ("urlDecodeUni", Transformation::UrlDecodeUni),
    ("urlEncode", Transformation::UrlEncode),
    ("utf8toUnicode", Transformation::Utf8toUnicode),
];

/// Bytes that a transformation may write whatever the length of its input: the longest digest,
/// which is also the longest decimal `u64`.
const OUTPUT_CONSTANT: usize = 20;

impl Transformation {
    /// The transformation of that name, in any case of ASCII letters; `None` for `none` and for
    /// names nobody knows.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|&(_, found)| found)
    }

    /// All names.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().map(|(name, _)| *name)
    }

    /// The canonical SecLang name.
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|&&(_, known)| known == self).map_or("", |&(name, _)| name)
    }

    /// The most bytes it writes per byte of input, not counting a constant of 20 bytes.
    ///
    /// For a bound on a whole value use [`Self::output_limit`].
    #[must_use]
    pub fn growth(self) -> usize {
        match self {
            Self::Length | Self::Md5 | Self::Sha1 => 0,
            // Four bytes for three, rounded up.
            Self::Base64Encode | Self::HexEncode => 2,
            Self::UrlEncode => 3,
            // An overlong pair becomes `%uHHHH` and its first byte: seven bytes for two.
            Self::Utf8toUnicode => 4,
            _ => 1,
        }
    }

    /// The most bytes [`Self::apply`] writes for an input of that many bytes.
    #[must_use]
    pub fn output_limit(self, input_bytes: usize) -> usize {
        self.growth().saturating_mul(input_bytes).saturating_add(OUTPUT_CONSTANT)
    }

    /// Transforms `input`.
    ///
    /// Returns `true` if the result differs from the input; it is then in `out`. Returns `false`
    /// if it does not; `out` is then empty, and the caller keeps using `input`. Whatever `out`
    /// held before is gone in both cases. Nothing is allocated but room in `out`.
    pub fn apply(self, input: &[u8], out: &mut Vec<u8>) -> bool {
        self.apply_mapped(input, None, out)
    }

    /// As [`Self::apply`], with the characters that a server replaces (`SecUnicodeMapFile`), which
    /// `urlDecodeUni` undoes.
    pub fn apply_mapped(self, input: &[u8], map: Option<&UnicodeMap>, out: &mut Vec<u8>) -> bool {
        out.clear();
        // A leaf says `true` when it wrote its result to `out`; that the result also differs is
        // settled here, once, rather than with bookkeeping in each of them.
        let written = match (self, map) {
            (Self::UrlDecodeUni, Some(map)) => url::decode_mapped(input, map, out),
            _ => self.write(input, out),
        };
        if !written || out.as_slice() == input {
            out.clear();
            return false;
        }
        true
    }

    /// Runs the leaf: `false` means "surely equal, nothing written".
    fn write(self, input: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            Self::Base64Decode => base64::decode(input, out),
            Self::Base64DecodeExt => base64::decode_ext(input, out),
            Self::Base64Encode => base64::encode(input, out),
            Self::CmdLine => cmd_line::cmd_line(input, out),
            Self::CompressWhitespace => whitespace::compress(input, out),
            Self::CssDecode => css_decode::css_decode(input, out),
            Self::EscapeSeqDecode => escape_seq_decode::escape_seq_decode(input, out),
            Self::HexDecode => hex::decode(input, out),
            Self::HexEncode => hex::encode(input, out),
            Self::HtmlEntityDecode => html_entity_decode::html_entity_decode(input, out),
            Self::JsDecode => js_decode::js_decode(input, out),
            Self::Length => length::length(input, out),
            Self::Lowercase => case::lower(input, out),
            Self::Md5 => digest::md5(input, out),
            Self::NormalisePath => normalise_path::normalise_path(input, out),
            Self::NormalisePathWin => normalise_path::normalise_path_win(input, out),
            Self::ParityEven7bit => parity::even(input, out),
            Self::ParityOdd7bit => parity::odd(input, out),
            Self::ParityZero7bit => parity::zero(input, out),
            Self::RemoveComments => comments::remove(input, out),
            Self::RemoveCommentsChar => comments::remove_char(input, out),
            Self::RemoveNulls => nulls::remove(input, out),
            Self::RemoveWhitespace => whitespace::remove(input, out),
            Self::ReplaceComments => comments::replace(input, out),
            Self::ReplaceNulls => nulls::replace(input, out),
            Self::Sha1 => digest::sha1(input, out),
            Self::SqlHexDecode => hex::sql_decode(input, out),
            Self::Trim => trim::both(input, out),
            Self::TrimLeft => trim::left(input, out),
            Self::TrimRight => trim::right(input, out),
            Self::Uppercase => case::upper(input, out),
            Self::UrlDecode => url::decode(input, out),
            Self::UrlDecodeUni => url::decode_uni(input, out),
            Self::UrlEncode => url::encode(input, out),
            Self::Utf8toUnicode => utf8_to_unicode::utf8_to_unicode(input, out),
        }
    }
}

impl Transformation {
    /// Whether it can change the case of letters where it changes nothing else.
    pub(crate) const fn changes_case(self) -> bool {
        self.lowers() || matches!(self, Self::Uppercase)
    }

    /// Whether it may write more bytes than it read.
    pub(crate) const fn lengthens(self) -> bool {
        !self.keeps_bytes()
            && !matches!(
                self,
                Self::Base64Decode
                    | Self::Base64DecodeExt
                    | Self::CssDecode
                    | Self::EscapeSeqDecode
                    | Self::HexDecode
                    | Self::JsDecode
                    | Self::RemoveComments
                    | Self::UrlDecode
                    | Self::UrlDecodeUni
            )
    }

    /// Whether what it writes has no bytes but those of its input, in either case, and spaces.
    /// `removeComments` is not among them: it may write a NUL.
    pub(crate) const fn keeps_bytes(self) -> bool {
        matches!(
            self,
            Self::CmdLine
                | Self::CompressWhitespace
                | Self::Lowercase
                | Self::NormalisePath
                | Self::RemoveCommentsChar
                | Self::RemoveNulls
                | Self::RemoveWhitespace
                | Self::ReplaceComments
                | Self::ReplaceNulls
                | Self::Trim
                | Self::TrimLeft
                | Self::TrimRight
                | Self::Uppercase
        )
    }

    /// Whether letters are in lower case behind it.
    pub(crate) const fn lowers(self) -> bool {
        matches!(self, Self::CmdLine | Self::Lowercase)
    }

    /// The bytes without which the transformation changes nothing but the case of letters.
    ///
    /// The law: when no byte of a value, nor the other case of one, is in the set, then the result equals
    /// the value without regard to ASCII case.
    pub(crate) const fn triggers(self) -> ByteSet {
        const SPACE: ByteSet = ByteSet::of(b" \t\n\x0B\x0C\r");
        match self {
            Self::Lowercase | Self::Uppercase => ByteSet::EMPTY,
            Self::CmdLine => ByteSet::of(b"\"'\\^ ,;\t\r\n"),
            Self::CompressWhitespace | Self::Trim | Self::TrimLeft | Self::TrimRight => SPACE,
            Self::CssDecode | Self::EscapeSeqDecode | Self::JsDecode => ByteSet::of(b"\\"),
            Self::HtmlEntityDecode => ByteSet::of(b"&"),
            Self::NormalisePath => ByteSet::of(b"./"),
            Self::NormalisePathWin => ByteSet::of(b"./\\"),
            Self::RemoveComments => ByteSet::of(b"/<-#"),
            Self::RemoveCommentsChar => ByteSet::of(b"*-#"),
            Self::RemoveNulls | Self::ReplaceNulls => ByteSet::of(b"\0"),
            Self::RemoveWhitespace => SPACE.union(ByteSet::of(b"\xA0\xC2")),
            Self::ReplaceComments => ByteSet::of(b"*"),
            Self::SqlHexDecode => ByteSet::of(b"x"),
            Self::UrlDecode | Self::UrlDecodeUni => ByteSet::of(b"%+"),
            // ModSecurity drops NUL too.
            Self::Utf8toUnicode => ByteSet::range(0x80, 0xFF).union(ByteSet::of(b"\0")),
            Self::Base64Decode
            | Self::Base64DecodeExt
            | Self::Base64Encode
            | Self::HexDecode
            | Self::HexEncode
            | Self::Length
            | Self::Md5
            | Self::ParityEven7bit
            | Self::ParityOdd7bit
            | Self::ParityZero7bit
            | Self::Sha1
            | Self::UrlEncode => ByteSet::ALL,
        }
    }

    /// Whether what it makes of a value with these marks is the value itself, once both are stripped of separators, but
    /// for case.
    pub(crate) const fn keeps_stripped(self, marks: Marks) -> bool {
        match self {
            Self::CmdLine
            | Self::CompressWhitespace
            | Self::Lowercase
            | Self::RemoveNulls
            | Self::RemoveWhitespace
            | Self::ReplaceNulls
            | Self::Trim
            | Self::TrimLeft
            | Self::TrimRight
            | Self::Uppercase => true,
            Self::UrlDecode | Self::UrlDecodeUni => !marks.escape,
            Self::ReplaceComments => !marks.comment,
            Self::HtmlEntityDecode => !marks.entity,
            Self::CssDecode | Self::EscapeSeqDecode | Self::JsDecode => !marks.backslash,
            Self::Utf8toUnicode => !marks.beyond_ascii,
            Self::Base64Decode
            | Self::Base64DecodeExt
            | Self::Base64Encode
            | Self::HexDecode
            | Self::HexEncode
            | Self::Length
            | Self::Md5
            | Self::NormalisePath
            | Self::NormalisePathWin
            | Self::ParityEven7bit
            | Self::ParityOdd7bit
            | Self::ParityZero7bit
            | Self::RemoveComments
            | Self::RemoveCommentsChar
            | Self::Sha1
            | Self::SqlHexDecode
            | Self::UrlEncode => false,
        }
    }
}

#[cfg(test)]
mod tests;
