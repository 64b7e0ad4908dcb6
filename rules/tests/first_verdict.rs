//! The law of the first verdict: what it calls clean is let through, scores zero and matches nothing that logs
//! when the whole engine inspects it. Over the regression tests of CRS, ordinary traffic, and mixtures of both,
//! with the rules as a module in Envoy gets them: packed into bytes and read again.
//!
//! CRS is not in the repository. `cargo xtask fetch` brings it; `GLACIS_CRS_DIR` names another one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends at what it did not expect")]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use glacis_engine::{Input, Limits, MemoryStore};
use glacis_inspector::{
    Decision, End, FIRST_VERDICT_HEAD_BYTES_MAX, First, FirstVerdict, Header, Inspector,
    RequestHead, RuleBundle, Settings, parse_endpoint,
};
use glacis_rules::FileSource;
use serde_json::Value;

/// A request as both sides get it.
#[derive(Clone, Debug, Default)]
struct Request {
    name: String,
    method: Vec<u8>,
    path: Vec<u8>,
    protocol: String,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

impl Request {
    fn headers(&self) -> Vec<Header<'_>> {
        let pseudo = [(&b":method"[..], &*self.method), (b":path", &self.path)];
        let fields = self.fields.iter().map(|(name, value)| (&**name, &**value));
        pseudo.into_iter().chain(fields).map(|(name, value)| Header { name, value }).collect()
    }

    fn head<'a>(&'a self, headers: &'a [Header<'a>]) -> RequestHead<'a> {
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

/// Both sides, with the same rules.
struct Sides {
    first: FirstVerdict,
    whole: Inspector,
}

impl Sides {
    fn new(text: &str) -> Self {
        let own = Input::Text { name: "own.conf".to_owned(), text: text.to_owned() };
        let mut inputs = vec![own];
        let found = glacis_rules::crs(&crs());
        inputs.extend(found.unwrap_or_else(|error| panic!("{error}: run `cargo xtask fetch`")));
        let (bundle, program) = RuleBundle::gather(&inputs, &FileSource::new()).unwrap();
        let packed = bundle.pack().unwrap();
        assert!(packed.len() < 512 << 10, "{} bytes", packed.len());
        let again = RuleBundle::unpack(&packed).unwrap().build().unwrap();
        assert_eq!(again.rule_count(), program.rule_count());
        let store = MemoryStore::new(100, Limits::default().collections());
        let settings = Settings { collections: Some(Arc::new(store)), ..Settings::default() };
        Self {
            first: FirstVerdict::new(Arc::new(again), 0),
            whole: Inspector::new(Arc::new(program), Arc::new(settings)),
        }
    }

    /// The first verdict, which is held against the whole inspection.
    fn check(&mut self, request: &Request) -> First {
        let headers = request.headers();
        let head = request.head(&headers);
        let first = self.first.judge(&head);
        if self.whole.request_headers(&head) == Decision::NeedBody {
            self.whole.request_body(&request.body, End::Last);
        }
        let receipt = self.whole.finish(head.time).receipt;
        let found = (receipt.verdict, receipt.scores.inbound, &*receipt.rules);
        let quiet = found == ("allow", 0, &[]);
        match first {
            First::Clean => {
                assert!(quiet, "{}: called clean: {found:?}: {request:?}", request.name)
            }
            First::Body => assert!(!request.body.is_empty(), "no body: {request:?}"),
            // Not the law, but what it is for: what has no body and nothing is found in is clean.
            First::Suspect if !quiet || !request.body.is_empty() => {}
            First::Suspect => panic!("not called clean: {request:?}"),
        }
        first
    }
}

fn crs() -> PathBuf {
    let fetched = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../.fetched/crs-4.25.0");
    std::env::var_os("GLACIS_CRS_DIR").map_or(fetched, PathBuf::from)
}

