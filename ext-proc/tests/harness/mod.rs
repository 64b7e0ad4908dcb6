//! A running service, scripts of messages for it, and answers in words.

#![allow(dead_code, unreachable_pub, reason = "each test crate uses a part")]

use core::{net::SocketAddr, time::Duration};
use std::{
    io::{Read as _, Write as _},
    path::Path,
    sync::Arc,
};

use envoy_types::pb::{
    envoy::{
        config::core::v3::{HeaderMap, HeaderValue},
        extensions::filters::http::ext_proc::v3::{
            ProcessingMode,
            processing_mode::{BodySendMode, HeaderSendMode},
        },
        service::ext_proc::v3::{
            HttpBody, HttpHeaders, HttpTrailers, ImmediateResponse, ProcessingRequest,
            ProcessingResponse, ProtocolConfiguration, body_mutation::Mutation,
            external_processor_client::ExternalProcessorClient, processing_request::Request,
            processing_response::Response,
        },
    },
    google::protobuf::{Struct, Value, value::Kind},
};
use glacis_ext_proc::{
    AuditLog, Document, Metrics, Processor, Tracer,
    config::Config,
    reload::Reading,
    ruleset::{Host, Rulesets},
};
use glacis_rules::RecordingSource;
use glacis_service::{
    Readiness, Server,
    admin::AdminPort,
    config::{Admin, Listen, parse},
    reload, telemetry,
};
use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// A script: each message and the answer to it, in words.
#[derive(Clone, Copy)]
pub struct Case<'a> {
    pub name: &'a str,
    /// YAML.
    pub config: &'a str,
    /// SecLang, before what `config` has in `directives`.
    pub rules: &'a str,
    /// A refusal is given by its beginning, every other answer as a whole; an empty one stands for none.
    pub steps: &'a [(Sent<'a>, &'a str)],
}

/// What Envoy sends.
#[derive(Clone)]
pub enum Sent<'a> {
    Request(Head<'a>),
    RequestBody(&'a str, bool),
    RequestTrailers(&'a [&'a str]),
    Response(u16, Vec<&'a str>),
    ResponseBody(&'a str, bool),
    ResponseTrailers(&'a [&'a str]),
    Nothing,
    End,
    /// Nothing at all: one more answer to the message before.
    More,
}

#[derive(Clone, Default)]
pub struct Head<'a> {
    method: &'a str,
    path: &'a str,
    headers: Vec<&'a str>,
    end_of_stream: bool,
    source: Option<&'a str>,
    protocol: Option<&'a str>,
    attributes: Vec<(&'a str, &'a str)>,
    modes: Option<(&'a str, &'a str)>,
    observed: bool,
}

impl<'a> Sent<'a> {
    fn request(method: &'a str, path: &'a str, headers: &[&'a str], end_of_stream: bool) -> Self {
        let headers = headers.to_vec();
        Self::Request(Head { method, path, headers, end_of_stream, ..Head::default() })
    }

    pub fn get(path: &'a str, headers: &[&'a str]) -> Self {
        Self::request("GET", path, headers, true)
    }

