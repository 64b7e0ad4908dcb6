//! Audit records and spans at a collector: the server side of OTLP as OpenTelemetry's own crate has it. And
//! records that nobody takes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use core::{net::SocketAddr, time::Duration};
use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use harness::{Sent, Service, Stream, counted, eventually};
use opentelemetry_proto::tonic::{
    collector::{
        logs::v1::{
            ExportLogsPartialSuccess, ExportLogsServiceRequest, ExportLogsServiceResponse,
            logs_service_server::{LogsService, LogsServiceServer},
        },
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    common::v1::{AnyValue, KeyValue, any_value::Value},
    logs::v1::{LogRecord, ResourceLogs},
    trace::v1::{Span, span::SpanKind},
};
use rcgen::{CertificateParams, KeyPair};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Request, Response, Status,
    transport::{Certificate, Identity, Server, ServerTlsConfig},
};

/// What a collector answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Takes,
    TakesAllBut(i64),
    /// It is told so once, and takes what comes again.
    BusyOnce,
    Refuses,
}

#[derive(Clone)]
struct Collector(Arc<Mutex<Seen>>);

struct Seen {
    manner: Manner,
    logs: Vec<ResourceLogs>,
    spans: Vec<Span>,
    service: String,
}

impl Collector {
    async fn start(manner: Manner) -> (Self, SocketAddr) {
        Self::start_on(Server::builder(), manner).await
    }

    async fn start_on(mut server: Server, manner: Manner) -> (Self, SocketAddr) {
        let seen = Seen { manner, logs: Vec::new(), spans: Vec::new(), service: String::new() };
        let collector = Self(Arc::new(Mutex::new(seen)));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = server
            .add_service(LogsServiceServer::new(collector.clone()))
            .add_service(TraceServiceServer::new(collector.clone()));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        (collector, address)
    }

    fn manner(&self) -> Result<i64, Status> {
        let mut seen = self.0.lock().unwrap();
        match seen.manner {
            Manner::Takes => Ok(0),
            Manner::TakesAllBut(rejected) => Ok(rejected),
            Manner::BusyOnce => {
                seen.manner = Manner::Takes;
                Err(Status::unavailable("busy"))
            }
            Manner::Refuses => Err(Status::permission_denied("not you")),
        }
    }

    fn logs(&self) -> Vec<LogRecord> {
        let seen = self.0.lock().unwrap();
        let scopes = seen.logs.iter().flat_map(|logs| &logs.scope_logs);
        scopes.flat_map(|scope| scope.log_records.clone()).collect()
    }

    fn spans(&self) -> Vec<Span> {
        self.0.lock().unwrap().spans.clone()
    }
}