/// The requests of the regression tests, read as far as a request is concerned.
fn attacks() -> Vec<Request> {
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

fn ordinary() -> Vec<Request> {
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
fn mixtures(requests: &[Request], count: usize) -> impl Iterator<Item = Request> {
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

#[test]
fn what_is_called_clean_scores_zero() {
    let (attacks, ordinary) = (attacks(), ordinary());
    assert!(attacks.len() > 3_000 && ordinary.len() > 100, "{} {}", attacks.len(), ordinary.len());
    let all: Vec<Request> = attacks.iter().chain(&ordinary).cloned().collect();
    for level in [1, 4] {
        let mut sides = Sides::new(&format!(
            "SecAction \"id:1,phase:1,pass,nolog,setvar:tx.blocking_paranoia_level={level}\""
        ));
        let mut clean = |requests: &mut dyn Iterator<Item = Request>| {
            let mut clean = [0usize; 3];
            for request in requests {
                clean[sides.check(&request) as usize] += 1;
            }
            clean
        };
        let ordinary = clean(&mut ordinary.iter().cloned());
        let attacks = clean(&mut attacks.iter().cloned());
        let mixtures = clean(&mut mixtures(&all, 6_000));
        println!("level {level}: ordinary {ordinary:?} attacks {attacks:?} mixtures {mixtures:?}");
        // It has to come everywhere, or the law would hold for want of anything to hold for.
        assert!(attacks[2] > 1_000 && mixtures[0] > 20 && mixtures[2] > 1_000);
        if level == 1 {
            assert_eq!(ordinary[2], 0, "ordinary requests are clean, or have a body");
        }
    }
}

/// What only the host of the whole inspection could answer is never clean.
#[test]
fn what_asks_elsewhere_is_suspect() {
    let request = Request { method: b"GET".to_vec(), path: b"/".to_vec(), ..Request::default() };
    let headers = request.headers();
    for (rules, expected) in [
        ("SecAction \"id:1,phase:1,pass,nolog\"", First::Clean),
        ("SecAction \"id:1,phase:1,pass,nolog,initcol:ip=%{REMOTE_ADDR}\"", First::Suspect),
        ("SecRule REMOTE_ADDR \"@geoLookup\" \"id:1,phase:1,pass,nolog\"", First::Suspect),
        ("SecRule REMOTE_ADDR \"@rbl bl.example\" \"id:1,phase:2,pass,nolog\"", First::Suspect),
        ("SecAction \"id:1,phase:1,pass,log\"", First::Suspect),
        ("SecAction \"id:1,phase:2,pass,nolog,setvar:tx.inbound_anomaly_score=1\"", First::Clean),
        ("SecAction \"id:1,phase:1,pass,nolog,ctl:ruleEngine=Off\"", First::Suspect),
        ("SecRuleEngine Off", First::Suspect),
        ("SecRule REQUEST_METHOD \"@streq GET\" \"id:1,phase:2,deny,nolog\"", First::Suspect),
    ] {
        let bundle = RuleBundle::of_text("rules", &format!("SecRuleEngine On\n{rules}"));
        let mut first = FirstVerdict::new(Arc::new(bundle.build().unwrap()), 0);
        assert_eq!(first.judge(&request.head(&headers)), expected, "{rules}");
    }
}

/// A head is bounded in bytes and in work: ext_proc is asked about what goes beyond.
#[test]
fn what_takes_too_long_is_suspect() {
    let clean = |path: Vec<u8>, rules: &str| {
        let request = Request { method: b"GET".to_vec(), path, ..Request::default() };
        let bundle = RuleBundle::of_text("rules", &format!("SecRuleEngine On\n{rules}"));
        let mut first = FirstVerdict::new(Arc::new(bundle.build().unwrap()), 0);
        first.judge(&request.head(&request.headers()))
    };
    let of_others = ":method".len() + "GET".len() + ":path".len();
    let longest = FIRST_VERDICT_HEAD_BYTES_MAX - of_others;
    assert_eq!(clean(vec![b'/'; longest], ""), First::Clean);
    assert_eq!(clean(vec![b'/'; longest + 1], ""), First::Suspect);
    // Each rule looks at 500 arguments.
    let rules = |count: u32| -> String {
        let rule = |id| format!("SecRule ARGS \"@contains %{{tx.a}}x\" \"id:{id},nolog,pass\"\n");
        (1..=count).map(rule).collect()
    };
    let many = [b"/?".to_vec(), b"a=b&".repeat(500)].concat();
    assert_eq!(clean(many.clone(), &rules(4)), First::Clean);
    assert_eq!(clean(many, &rules(200)), First::Suspect);
}