    /// GET with something to follow.
    pub fn get_open(path: &'a str, headers: &[&'a str]) -> Self {
        Self::request("GET", path, headers, false)
    }

    pub fn post(path: &'a str, headers: &[&'a str]) -> Self {
        Self::request("POST", path, headers, false)
    }

    pub fn connect(headers: &[&'a str]) -> Self {
        Self::request("CONNECT", "example.org:443", headers, false)
    }

    pub fn body(text: &'a str, end: bool) -> Self {
        Self::RequestBody(text, end)
    }

    pub fn response(status: u16, headers: &[&'a str]) -> Self {
        Self::Response(status, headers.to_vec())
    }

    pub fn response_body(text: &'a str, end: bool) -> Self {
        Self::ResponseBody(text, end)
    }

    fn with(mut self, change: impl FnOnce(&mut Head<'a>)) -> Self {
        if let Self::Request(head) = &mut self {
            change(head);
        }
        self
    }

    pub fn attribute(self, name: &'a str, value: &'a str) -> Self {
        self.with(|head| head.attributes.push((name, value)))
    }

    pub fn source(self, address: &'a str) -> Self {
        self.with(|head| head.source = Some(address))
    }

    pub fn protocol(self, protocol: &'a str) -> Self {
        self.with(|head| head.protocol = Some(protocol))
    }

    pub fn modes(self, request: &'a str, response: &'a str) -> Self {
        self.with(|head| head.modes = Some((request, response)))
    }

    pub fn observed(self) -> Self {
        self.with(|head| head.observed = true)
    }

    pub fn message(&self) -> ProcessingRequest {
        let mut sent = ProcessingRequest::default();
        sent.request = Some(match self {
            Self::Nothing | Self::End | Self::More => return sent,
            Self::Request(head) => {
                sent.observability_mode = head.observed;
                sent.protocol_config =
                    head.modes.map(|(request, response)| ProtocolConfiguration {
                        request_body_mode: BodySendMode::from_str_name(request).unwrap() as i32,
                        response_body_mode: BodySendMode::from_str_name(response).unwrap() as i32,
                        send_body_without_waiting_for_header_response: false,
                    });
                let attributes =
                    [("source.address", head.source), ("request.protocol", head.protocol)];
                let attributes =
                    attributes.into_iter().filter_map(|(name, value)| Some((name, value?)));
                let attributes = attributes.chain(head.attributes.iter().copied());
                let fields = attributes.map(|(name, value)| {
                    let kind = Some(Kind::StringValue(value.to_owned()));
                    (name.to_owned(), Value { kind })
                });
                let group = Struct { fields: fields.collect() };
                sent.attributes = [("envoy.filters.http.ext_proc".to_owned(), group)].into();
                let pseudo = [
                    format!(":method: {}", head.method),
                    format!(":path: {}", head.path),
                    ":authority: example.org".to_owned(),
                    ":scheme: http".to_owned(),
                    "x-request-id: request-1".to_owned(),
                ];
                let headers = pseudo.iter().map(String::as_str).chain(head.headers.iter().copied());
                Request::RequestHeaders(http_headers(headers, head.end_of_stream))
            }
            Self::RequestBody(text, end) => Request::RequestBody(http_body(text, *end)),
            Self::RequestTrailers(fields) => Request::RequestTrailers(http_trailers(fields)),
            Self::Response(status, headers) => {
                let status = format!(":status: {status}");
                let headers = [status.as_str()].into_iter().chain(headers.iter().copied());
                Request::ResponseHeaders(http_headers(headers, false))
            }
            Self::ResponseBody(text, end) => Request::ResponseBody(http_body(text, *end)),
            Self::ResponseTrailers(fields) => Request::ResponseTrailers(http_trailers(fields)),
        });
        sent
    }
}

/// Headers as Envoy sends them. A NUL stands for the byte 0xff, which text cannot have.
fn http_headers<'a>(lines: impl Iterator<Item = &'a str>, end_of_stream: bool) -> HttpHeaders {
    let header = |line: &str| {
        let (name, value) = line.rsplit_once(": ").unwrap();
        let bytes = value.bytes().map(|byte| if byte == 0 { 0xff } else { byte });
        HeaderValue { key: name.to_owned(), value: String::new(), raw_value: bytes.collect() }
    };
    let headers = Some(HeaderMap { headers: lines.map(header).collect() });
    HttpHeaders { headers, end_of_stream, ..HttpHeaders::default() }
}

fn http_trailers(fields: &[&str]) -> HttpTrailers {
    HttpTrailers { trailers: http_headers(fields.iter().copied(), false).headers }
}

fn http_body(text: &str, end_of_stream: bool) -> HttpBody {
    HttpBody { body: text.as_bytes().to_vec(), end_of_stream, ..HttpBody::default() }
}

/// 2026-11-21, for exclusions.
pub const NOW: Duration = Duration::from_secs(1_795_219_200);

/// A service that runs in this process, on ports of its own.
pub struct Service {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    pub end: Option<oneshot::Sender<()>>,
    pub served: tokio::task::JoinHandle<()>,
}

impl Service {
    pub async fn start(config: &str, rules: &str) -> Self {
        let mut config: Config = parse(config).unwrap();
        config.directives = format!("{rules}\n{}", config.directives);
        let host = Host::new(&config).unwrap();
        let rulesets = Rulesets::build(&config, &host, &RecordingSource::new(), NOW);
        let rulesets = rulesets.map_err(|errors| errors.to_string()).unwrap();
        Self::serve(config, rulesets, &host, Document::default(), |_, _| {}).await
    }

    /// A service that reads the file `path`, and reads it anew soon after it has changed.
    pub async fn start_file(path: &Path) -> Self {
        let Reading { config, rulesets, host, record, document } = Reading::first(path).unwrap();
        let kept = host.clone();
        Self::serve(config, rulesets, &kept, document, |processor, config| {
            let reloader = processor.reloader(path, config.clone(), host, record);
            reload::watch("configuration", reloader, Some(Duration::from_millis(50))).unwrap();
        })
        .await
    }

    async fn serve(
        mut config: Config,
        rulesets: Rulesets,
        host: &Host,
        document: Document,
        before: impl FnOnce(&Processor, &Config),
    ) -> Self {
        config.audit.stdout = false;
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let (listen, admin): (Listen, Admin) =
            (Listen { tcp: any, ..Listen::default() }, Admin { address: any, ..Admin::default() });
        let server = Server::bind(&listen, &admin).await.unwrap();
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, &config.metrics);
        host.register(&mut registry, &metrics.stores);
        let audit = AuditLog::start(&config, &metrics.losses).unwrap();
        let tracer = Tracer::start(&config, &metrics.losses).unwrap();
        let processor = Processor::new(&config, rulesets, metrics, audit, tracer).unwrap();
        let readiness = Readiness::new();
        processor.look_after(&config, &readiness);
        before(&processor, &config);
        let log_level = telemetry::init(tracing::Level::ERROR);
        let handler = Arc::new(processor.admin(document, &readiness));
        let registry = Arc::new(registry);
        handler.watch(&registry);
        let port = AdminPort { registry, log_level, handler };
        let routes = processor.routes();
        let (end, ended) = oneshot::channel::<()>();
        let (address, admin) = (server.tcp_address().unwrap(), server.admin_address().unwrap());
        let drain = config.drain();
        let served = tokio::spawn(async move {
            let ended = async { drop(ended.await) };
            let name = Processor::NAME;
            server.serve(routes, name, port, &readiness, drain, ended).await.unwrap();
        });
        Self { address, admin, end: Some(end), served }
    }

    /// What the gRPC health service says: 1 for serving, 2 for not.
    pub async fn health(&self) -> i32 {
        let mut health = HealthClient::new(self.channel().await);
        let request = HealthCheckRequest { service: Processor::NAME.to_owned() };
        health.check(request).await.unwrap().into_inner().status
    }

    pub async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }
}

