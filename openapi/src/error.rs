//! Why a document is rejected, and where the reason stands in it.

use core::fmt;

/// A document that is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    place: String,
    message: String,
}

impl DocumentError {
    pub(crate) fn new(place: &Place<'_>, message: impl Into<String>) -> Self {
        Self { place: place.to_string(), message: message.into() }
    }

    pub(crate) fn of_text(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }

    /// Returns the place as a JSON pointer such as `/paths/~1pets/get`, or as a line of text.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place.as_str() {
            "" => f.write_str(&self.message),
            place => write!(f, "{place}: {}", self.message),
        }
    }
}

impl core::error::Error for DocumentError {}

/// A place in a document, as a list from the inside out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'p> {
    /// A JSON pointer, by which something was reached.
    At(&'p str),
    /// A member of another place.
    In(&'p Self, &'p str),
    /// An element of another place.
    Item(&'p Self, usize),
}

impl Place<'_> {
    pub(crate) const ROOT: Place<'static> = Place::At("");
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(pointer) => f.write_str(pointer),
            Self::In(place, name) => write!(f, "{place}/{}", escaped(name)),
            Self::Item(place, index) => write!(f, "{place}/{index}"),
        }
    }
}

/// A name as it is written in a JSON pointer (RFC 6901, section 3).
pub(crate) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}
