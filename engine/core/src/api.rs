//! The comparison of requests with a description of the API, such as an OpenAPI document: the engine asks its host,
//! which has read the description, and shows the answer to rules as `OPENAPI`.

use core::fmt::Debug;
/// A description of an API.
///
/// A description is asked once for each request, in phase 2 and before its rules.
pub trait ApiDescription: Debug + Send + Sync {
    /// Compares a request with the description and reports each difference: its kind, which becomes the name of a
    /// member of `OPENAPI`, and a message, which becomes its value.
    ///
    /// The number and the length of reports have to be bounded by the implementation.
    fn compare(&self, request: &ApiRequest<'_>, report: &mut dyn FnMut(&str, &str));
}

/// A request, as far as a description speaks of it.
#[derive(Clone, Copy, Debug)]
pub struct ApiRequest<'r> {
    /// The method, as sent.
    pub method: &'r [u8],
    /// Path and query, as sent.
    pub target: &'r [u8],
    /// Header fields in their order, as sent.
    pub headers: &'r [(&'r [u8], &'r [u8])],
    /// The body.
    pub body: ApiBody<'r>,
    /// The parts of a multipart body. `None` where the body is not one, or where it is malformed.
    pub parts: Option<&'r [ApiPart<'r>]>,
}

/// The body of a request, its content codings undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiBody<'r> {
    /// The whole body, which may be empty.
    Whole(&'r [u8]),
    /// There may be a body, and the engine has not got all of it, for this reason.
    Incomplete(&'static str),
}

/// One part of a multipart body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiPart<'r> {
    /// The name of the form field.
    pub name: &'r [u8],
    /// The content of a field; the name of a file.
    pub value: &'r [u8],
    /// Whether the part is a file.
    pub is_file: bool,
}

/// A description that reports nothing: for hosts that compile rules of which another host runs those on `OPENAPI`.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoApiDescription;

impl ApiDescription for NoApiDescription {
    fn compare(&self, _request: &ApiRequest<'_>, _report: &mut dyn FnMut(&str, &str)) {}
}