/// One stream to a service.
pub struct Stream {
    pub messages: Option<mpsc::Sender<ProcessingRequest>>,
    pub answers: Streaming<ProcessingResponse>,
}

impl Stream {
    pub async fn open(channel: Channel) -> Result<Self, Status> {
        Self::open_with(channel, None).await
    }

    /// A stream of a route that names a profile.
    pub async fn open_with(channel: Channel, profile: Option<&str>) -> Result<Self, Status> {
        let profile: Vec<_> =
            profile.map(|profile| ("glacis-profile", profile)).into_iter().collect();
        Self::open_as(channel, &profile).await
    }

    /// A stream that begins with this metadata.
    pub async fn open_as(
        channel: Channel,
        metadata: &[(&'static str, &str)],
    ) -> Result<Self, Status> {
        let (messages, sent) = mpsc::channel(8);
        let mut client = ExternalProcessorClient::new(channel);
        let mut request = tonic::Request::new(ReceiverStream::new(sent));
        for (key, value) in metadata {
            request.metadata_mut().insert(*key, value.parse().unwrap());
        }
        let answers = client.process(request).await?.into_inner();
        Ok(Self { messages: Some(messages), answers })
    }

    pub async fn send(&mut self, sent: &Sent<'_>) {
        match sent {
            Sent::End => self.messages = None,
            Sent::More => {}
            _ => self.messages.as_ref().unwrap().send(sent.message()).await.unwrap(),
        }
    }

    pub async fn answer(&mut self) -> String {
        let answer = self.answers.message();
        match tokio::time::timeout(Duration::from_secs(10), answer).await {
            Ok(Ok(Some(answer))) => words(&answer),
            Ok(Ok(None)) => "end".to_owned(),
            Ok(Err(status)) => format!("error {:?}", status.code()),
            Err(_) => "no answer".to_owned(),
        }
    }
}

/// Runs a script.
pub async fn check(case: &Case<'_>) {
    let service = Service::start(case.config, case.rules).await;
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    for (position, (sent, expected)) in case.steps.iter().enumerate() {
        stream.send(sent).await;
        if expected.is_empty() {
            continue;
        }
        let answer = stream.answer().await;
        let matches = if expected.starts_with("immediate") {
            answer.starts_with(expected)
        } else {
            answer == *expected
        };
        assert!(matches, "{}, step {position}:\n got {answer}\nnot {expected}", case.name);
    }
}

/// An answer in words: its kind, verdict and what was inspected, and what else is not as usual.
pub fn words(answer: &ProcessingResponse) -> String {
    let mut words = match answer.response.as_ref().unwrap() {
        Response::RequestHeaders(_) => "request_headers".to_owned(),
        Response::ResponseHeaders(_) => "response_headers".to_owned(),
        Response::RequestBody(_) => "request_body".to_owned(),
        Response::ResponseBody(_) => "response_body".to_owned(),
        Response::RequestTrailers(_) => "request_trailers".to_owned(),
        Response::ResponseTrailers(_) => "response_trailers".to_owned(),
        Response::ImmediateResponse(reply) => {
            format!("immediate {} {}", reply.status.unwrap().code, reply.details)
        }
        Response::StreamedImmediateResponse(_) => "streamed_immediate".to_owned(),
    };
    if let Some(words) = given_back(answer, &words) {
        return words;
    }
    let Some(metadata) = answer.dynamic_metadata.as_ref() else { return words + " none" };
    let Some(Kind::StructValue(receipt)) = &metadata.fields["glacis"].kind else { panic!() };
    let text = |name: &str| match receipt.fields.get(name).map(|value| value.kind.as_ref().unwrap())
    {
        Some(Kind::StringValue(text)) => text.clone(),
        Some(Kind::ListValue(list)) => {
            let texts = list.values.iter().map(|value| match &value.kind {
                Some(Kind::StringValue(text)) => text.as_str(),
                _ => panic!(),
            });
            texts.collect::<Vec<_>>().join(",")
        }
        _ => String::new(),
    };
    words += &format!(" {}/{}", text("verdict"), text("inspected"));
    let mode = text("mode").replace("blocking", "").replace("off", "");
    for (name, value) in [
        ("reason", text("reason")),
        ("uninspected", text("uninspected")),
        ("rules", text("rules")),
        ("mode", mode),
    ] {
        if !value.is_empty() {
            words += &format!(" {name}={value}");
        }
    }
    if let Some(mode) = &answer.mode_override {
        words += &override_words(mode);
    }
    match answer.response.as_ref().unwrap() {
        Response::RequestHeaders(headers) => {
            let mutation = headers.response.as_ref().unwrap().header_mutation.as_ref();
            assert_eq!(mutation, None, "headers belong to the filters before");
        }
        Response::RequestTrailers(trailers) => {
            if let Some(mutation) = &trailers.header_mutation {
                words += &format!(" remove={}", mutation.remove_headers.join(","));
            }
        }
        Response::ImmediateResponse(reply) => words += &reply_words(reply),
        _ => {}
    }
    words
}

/// A piece of a body that Envoy had given away.
fn given_back(answer: &ProcessingResponse, kind: &str) -> Option<String> {
    let (Response::RequestBody(body) | Response::ResponseBody(body)) = answer.response.as_ref()?
    else {
        return None;
    };
    let mutation = body.response.as_ref()?.body_mutation.as_ref()?.mutation.as_ref()?;
    let Mutation::StreamedResponse(piece) = mutation else { panic!("{mutation:?}") };
    let text = String::from_utf8(piece.body.clone()).unwrap();
    let end = if piece.end_of_stream { " end" } else { "" };
    Some(format!("{kind} back={text}{end}"))
}

fn override_words(mode: &ProcessingMode) -> String {
    let body = |mode: i32| BodySendMode::try_from(mode).unwrap().as_str_name();
    let header = |mode: i32| HeaderSendMode::try_from(mode).unwrap();
    let (request, response) = (body(mode.request_body_mode), body(mode.response_body_mode));
    let headers = header(mode.response_header_mode).as_str_name();
    let mut words = format!(" override={request},{headers},{response}");
    if header(mode.request_trailer_mode) == HeaderSendMode::Send {
        words += ",request_trailers";
    }
    if header(mode.response_trailer_mode) == HeaderSendMode::Send {
        words += ",response_trailers";
    }
    words
}

fn reply_words(reply: &ImmediateResponse) -> String {
    let body = String::from_utf8(reply.body.clone()).unwrap();
    let mut words = String::new();
    for option in &reply.headers.as_ref().unwrap().set_headers {
        let header = option.header.as_ref().unwrap();
        if header.key == "location" {
            words += &format!(" location={}", String::from_utf8_lossy(&header.raw_value));
        }
    }
    if body.starts_with('{') {
        assert!(body.contains("\"request_id\":\"request-1\""), "{body}");
    } else {
        words += &format!(" body={body}");
    }
    words
}

/// Status and body of an HTTP answer.
fn http(address: SocketAddr, method: &str, path: &str, body: Option<&str>) -> (u16, String) {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let body = body.map(|body| {
        format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    });
    let body = body.unwrap_or_else(|| "\r\n".to_owned());
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{body}")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

pub async fn get(address: SocketAddr, path: &'static str) -> (u16, String) {
    ask(address, "GET", path, None).await
}

/// Asks the admin port; a body is JSON.
pub async fn ask(
    address: SocketAddr,
    method: &'static str,
    path: &str,
    body: Option<&str>,
) -> (u16, String) {
    let (path, body) = (path.to_owned(), body.map(str::to_owned));
    let asked = move || http(address, method, &path, body.as_deref());
    tokio::task::spawn_blocking(asked).await.unwrap()
}

/// Waits until metrics have the line.
pub async fn counted(service: &Service, line: &str) {
    let mut text = String::new();
    for _ in 0..1_000 {
        text = get(service.admin, "/metrics").await.1;
        if text.lines().any(|found| found == line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("no {line} in\n{text}");
}

/// Asks until the answer is yes.
pub async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within ten seconds");
}
