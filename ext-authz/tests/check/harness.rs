//! A running service, and questions for it.

use core::{net::SocketAddr, time::Duration};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use envoy_types::pb::{
    envoy::{
        config::core::v3::{
            Address, HeaderMap, HeaderValue, Metadata, SocketAddress, address, socket_address,
        },
        extensions::common::ratelimit::v3::{RateLimitDescriptor, rate_limit_descriptor::Entry},
        service::auth::v3::{
            AttributeContext, CheckRequest, CheckResponse,
            attribute_context::{HttpRequest, Peer, Request},
            authorization_client::AuthorizationClient,
        },
        service::ratelimit::v3::{
            RateLimitRequest, RateLimitResponse, rate_limit_service_client::RateLimitServiceClient,
        },
    },
    google::protobuf::{ListValue, Struct, Value as WireValue, value::Kind},
};
use serde_json::Value;
use tonic::{Status, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// The service; killed when dropped.
pub(crate) struct Service {
    process: Child,
    pub(crate) folder: PathBuf,
    pub(crate) address: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) lists: Option<SocketAddr>,
}

/// Both on free ports.
const LISTEN: &str = "listen: {tcp: 127.0.0.1:0}\nadmin: {address: 127.0.0.1:0}\ndrain_notice_seconds: 0\ndrain_seconds: 1\n\
                      reload_seconds: 1\n";

/// The configuration, in the folder of a service.
pub(crate) const CONFIG: &str = "ext-authz.yaml";

impl Service {
    /// Starts it with this configuration, in a folder of its own with these files.
    pub(crate) fn start(config: &str, files: &[(&str, &str)]) -> Self {
        let folder = folder();
        for (name, text) in files {
            let file = folder.join(name);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        let path = folder.join(CONFIG);
        fs::write(&path, format!("{LISTEN}{config}")).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_glacis-ext-authz"))
            .arg("--config")
            .arg(&path)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut told = String::new();
        let serving = log.find_map(|line| {
            let line = line.unwrap();
            told += &line;
            let line: Value = serde_json::from_str(&line).ok()?;
            (line["message"] == "serving").then_some(line)
        });
        let serving = serving.unwrap_or_else(|| panic!("it did not start: {told}"));
        let of = |key: &str| serving[key].as_str().unwrap().parse().unwrap();
        let (address, admin) = (of("tcp"), of("admin"));
        let lists = serving["lists"].as_str().map(|address| address.parse().unwrap());
        // A pipe that nobody reads from would fill up.
        let rest = folder.join("log");
        thread::spawn(move || {
            let mut file = fs::File::create(rest).unwrap();
            log.map_while(Result::ok).for_each(|line| writeln!(file, "{line}").unwrap());
        });
        Self { process, folder, address, admin, lists }
    }

    /// Gives it another configuration, at once as far as a reader can see.
    pub(crate) fn configure(&self, config: &str) {
        let new = self.folder.join("new");
        fs::write(&new, format!("{LISTEN}{config}")).unwrap();
        fs::rename(&new, self.folder.join(CONFIG)).unwrap();
    }

    pub(crate) async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    pub(crate) async fn check(&self, asked: &Asked) -> Result<CheckResponse, Status> {
        let mut client = AuthorizationClient::new(self.channel().await);
        client.check(asked.message()).await.map(tonic::Response::into_inner)
    }

    /// The answer to a request of the rate limit protocol with one descriptor of one entry.
    pub(crate) async fn limit(&self, domain: &str, key: &str, value: &str) -> RateLimitResponse {
        let entry = Entry { key: key.to_owned(), value: value.to_owned() };
        let descriptors =
            vec![RateLimitDescriptor { entries: vec![entry], ..RateLimitDescriptor::default() }];
        let domain = domain.to_owned();
        let request = RateLimitRequest { domain, descriptors, hits_addend: 0 };
        let mut client = RateLimitServiceClient::new(self.channel().await);
        client.should_rate_limit(request).await.unwrap().into_inner()
    }

    /// What the gRPC health service says: 1 for serving, 2 for not.
    pub(crate) async fn health(&self) -> i32 {
        let mut health = HealthClient::new(self.channel().await);
        let service = "envoy.service.auth.v3.Authorization".to_owned();
        health.check(HealthCheckRequest { service }).await.unwrap().into_inner().status
    }

    /// Status and text of an answer of the admin port.
    pub(crate) fn get(&self, path: &str) -> (u16, String) {
        let (head, text) = get(self.admin, path, "");
        (head.split(' ').nth(1).unwrap().parse().unwrap(), text)
    }

    /// Status and text of the answer to a request to the admin port, whose body is JSON.
    pub(crate) fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), text.to_owned())
    }

    /// Head and text of an answer of the listener of lists.
    pub(crate) fn list(&self, name: &str, more: &str) -> (String, String) {
        get(self.lists.unwrap(), &format!("/lists/{name}"), more)
    }

    /// A sample of a metric.
    pub(crate) fn metric(&self, sample: &str) -> f64 {
        let text = self.get("/metrics").1;
        let value = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("no {sample} in {text}")).parse().unwrap()
    }

    /// Ends it as an operator does.
    pub(crate) fn terminate(mut self) -> ExitStatus {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").arg(&id).status().unwrap().success());
        self.process.wait().unwrap()
    }
}

