//! A request of the workload, and its line in the file.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::definitions::Verdict;

pub(crate) type Headers = Vec<(&'static str, String)>;

/// One request; what the application answers only where response phases are measured.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) id: String,
    pub(crate) class: String,
    /// Whether it counts for the mix.
    pub(crate) in_mix: bool,
    pub(crate) expect: Verdict,
    /// A rule that has to be among those that matched.
    pub(crate) expect_rule: Option<u32>,
    pub(crate) method: String,
    pub(crate) uri: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) response: Option<Response>,
}

/// What the application answers.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// A request without body that is let through.
    pub(crate) fn get(class: &str, number: usize, uri: String, headers: Headers) -> Self {
        Self {
            id: format!("{class}-{number}"),
            class: class.to_owned(),
            in_mix: false,
            expect: Verdict::Allow,
            expect_rule: None,
            method: "GET".to_owned(),
            uri,
            headers: headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            body: None,
            response: None,
        }
    }

    /// The same as a POST. Its type and length are the first things a browser adds after the host.
    pub(crate) fn post(mut self, content_type: String, body: Vec<u8>) -> Self {
        "POST".clone_into(&mut self.method);
        let length = body.len().to_string();
        let at = 1.min(self.headers.len());
        let added = [("Content-Length", length), ("Content-Type", content_type)];
        let added = added.map(|(name, value)| (name.to_owned(), value));
        self.headers.splice(at..at, added);
        self.body = Some(body);
        self
    }

    /// Puts `value` in place of the header of that name, or adds it.
    pub(crate) fn set_header(&mut self, name: &str, value: &str) {
        match self.headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            Some((_, old)) => value.clone_into(old),
            None => self.headers.push((name.to_owned(), value.to_owned())),
        }
    }

    /// The line in the file: an object as `glacis eval` reads it, with what is expected.
    pub(crate) fn line(&self) -> String {
        let mut line = json!({
            "id": self.id,
            "class": self.class,
            "in_mix": self.in_mix,
            "expect": self.expect.name(),
            "client": {"ip": "192.0.2.10", "port": 40_001},
            "server": {"ip": "192.0.2.80", "port": 80},
            "method": self.method,
            "uri": self.uri,
            "protocol": "HTTP/1.1",
            "headers": self.headers,
        });
        let mut add = |name: &str, value: Option<Value>| {
            if let (Some(value), Some(line)) = (value, line.as_object_mut()) {
                line.insert(name.to_owned(), value);
            }
        };
        add("expect_rule", self.expect_rule.map(Value::from));
        add("body_base64", self.body.as_ref().map(|body| STANDARD.encode(body).into()));
        add("response", self.response.as_ref().map(Response::json));
        line.to_string()
    }
}

impl Response {
    fn json(&self) -> Value {
        json!({
            "status": 200,
            "protocol": "HTTP/1.1",
            "headers": self.headers,
            "body_base64": STANDARD.encode(&self.body),
        })
    }
}
