//! One request, and what a parser made of it.

use crate::mark::MARKS;

/// What of a request is made by a grammar and mutated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The query string.
    Query,
    /// A body of `application/x-www-form-urlencoded`.
    Form,
    /// A body of `multipart/form-data`.
    Multipart,
    /// A body of JSON.
    Json,
    /// A body of XML.
    Xml,
    /// The `Cookie` header.
    Cookie,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 6] =
        [Self::Query, Self::Form, Self::Multipart, Self::Json, Self::Xml, Self::Cookie];

    /// The name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Query => "query",
            Self::Form => "form",
            Self::Multipart => "multipart",
            Self::Json => "json",
            Self::Xml => "xml",
            Self::Cookie => "cookie",
        }
    }
}

/// A request: what is empty is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// The value of the `Content-Type` header.
    pub content_type: Vec<u8>,
    /// The query string, without the question mark.
    pub query: Vec<u8>,
    /// The value of the `Cookie` header.
    pub cookie: Vec<u8>,
    /// The body.
    pub body: Vec<u8>,
    /// Which of [`MARKS`] is in it.
    pub mark: usize,
}

impl Case {
    /// The mark.
    #[must_use]
    pub fn mark(&self) -> &'static str {
        MARKS.get(self.mark).copied().unwrap_or_default()
    }

    /// The frame in which parsers get the request: four fields, each behind its length in four bytes.
    pub fn write_frame(&self, out: &mut Vec<u8>) {
        for field in [&self.content_type, &self.query, &self.cookie, &self.body] {
            out.extend_from_slice(&u32::try_from(field.len()).unwrap_or_default().to_be_bytes());
            out.extend_from_slice(field);
        }
    }

    /// Takes from the header fields and the query string the bytes that Envoy never forwards in them.
    #[must_use]
    pub fn as_forwarded(mut self) -> Self {
        for field in [&mut self.content_type, &mut self.cookie] {
            field.retain(|&byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
            *field = field.trim_ascii().to_vec();
        }
        self.query.retain(|&byte| byte > b' ' && byte != 0x7f && byte != b'#');
        self
    }
}

/// Where a parser returned a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A name or a value of an argument, a cookie or an XML text.
    Value,
    /// The name of a file or of its field.
    File,
}
