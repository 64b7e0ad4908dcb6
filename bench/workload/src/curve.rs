//! Bodies of growing size, for each kind of body.

use crate::{
    body,
    browser::{self, Fetch},
    random::Random,
    request::Request,
};

const FORM: &str = "application/x-www-form-urlencoded";

/// The kinds, in the order of the report.
pub(crate) const KINDS: &[&str] = &["form", "json", "multipart", "prose"];

/// One request whose body has about `bytes` bytes.
pub(crate) fn request(random: &mut Random, kind: &str, bytes: usize, number: usize) -> Request {
    let (content_type, body) = match kind {
        "json" => ("application/json".to_owned(), body::json(random, bytes)),
        "multipart" => body::multipart(random, bytes),
        "prose" => (FORM.to_owned(), body::prose_form(random, bytes)),
        _ => (FORM.to_owned(), body::form(random, bytes)),
    };
    let class = name(kind, bytes);
    let headers = browser::headers(random, Fetch::Form);
    Request::get(&class, number, "/account/messages".to_owned(), headers).post(content_type, body)
}

/// The class of such requests, and the name of their file: `curve_json_100k`.
pub(crate) fn name(kind: &str, bytes: usize) -> String {
    format!("curve_{kind}_{}k", bytes >> 10)
}
