//! Requests of the workload, and their way through the engine.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use glacis_engine::{BodyRoom, Endpoint, Start, Transaction};
use serde_json::{Value, json};

type Headers = Vec<(String, String)>;

/// One line of the workload, which is in the format of `glacis eval`.
pub(crate) struct Request {
    id: String,
    method: String,
    uri: String,
    protocol: String,
    headers: Headers,
    body: Option<Vec<u8>>,
    response: Option<Response>,
}

struct Response {
    status: u16,
    headers: Headers,
    body: Vec<u8>,
}

impl Request {
    /// Reads a line.
    ///
    /// # Errors
    /// When it is not JSON; what is missing in it is empty.
    pub(crate) fn parse(line: &str) -> Result<Self, serde_json::Error> {
        let value: Value = serde_json::from_str(line)?;
        let response = value.get("response").map(|response| Response {
            status: response["status"].as_u64().and_then(|it| it.try_into().ok()).unwrap_or(200),
            headers: headers(response),
            body: body(response).unwrap_or_default(),
        });
        Ok(Self {
            id: text(&value["id"]),
            method: text(&value["method"]),
            uri: text(&value["uri"]),
            protocol: text(&value["protocol"]),
            headers: headers(&value),
            body: body(&value),
            response,
        })
    }

    /// A GET with these headers beside the host.
    pub(crate) fn get(uri: &str, headers: Headers) -> Self {
        let host = ("Host".to_owned(), "shop.example.com".to_owned());
        Self {
            id: String::new(),
            method: "GET".to_owned(),
            uri: uri.to_owned(),
            protocol: "HTTP/1.1".to_owned(),
            headers: [vec![host], headers].concat(),
            body: None,
            response: None,
        }
    }

    /// A POST of a body.
    pub(crate) fn post(uri: &str, content_type: &str, body: Vec<u8>) -> Self {
        let length = body.len().to_string();
        let headers = [("Content-Type", content_type), ("Content-Length", &length)];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { method: "POST".to_owned(), body: Some(body), ..Self::get(uri, headers.to_vec()) }
    }

    /// The same with more headers.
    pub(crate) fn with_headers(mut self, headers: Headers) -> Self {
        self.headers.extend(headers);
        self
    }

    /// Bytes of the target, the headers and the body.
    pub(crate) fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| name.len() + value.len() + 4);
        self.uri.len() + headers.sum::<usize>() + self.body.as_ref().map_or(0, Vec::len)
    }

    /// Takes the request through all phases, as a host does. The time is a fixed one: with a clock
    /// no two runs would be the same.
    pub(crate) fn inspect(&self, transaction: &mut Transaction) {
        let endpoint =
            |host, port| Endpoint { address: IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)), port };
        transaction.start(&Start {
            unique_id: "probe",
            time: Duration::from_secs(1_795_000_000),
            client: endpoint(10, 40_001),
            server: endpoint(80, 80),
        });
        self.request_phases(transaction);
        if let Some(response) = &self.response
            && transaction.verdict().refusal().is_none()
        {
            response.phases(transaction);
        }
        transaction.finish(Duration::from_secs(1_795_000_001));
    }

    fn request_phases(&self, transaction: &mut Transaction) {
        let [method, uri, protocol] = [&self.method, &self.uri, &self.protocol];
        transaction.request_line(method.as_bytes(), uri.as_bytes(), protocol.as_bytes());
        for (name, value) in &self.headers {
            transaction.request_header(name.as_bytes(), value.as_bytes());
        }
        if transaction.evaluate_request_headers().refusal().is_some() {
            return;
        }
        if let Some(body) = &self.body
            && transaction.wants_request_body()
        {
            let _: BodyRoom = transaction.request_body(body);
        }
        transaction.evaluate_request_body();
    }

    /// What came of it, in the words of the benchmark's drivers, and what it cost in the engine's
    /// own steps.
    pub(crate) fn answer(&self, transaction: &Transaction) -> String {
        let logged = transaction.matched_rules().filter(|rule| rule.log);
        let answer = json!({
            "id": self.id,
            "verdict": transaction.verdict().name(),
            "matched": logged.map(|rule| rule.id.0).collect::<Vec<_>>(),
            "steps": transaction.rule_steps(),
            "cut_off": transaction.flags().rules_cut_off,
        });
        answer.to_string()
    }
}

impl Response {
    fn phases(&self, transaction: &mut Transaction) {
        transaction.response_line(self.status, b"HTTP/1.1");
        for (name, value) in &self.headers {
            transaction.response_header(name.as_bytes(), value.as_bytes());
        }
        if transaction.evaluate_response_headers().refusal().is_some() {
            return;
        }
        if transaction.wants_response_body() {
            let _: BodyRoom = transaction.response_body(&self.body);
        }
        transaction.evaluate_response_body();
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn headers(value: &Value) -> Headers {
    let pairs = value["headers"].as_array().into_iter().flatten();
    pairs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect()
}

fn body(value: &Value) -> Option<Vec<u8>> {
    STANDARD.decode(value["body_base64"].as_str()?).ok()
}
