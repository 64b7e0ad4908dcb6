//! Plays a case: builds its rules, and feeds its request and response to the engine as a host does.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use glacis_engine::{
    CollectionStore, Endpoint, Geo, Input, Limits, Lookup, MemoryStore, Program, Source,
    SourceError, SourceFile, Start, Transaction, Verdict,
};
use glacis_rules::FileSource;

use super::case::{Data, Peer};
use super::log::{Logs, PROBES, Sources};

/// What became of a case.
#[derive(Debug, Default)]
pub struct Seen {
    /// Why the rules were rejected.
    pub rejected: Option<String>,
    /// The status that the client gets.
    pub status: u16,
    /// Where it is redirected to.
    pub location: Option<String>,
    /// What was logged.
    pub logs: Logs,
}

/// Without a directive ModSecurity 3 evaluates rules without blocking, and reads bodies; its manual has Off as the
/// default for all three, as here.
const DEFAULTS: &str =
    "SecRuleEngine DetectionOnly\nSecRequestBodyAccess On\nSecResponseBodyAccess On\n";

/// The clients whose places the suite knows.
const US: &str = "64.17.254.216";
const BR: &str = "200.249.12.31";

/// Files below the suite's folder, from which ModSecurity's runner is started.
struct SuiteFiles<'f>(&'f Path);

impl SuiteFiles<'_> {
    fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
}

impl Source for SuiteFiles<'_> {
    fn read(&self, path: &str, from: &str) -> Result<SourceFile, SourceError> {
        let beside = Path::new(from).parent().unwrap_or_else(|| Path::new("")).join(path);
        let files = FileSource::new();
        let read =
            |path: &Path| files.read(&self.path(&path.to_string_lossy()).to_string_lossy(), "");
        let file = read(Path::new(path)).or_else(|_| read(&beside))?;
        let name = file.name.strip_prefix(&*self.0.to_string_lossy()).unwrap_or(&file.name);
        Ok(SourceFile { name: name.trim_start_matches('/').to_owned(), bytes: file.bytes })
    }

    fn list(&self, pattern: &str, from: &str) -> Result<Vec<String>, SourceError> {
        let list = |path: &Path| FileSource::new().list(&self.0.join(path).to_string_lossy(), "");
        let mut found = list(Path::new(pattern))?;
        if found.is_empty() {
            found = list(&Path::new(from).parent().unwrap_or_else(|| Path::new("")).join(pattern))?;
        }
        let top = format!("{}/", self.0.display());
        Ok(found.iter().map(|path| path.strip_prefix(&top).unwrap_or(path).to_owned()).collect())
    }
}

/// The host's answers about places: what the suite expects of its databases, which a host of ours does not read.
#[derive(Debug)]
struct Places;

impl Lookup for Places {
    fn geo(&self, address: IpAddr) -> Option<Geo> {
        let text = str::to_owned;
        match address.to_string().as_str() {
            US => Some(Geo {
                country_code: text("US"),
                country_code3: text("USA"),
                country_continent: text("NA"),
                region: text("California"),
                city: text("El Segundo"),
                postal_code: text("90245"),
                latitude: text("33.916401"),
                longitude: text("-118.403999"),
                dma_code: text("803"),
                area_code: text("310"),
                ..Geo::default()
            }),
            BR => Some(Geo {
                country_code: text("BR"),
                country_name: text("Brazil"),
                country_continent: text("South America"),
                city: text("Recife"),
                postal_code: text("50040090"),
                latitude: text("-8.051502"),
                ..Geo::default()
            }),
            _ => None,
        }
    }

    fn rbl(&self, _: &str) -> Option<bool> {
        None
    }
}

/// Plays a case of the suite in `folder`.
#[must_use]
pub fn play(file: &str, data: &Data, folder: &Path) -> Seen {
    let files = SuiteFiles(folder);
    let rules = Input::Text { name: file.to_owned(), text: data.rules.0.clone() };
    let defaults = Input::Text { name: "defaults".to_owned(), text: DEFAULTS.to_owned() };
    let probes = Input::Text { name: "probes".to_owned(), text: PROBES.to_owned() };
    let limits =
        || Limits { trace_steps_max: 1 << 17, trace_bytes_max: 1 << 26, ..Limits::default() };
    let build = |inputs: &[Input]| Program::build(inputs, &files, limits());
    // Probes must not be what makes rules valid, or invalid.
    let program =
        build(core::slice::from_ref(&rules)).and_then(|_| build(&[defaults, rules, probes]));
    let program = match program {
        Ok(program) => program.without_gates(),
        Err(errors) => return Seen { rejected: Some(errors.to_string()), ..Seen::default() },
    };
    let program = Arc::new(program);
    let store: Arc<dyn CollectionStore> =
        Arc::new(MemoryStore::new(16, program.limits().collections()));
    let transaction = Transaction::new(program).with_collections(store).with_misses();
    let mut transaction = transaction.with_lookup(Arc::new(Places));
    let status = feed(&mut transaction, data);
    let location = match transaction.verdict() {
        Verdict::Redirect { location, .. } => Some(location.clone()),
        _ => None,
    };
    let sources = Sources::new(file, &data.rules.0, folder);
    let logs = Logs::of(&transaction, &sources, &data.request.uri, status);
    Seen { rejected: None, status, location, logs }
}

/// As the host that is ModSecurity's runner does it; returns the status that the client gets.
fn feed(transaction: &mut Transaction, data: &Data) -> u16 {
    let endpoint = |peer: &Peer| Endpoint {
        address: peer.ip.parse().unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        port: peer.port,
    };
    let time = Duration::from_secs(1_700_000_000);
    transaction.start(&Start {
        unique_id: "170000000012.345678",
        time,
        client: endpoint(&data.client),
        server: endpoint(&data.server),
    });
    // Its own environment is what ModSecurity shows as ENV.
    transaction.environment(b"PATH", b"/usr/bin");
    transaction.environment(b"MODSECURITY", b"ModSecurity 3.0 regression tests");
    let version = data.request.http_version.as_ref().map_or(String::new(), ToString::to_string);
    let (method, uri) = (data.request.method.as_bytes(), data.request.uri.as_bytes());
    transaction.request_line(method, uri, format!("HTTP/{version}").as_bytes());
    for (name, value) in &data.request.headers.0 {
        transaction.request_header(name.as_bytes(), value.as_bytes());
    }
    transaction.evaluate_request_headers();
    if transaction.wants_request_body() {
        transaction.request_body(data.request.body.0.as_bytes());
    }
    transaction.evaluate_request_body();
    let refused =
        |transaction: &Transaction| transaction.verdict().refusal().map(|refusal| refusal.status);
    let protocol = data.response.protocol.as_deref().unwrap_or("HTTP/1.1");
    transaction.response_line(refused(transaction).unwrap_or(200), protocol.as_bytes());
    for (name, value) in &data.response.headers.0 {
        transaction.response_header(name.as_bytes(), value.as_bytes());
    }
    transaction.evaluate_response_headers();
    if transaction.wants_response_body() {
        transaction.response_body(data.response.body.0.as_bytes());
    }
    transaction.evaluate_response_body();
    transaction.finish(time + Duration::from_millis(1));
    refused(transaction).unwrap_or(200)
}
