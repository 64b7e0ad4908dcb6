//! Where in which source a piece of text stands.

/// One source text given to the parser: a file, or a block of inline directives.
///
/// The number is the caller's: usually the index into its list of loaded sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SourceId(pub u32);

/// A range of bytes in one source. Sources are shorter than 4 GiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Span {
    /// The source the range lies in.
    pub source: SourceId,
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

/// A piece of text together with where it was written.
///
/// `text` is what is meant (quotes stripped, escapes and line continuations resolved), `span` what
/// was written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Text {
    /// What is meant.
    pub text: String,
    /// Where it was written.
    pub span: Span,
}
