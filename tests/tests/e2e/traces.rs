//! Spans of ext-proc within the traces of Envoy, at a collector: the server side of OTLP as OpenTelemetry's
//! own crate has it.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use glacis_tests::http::Request;
use glacis_tests::stack::{Ports, Processor};
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Response, Status};

use crate::support::{Own, client, eventually};

/// Spans, each with the name of the service that has sent it.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<(String, Span)>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        for sent in request.into_inner().resource_spans {
            let attributes = sent.resource.unwrap_or_default().attributes;
            let name = attributes.into_iter().find(|attribute| attribute.key == "service.name");
            let service = match name.and_then(|name| name.value?.value) {
                Some(Value::StringValue(service)) => service,
                _ => String::new(),
            };
            let spans = sent.scope_spans.into_iter().flat_map(|scope| scope.spans);
            let spans = spans.map(|span| (service.clone(), span));
            self.0.lock().unwrap().extend(spans);
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Listens until the process ends.
    fn start() -> (Self, SocketAddr) {
        let (collector, (sender, receiver)) = (Self::default(), mpsc::channel());
        let service = TraceServiceServer::new(collector.clone());
        thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
                let listener = tokio::net::TcpListener::bind(any).await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                let server = tonic::transport::Server::builder().add_service(service);
                server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
            });
        });
        let address = receiver.recv_timeout(Duration::from_secs(10)).unwrap();
        (collector, address)
    }

    fn of(&self, service: &str) -> Vec<Span> {
        let spans = self.0.lock().unwrap();
        let of = spans.iter().filter(|(sender, _)| sender == service);
        of.map(|(_, span)| span.clone()).collect()
    }
}

/// Envoy's tracer, and the cluster of the collector.
fn edits(collector: SocketAddr) -> [(String, String); 2] {
    let prefix = "          stat_prefix: glacis\n          codec_type";
    let tracing = format!(
        "          tracing:\n            provider:\n              name: envoy.tracers.opentelemetry\n              \
         typed_config:\n                \
         \"@type\": type.googleapis.com/envoy.config.trace.v3.OpenTelemetryConfig\n                \
         grpc_service: {{envoy_grpc: {{cluster_name: collector}}}}\n                \
         service_name: envoy\n{prefix}"
    );
    let cluster = format!(
        "  clusters:\n  - name: collector\n    type: STATIC\n    load_assignment:\n      cluster_name: collector\n      \
         endpoints: [{{lb_endpoints: [{{endpoint: {{address: {{socket_address: {{address: {}, \
         port_value: {}}}}}}}}}]}}]\n    typed_extension_protocol_options:\n      \
         envoy.extensions.upstreams.http.v3.HttpProtocolOptions:\n        \
         \"@type\": type.googleapis.com/envoy.extensions.upstreams.http.v3.HttpProtocolOptions\n        \
         explicit_http_config: {{http2_protocol_options: {{}}}}\n",
        collector.ip(),
        collector.port()
    );
    [(prefix.to_owned(), tracing), ("  clusters:\n".to_owned(), cluster)]
}

#[test]
fn spans_join_the_trace_of_envoy() {
    let (collector, address) = Collector::start();
    let edits = edits(address);
    let edits: Vec<_> = edits.iter().map(|(old, new)| (old.as_str(), new.as_str())).collect();
    let keys = format!("traces: {{enabled: true}}\notlp: {{endpoint: \"http://{address}\"}}\n");
    // The keys are known at run time only, and a stack lives as long as its test.
    let keys: &'static str = Box::leak(keys.into_boxed_str());
    let own = Own::on("traces", Ports::free().unwrap(), Processor::ExtProcWith(keys), &edits);
    let attack = Request::get("/echo?q=%3Cscript%3Ealert(1)%3C/script%3E").browser();
    assert_eq!(own.0.send(client(), &attack).unwrap().status, 403);
    eventually("spans of both", Duration::from_secs(30), || {
        !collector.of("envoy").is_empty() && collector.of("glacis-ext-proc").len() >= 2
    });
    let ours = collector.of("glacis-ext-proc");
    let whole = ours.iter().find(|span| span.name == "glacis inspect").unwrap();
    let phase = ours.iter().find(|span| span.name == "glacis request_headers").unwrap();
    assert_eq!(phase.parent_span_id, whole.span_id);
    // Envoy sends its own when the request is over.
    eventually("the span of Envoy that ours is under", Duration::from_secs(30), || {
        let envoys = collector.of("envoy");
        let parent = envoys.iter().find(|span| span.span_id == whole.parent_span_id);
        parent.is_some_and(|parent| parent.trace_id == whole.trace_id)
    });
}