#[tonic::async_trait]
impl LogsService for Collector {
    async fn export(
        &self,
        request: Request<ExportLogsServiceRequest>,
    ) -> Result<Response<ExportLogsServiceResponse>, Status> {
        let rejected_log_records = self.manner()?;
        self.0.lock().unwrap().logs.extend(request.into_inner().resource_logs);
        let error_message = "some".to_owned();
        let partial = ExportLogsPartialSuccess { rejected_log_records, error_message };
        let partial_success = (rejected_log_records > 0).then_some(partial);
        Ok(Response::new(ExportLogsServiceResponse { partial_success }))
    }
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut seen = self.0.lock().unwrap();
        for resource in request.into_inner().resource_spans {
            seen.service = text(&resource.resource.unwrap().attributes, "service.name");
            seen.spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// An attribute, in words.
fn text(attributes: &[KeyValue], key: &str) -> String {
    let words = |value: &AnyValue| match value.value.as_ref().unwrap() {
        Value::StringValue(text) => text.clone(),
        Value::IntValue(number) => number.to_string(),
        Value::ArrayValue(list) => {
            let numbers = list.values.iter().map(|value| match value.value {
                Some(Value::IntValue(number)) => number.to_string(),
                _ => panic!("{value:?}"),
            });
            numbers.collect::<Vec<_>>().join(",")
        }
        other => panic!("{other:?}"),
    };
    let found = attributes.iter().find(|attribute| attribute.key == key);
    found.map_or_else(String::new, |attribute| words(attribute.value.as_ref().unwrap()))
}

const RULES: &str = "SecAuditEngine RelevantOnly\n\
    SecRule REQUEST_HEADERS:x-look \"@streq 1\" \"id:7,phase:1,pass,log\"\n\
    SecRule ARGS \"@contains attack\" \"id:8,phase:2,deny,log\"\n";

async fn send(service: &Service, metadata: &[(&'static str, &str)], path: &str, headers: &[&str]) {
    let channel = service.channel().await;
    let mut stream = Stream::open_as(channel, metadata).await.unwrap();
    stream.send(&Sent::get(path, headers)).await;
    stream.answer().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_records_arrive_as_log_records() {
    let (collector, address) = Collector::start(Manner::BusyOnce).await;
    let config = format!(
        "audit: {{otlp: true}}\notlp: {{endpoint: \"http://{address}\", service_name: edge}}\n"
    );
    let service = Service::start(&config, RULES).await;
    send(&service, &[], "/?q=attack", &[]).await;
    send(&service, &[], "/?q=fine", &["x-look: 1"]).await;
    send(&service, &[], "/?q=fine", &[]).await;
    eventually(async || collector.logs().len() == 2).await;
    let logs = collector.logs();
    for (log, verdict, severity) in [(&logs[0], "deny", 13), (&logs[1], "allow", 9)] {
        let Some(Value::StringValue(body)) = log.body.as_ref().and_then(|body| body.value.as_ref())
        else {
            panic!("{log:?}")
        };
        assert!(body.contains(&format!("\"action\":\"{verdict}\"")), "{body}");
        assert_eq!(log.event_name, "glacis.audit");
        assert_eq!(log.severity_number, severity);
        assert_eq!(text(&log.attributes, "glacis.verdict"), verdict);
        assert_eq!(text(&log.attributes, "glacis.profile"), "default");
        assert_eq!(text(&log.attributes, "glacis.request_id"), "request-1");
        assert!(log.time_unix_nano > 1_700_000_000_000_000_000 && log.trace_id.is_empty());
    }
    let resource = collector.0.lock().unwrap().logs[0].resource.clone().unwrap();
    assert_eq!(text(&resource.attributes, "service.name"), "edge");
    counted(&service, "glacis_records_lost_total{sink=\"otlp_logs\",reason=\"export\"} 0").await;
}

/// `/dev/full` is a disk that is always full.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_counted() {
    let service = Service::start("audit: {file: /dev/full}\n", RULES).await;
    for _ in 0..3 {
        let mut stream = Stream::open(service.channel().await).await.unwrap();
        stream.send(&Sent::get("/?q=attack", &[])).await;
        assert!(stream.answer().await.starts_with("immediate 403"));
    }
    counted(&service, "glacis_records_lost_total{sink=\"file\",reason=\"write\"} 3").await;
    counted(&service, "glacis_records_lost_total{sink=\"file\",reason=\"queue\"} 0").await;
}

/// What a collector does not take is counted; requests are answered all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_taken_is_counted() {
    for (manner, lost) in [(Some(Manner::Refuses), 1), (Some(Manner::TakesAllBut(1)), 1), (None, 1)]
    {
        let address = match manner {
            Some(manner) => Collector::start(manner).await.1,
            // Nobody listens there.
            None => SocketAddr::from(([127, 0, 0, 1], 1)),
        };
        let config = format!("audit: {{otlp: true}}\notlp: {{endpoint: \"http://{address}\"}}\n");
        let service = Service::start(&config, RULES).await;
        send(&service, &[], "/?q=attack", &[]).await;
        let line = "glacis_records_lost_total{sink=\"otlp_logs\",reason=\"export\"}";
        counted(&service, &format!("{line} {lost}")).await;
    }
}

/// A certificate for this machine and its key, signed by itself, in PEM.
fn certificate() -> (String, String) {
    let pem = |label: &str, der: &[u8]| {
        let text = STANDARD.encode(der);
        format!("-----BEGIN {label}-----\n{text}\n-----END {label}-----\n")
    };
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &key.serialize_der()))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_behind_tls() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("collector-tls");
    fs::create_dir_all(&folder).unwrap();
    let put = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let (ours, our_key) = certificate();
    let (theirs, their_key) = certificate();
    let tls = ServerTlsConfig::new()
        .identity(Identity::from_pem(&theirs, &their_key))
        .client_ca_root(Certificate::from_pem(&ours));
    let (ours, our_key) = (put("ours.crt", &ours), put("ours.key", &our_key));
    let theirs = put("theirs.crt", &theirs);
    let shown = format!("certificate: {ours}, key: {our_key}");
    for (name, keys, taken) in [
        ("both know each other", format!("ca: {theirs}, {shown}"), true),
        ("it shows nothing", format!("ca: {theirs}"), false),
        ("it trusts another one", format!("ca: {ours}, {shown}"), false),
    ] {
        let server = Server::builder().tls_config(tls.clone()).unwrap();
        let (collector, address) = Collector::start_on(server, Manner::Takes).await;
        let config =
            format!("audit: {{otlp: true}}\notlp: {{endpoint: \"https://{address}\", {keys}}}\n");
        let service = Service::start(&config, RULES).await;
        send(&service, &[], "/?q=attack", &[]).await;
        let line = "glacis_records_lost_total{sink=\"otlp_logs\",reason=\"export\"}";
        if taken {
            eventually(async || collector.logs().len() == 1).await;
        } else {
            counted(&service, &format!("{line} 1")).await;
        }
        assert_eq!(collector.logs().len(), usize::from(taken), "{name}");
    }
}

const STREAM: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const HEADER: &str = "00-11111111111111111111111111111111-2222222222222222-01";
const UNSAMPLED: &str = "00-33333333333333333333333333333333-4444444444444444-00";

/// A request, and the trace and parent of its span; `new` for a trace of its own.
struct Case {
    name: &'static str,
    stream: Option<&'static str>,
    header: Option<&'static str>,
    sample_percent: u8,
    expected: Option<(&'static str, &'static str)>,
}

const CASES: &[Case] = &[
    Case {
        name: "Envoy's span, before the client's",
        stream: Some(STREAM),
        header: Some(HEADER),
        sample_percent: 0,
        expected: Some(("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")),
    },
    Case {
        name: "the client's",
        stream: None,
        header: Some(HEADER),
        sample_percent: 0,
        expected: Some(("11111111111111111111111111111111", "2222222222222222")),
    },
    Case {
        name: "Envoy does not sample it",
        stream: Some(UNSAMPLED),
        header: Some(HEADER),
        sample_percent: 100,
        expected: None,
    },
    Case { name: "none", stream: None, header: None, sample_percent: 0, expected: None },
    Case {
        name: "none, but sampled here",
        stream: None,
        header: None,
        sample_percent: 100,
        expected: Some(("new", "")),
    },
];

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn spans() {
    for case in CASES {
        let (collector, address) = Collector::start(Manner::Takes).await;
        let config = format!(
            "traces: {{enabled: true, sample_percent: {}}}\naudit: {{otlp: true}}\n\
             otlp: {{endpoint: \"http://{address}\"}}\n",
            case.sample_percent
        );
        let service = Service::start(&config, RULES).await;
        let stream: Vec<_> =
            case.stream.map(|parent| ("traceparent", parent)).into_iter().collect();
        let header = case.header.map(|parent| format!("traceparent: {parent}"));
        let mut headers: Vec<_> = header.iter().map(String::as_str).collect();
        headers.push("x-look: 1");
        send(&service, &stream, "/?q=attack", &headers).await;
        // The record goes to the same collector, sampled or not.
        eventually(async || collector.logs().len() == 1).await;
        let log = &collector.logs()[0];
        let Some((trace, parent)) = case.expected else {
            tokio::time::sleep(Duration::from_millis(1_200)).await;
            assert_eq!(collector.spans(), [], "{}", case.name);
            assert!(log.trace_id.is_empty());
            continue;
        };
        eventually(async || collector.spans().len() == 2).await;
        let spans = collector.spans();
        let (whole, phase) = (&spans[0], &spans[1]);
        assert_eq!(whole.kind(), SpanKind::Server);
        if trace == "new" {
            assert!(whole.trace_id.len() == 16 && whole.trace_id != [0; 16]);
        } else {
            assert_eq!(hex(&whole.trace_id), trace, "{}", case.name);
        }
        assert_eq!(hex(&whole.parent_span_id), parent, "{}", case.name);
        for (key, value) in [
            ("glacis.profile", "default"),
            ("glacis.verdict", "deny"),
            ("glacis.rules", "7,8"),
            ("glacis.score.inbound", "0"),
            ("glacis.request_id", "request-1"),
        ] {
            assert_eq!(text(&whole.attributes, key), value, "{}", case.name);
        }
        assert_eq!(
            (phase.name.as_str(), phase.kind()),
            ("glacis request_headers", SpanKind::Internal)
        );
        assert_eq!((&phase.trace_id, &phase.parent_span_id), (&whole.trace_id, &whole.span_id));
        assert_eq!(text(&phase.attributes, "glacis.rules"), "7,8");
        assert!(whole.start_time_unix_nano <= phase.start_time_unix_nano);
        assert!(phase.start_time_unix_nano <= phase.end_time_unix_nano);
        assert!(phase.end_time_unix_nano <= whole.end_time_unix_nano);
        assert_eq!((&log.trace_id, &log.span_id), (&whole.trace_id, &whole.span_id));
        assert_eq!(collector.0.lock().unwrap().service, "glacis-ext-proc");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_are_named_where_they_matched() {
    let (collector, address) = Collector::start(Manner::Takes).await;
    let config = format!("traces: {{enabled: true}}\notlp: {{endpoint: \"http://{address}\"}}\n");
    let service = Service::start(&config, RULES).await;
    let channel = service.channel().await;
    let mut stream = Stream::open_as(channel, &[("traceparent", STREAM)]).await.unwrap();
    let form = "content-type: application/x-www-form-urlencoded";
    stream.send(&Sent::post("/", &["x-look: 1", form])).await;
    stream.answer().await;
    stream.send(&Sent::body("q=attack", true)).await;
    stream.answer().await;
    drop(stream);
    eventually(async || collector.spans().len() == 3).await;
    let spans = collector.spans();
    let rules: Vec<_> = spans
        .iter()
        .map(|span| (span.name.clone(), text(&span.attributes, "glacis.rules")))
        .collect();
    let expected =
        [("glacis inspect", "7,8"), ("glacis request_headers", "7"), ("glacis request_body", "8")];
    assert_eq!(rules, expected.map(|(name, rules)| (name.to_owned(), rules.to_owned())));
}