/// Head and body of an answer; `more` are further header lines.
fn get(from: SocketAddr, path: &str, more: &str) -> (String, String) {
    let mut stream = TcpStream::connect(from).unwrap();
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{more}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_ascii_lowercase(), body.to_owned())
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A folder of its own for each service.
fn folder() -> PathBuf {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("ext-authz-{number}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// A request about which Envoy asks.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) http: HttpRequest,
    pub(crate) context: AttributeContext,
}

impl Asked {
    pub(crate) fn new(method: &str, path: &str, headers: &[(&str, &str)]) -> Self {
        let own = [
            (":method", method),
            (":path", path),
            (":authority", "shop.example"),
            (":scheme", "https"),
        ];
        let header = |(name, value): &(&str, &str)| HeaderValue {
            key: (*name).to_owned(),
            raw_value: value.as_bytes().to_vec(),
            ..HeaderValue::default()
        };
        let headers = own.iter().chain(headers).map(header).collect();
        let http = HttpRequest {
            id: "7".to_owned(),
            method: method.to_owned(),
            path: path.to_owned(),
            host: "shop.example".to_owned(),
            scheme: "https".to_owned(),
            protocol: "HTTP/1.1".to_owned(),
            header_map: Some(HeaderMap { headers }),
            ..HttpRequest::default()
        };
        Self { http, context: AttributeContext::default() }.from("192.0.2.1")
    }

    pub(crate) fn get(path: &str) -> Self {
        Self::new("GET", path, &[])
    }

    /// The client's address.
    pub(crate) fn from(mut self, address: &str) -> Self {
        let port = Some(socket_address::PortSpecifier::PortValue(4711));
        let socket = SocketAddress {
            address: address.to_owned(),
            port_specifier: port,
            ..SocketAddress::default()
        };
        let address = Some(Address { address: Some(address::Address::SocketAddress(socket)) });
        self.context.source = Some(Peer { address, ..Peer::default() });
        self
    }

    pub(crate) fn host(mut self, host: &str) -> Self {
        let headers = &mut self.http.header_map.as_mut().unwrap().headers;
        let authority = headers.iter_mut().find(|header| header.key == ":authority").unwrap();
        authority.raw_value = host.as_bytes().to_vec();
        self
    }

    /// With what Envoy's `jwt_authn` leaves of a token.
    pub(crate) fn claims(mut self, claims: Value) -> Self {
        let token = [("jwt_payload".to_owned(), wire(claims))].into();
        let filter = ("envoy.filters.http.jwt_authn".to_owned(), Struct { fields: token });
        let metadata = Metadata { filter_metadata: [filter].into(), ..Metadata::default() };
        self.context.metadata_context = Some(metadata);
        self
    }

    /// The profile that a route names.
    pub(crate) fn profile(mut self, name: &str) -> Self {
        self.context.context_extensions.insert("glacis.profile".to_owned(), name.to_owned());
        self
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        self.http.raw_body = body.as_bytes().to_vec();
        self
    }

    /// As Envoy sends it without `pack_as_bytes`.
    pub(crate) fn text_body(mut self) -> Self {
        self.http.body = String::from_utf8(std::mem::take(&mut self.http.raw_body)).unwrap();
        self
    }

    /// As Envoy sends it without `encode_raw_headers`.
    pub(crate) fn joined(mut self) -> Self {
        let headers = self.http.header_map.take().unwrap_or_default().headers.into_iter();
        let text = |header: HeaderValue| (header.key, String::from_utf8(header.raw_value).unwrap());
        self.http.headers = headers.map(text).collect();
        self
    }

    pub(crate) fn message(&self) -> CheckRequest {
        let request = Request { http: Some(self.http.clone()), ..Request::default() };
        let attributes = AttributeContext { request: Some(request), ..self.context.clone() };
        CheckRequest { attributes: Some(attributes) }
    }
}

/// JSON as protobuf has it.
fn wire(value: Value) -> WireValue {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(truth) => Kind::BoolValue(truth),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap()),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(items) => {
            Kind::ListValue(ListValue { values: items.into_iter().map(wire).collect() })
        }
        Value::Object(fields) => Kind::StructValue(Struct {
            fields: fields.into_iter().map(|(name, value)| (name, wire(value))).collect(),
        }),
    };
    WireValue { kind: Some(kind) }
}

/// Family → type and labels, as the reference says.
pub(crate) fn documented(reference: &str) -> BTreeMap<String, String> {
    let rows = reference.lines().filter_map(|line| line.strip_prefix("| `"));
    let families = rows.map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        (cells[0].trim_end_matches('`').trim_end_matches("_total").to_owned(), cells[1].to_owned())
    });
    families.collect()
}

/// The same as a scrape says.
pub(crate) fn scraped(text: &str) -> BTreeMap<String, String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    types
        .map(|line| line.split_once(' ').unwrap())
        .map(|(name, kind)| (name.to_owned(), kind.to_owned()))
        .collect()
}

/// Waits until it holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(20));
    }
    panic!("not within ten seconds: {what}");
}
