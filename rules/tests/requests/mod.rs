//! Requests for tests: the regression tests of CRS, ordinary traffic, and mixtures of both.

#![allow(dead_code, reason = "each test file uses a part of this")]

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use glacis_inspector::{Header, RequestHead, parse_endpoint};
use serde_json::Value;

/// A request as an inspector gets it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) name: String,
    pub(crate) method: Vec<u8>,
    pub(crate) path: Vec<u8>,
    pub(crate) protocol: String,
    pub(crate) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    pub(crate) fn headers(&self) -> Vec<Header<'_>> {
        let pseudo = [(&b":method"[..], &*self.method), (b":path", &self.path)];
        let fields = self.fields.iter().map(|(name, value)| (&**name, &**value));
        pseudo.into_iter().chain(fields).map(|(name, value)| Header { name, value }).collect()
    }

    pub(crate) fn head<'a>(&'a self, headers: &'a [Header<'a>]) -> RequestHead<'a> {
        RequestHead {
            headers,
            protocol: Some(&self.protocol),
            end_of_stream: self.body.is_empty(),
            id: "law",
            time: Duration::from_secs(1_790_000_000),
            source: parse_endpoint("192.0.2.7:4711"),
            destination: parse_endpoint("192.0.2.1:80"),
            user: None,
            lot: 0,
            audit_lot: 0,
        }
    }
}

pub(crate) fn crs() -> PathBuf {
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.fetched/crs-4.25.0");
    std::env::var_os("GLACIS_CRS_DIR").map_or(fetched, PathBuf::from)
}

/// The requests of the regression tests, read as far as a request is concerned.
pub(crate) fn attacks() -> Vec<Request> {
    let mut files = Vec::new();
    for folder in fs::read_dir(crs().join("tests")).unwrap().flatten() {
        let Ok(inner) = fs::read_dir(folder.path()) else { continue };
        files.extend(inner.flatten().map(|file| file.path()));
    }
    files.sort();
    let mut requests = Vec::new();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "yaml")) {
        let text = fs::read_to_string(file).unwrap();
        let document: Value = serde_saphyr::from_str(&text).unwrap();
        for test in document["tests"].as_array().into_iter().flatten() {
            let stages = test["stages"].as_array().into_iter().flatten();
            let name = format!("{}-{}", file.file_stem().unwrap().display(), test["test_id"]);
            requests.extend(stages.filter_map(|stage| attack(&name, &stage["input"])));
        }
    }
    requests
}

fn attack(name: &str, input: &Value) -> Option<Request> {
    let text =
        |field: &str, default: &str| input[field].as_str().unwrap_or(default).as_bytes().to_vec();
    if input["encoded_request"].is_string() {
        return None;
    }
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = input["headers"].as_object().into_iter().flatten();
    let fields = fields.map(|(name, value)| (name.clone().into_bytes(), plain(value).into_bytes()));
    Some(Request {
        name: name.to_owned(),
        method: text("method", "GET"),
        path: text("uri", "/"),
        protocol: input["version"].as_str().unwrap_or("HTTP/1.1").to_owned(),
        fields: fields.collect(),
        body: text("data", ""),
    })
}

pub(crate) fn ordinary() -> Vec<Request> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpora/ordinary");
    let mut files: Vec<_> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let bytes = |value: &Value| value.as_str().map(|text| text.as_bytes().to_vec());
    let request = |line: &str| {
        let value: Value = serde_json::from_str(line).unwrap();
        let fields = value["headers"].as_array().unwrap().iter();
        let fields = fields.map(|field| Some((bytes(&field[0])?, bytes(&field[1])?)));
        let has_body = value["body"].is_string() || value["body_base64"].is_string();
        Some(Request {
            name: value["id"].as_str()?.to_owned(),
            method: bytes(&value["method"])?,
            path: bytes(&value["uri"])?,
            protocol: value["protocol"].as_str()?.to_owned(),
            fields: fields.collect::<Option<_>>()?,
            body: match has_body {
                true => bytes(&value["body"]).unwrap_or_else(|| b"base64".to_vec()),
                false => Vec::new(),
            },
        })
    };
    let texts = files.iter().map(|file| fs::read_to_string(file).unwrap());
    texts.flat_map(|text| text.lines().filter_map(request).collect::<Vec<_>>()).collect()
}

/// Requests made of parts of others: a path of one, fields of two, without the body or with it.
pub(crate) fn mixtures(requests: &[Request], count: usize) -> impl Iterator<Item = Request> {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % u64::try_from(below.max(1)).unwrap()).unwrap()
    };
    let requests = requests.to_vec();
    (0..count).map(move |number| {
        let [one, other, third] = [0; 3].map(|_| &requests[next(requests.len())]);
        let mut mixed = Request { name: format!("mixture {number}"), ..one.clone() };
        if next(2) == 0 {
            mixed.body.clear();
        }
        if next(2) == 0 {
            mixed.path.clone_from(&other.path);
        }
        for _ in 0..next(3) {
            if let Some(field) = third.fields.get(next(third.fields.len())) {
                mixed.fields.push(field.clone());
            }
        }
        for _ in 0..next(3) {
            if !mixed.path.is_empty() {
                let place = next(mixed.path.len());
                mixed.path[place] = b"'<>;%./()|\0\xff"[next(12)];
            }
        }
        mixed
    })
}
