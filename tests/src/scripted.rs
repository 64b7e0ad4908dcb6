//! A processor that does what it is told, right or wrong: the wrongs cannot be had from ext-proc.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::ProcessingMode;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer,
};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Sent;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response as Answer;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyResponse, HeadersResponse, HttpHeaders, ProcessingRequest, ProcessingResponse,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};
use tokio::net::TcpListener;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt as _};
use tonic::{Request, Response, Status, Streaming};

use crate::failure::{Outcome, doing};

/// What the processor does with each stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// Lets the headers pass, with a receipt.
    Allow,
    /// Asks for the body, if there is one, and lets it pass with the final receipt.
    AllowBody,
    /// Ends the stream properly without having said anything.
    CloseAtHeaders,
    /// Asks for the body, then ends the stream properly without a verdict on it.
    CloseAtBody,
    /// Lets the headers pass and leaves no receipt.
    NoReceipt,
    /// Says nothing and keeps the stream.
    Silent,
    /// Ends the stream with an error.
    Error,
}

/// A running scripted processor. It lives as long as the process.
#[derive(Clone, Debug)]
pub struct Scripted {
    script: Arc<Mutex<Script>>,
}

impl Scripted {
    /// Serves on this port, with a health service that always says yes.
    ///
    /// # Errors
    ///
    /// If the port is taken.
    pub fn start(port: u16) -> Outcome<Self> {
        let scripted = Self { script: Arc::new(Mutex::new(Script::Allow)) };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(doing("make a runtime"))?;
        let listener = runtime.block_on(TcpListener::bind(address)).map_err(doing("bind"))?;
        let service = ExternalProcessorServer::new(scripted.clone());
        std::thread::spawn(move || {
            runtime.block_on(async {
                let (_reporter, health) = tonic_health::server::health_reporter();
                let server = tonic::transport::Server::builder();
                let router = { server }.add_service(health).add_service(service);
                // Envoy would wait for small messages that wait for each other.
                let incoming = TcpListenerStream::new(listener).map(|stream| {
                    stream.and_then(|stream| stream.set_nodelay(true).map(|()| stream))
                });
                router.serve_with_incoming(incoming).await
            })
        });
        Ok(scripted)
    }

    /// Sets what to do with streams from now on.
    pub fn play(&self, script: Script) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = script;
    }
}

type Answers = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

#[tonic::async_trait]
impl ExternalProcessor for Scripted {
    type ProcessStream = Answers;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Answers>, Status> {
        let script = *self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let mut messages = request.into_inner();
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        tokio::spawn(async move {
            while let Some(Ok(message)) = messages.next().await {
                let answer = match (script, message.request) {
                    (Script::Silent, _) => continue,
                    (Script::Error, _) => Err(Status::internal("as the script says")),
                    (Script::Allow, Some(Sent::RequestHeaders(_))) => Ok(headers(Some("allow"))),
                    (Script::NoReceipt, Some(Sent::RequestHeaders(_))) => Ok(headers(None)),
                    (Script::AllowBody | Script::CloseAtBody, Some(Sent::RequestHeaders(head))) => {
                        Ok(if has_body(&head) { asking_for_body() } else { headers(Some("allow")) })
                    }
                    (Script::AllowBody, Some(Sent::RequestBody(_))) => Ok(body("allow")),
                    // The rest is what the scripts that end the stream are about.
                    _ => return,
                };
                if sender.send(answer).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// Whether a length is announced. What is open-ended but has none may be a WebSocket, whose
/// handshake would wait for ever.
fn has_body(head: &HttpHeaders) -> bool {
    let headers = head.headers.iter().flat_map(|map| &map.headers);
    headers.into_iter().any(|header| header.key == "content-length")
}

fn headers(verdict: Option<&str>) -> ProcessingResponse {
    ProcessingResponse {
        response: Some(Answer::RequestHeaders(HeadersResponse::default())),
        dynamic_metadata: verdict.map(receipt),
        ..ProcessingResponse::default()
    }
}

fn asking_for_body() -> ProcessingResponse {
    let mode = ProcessingMode {
        request_body_mode: BodySendMode::Buffered.into(),
        ..ProcessingMode::default()
    };
    ProcessingResponse { mode_override: Some(mode), ..headers(Some("pending")) }
}

fn body(verdict: &str) -> ProcessingResponse {
    ProcessingResponse {
        response: Some(Answer::RequestBody(BodyResponse::default())),
        dynamic_metadata: Some(receipt(verdict)),
        ..ProcessingResponse::default()
    }
}

/// `glacis: {verdict: …}`, as ext-proc leaves it.
fn receipt(verdict: &str) -> Struct {
    let verdict = Value { kind: Some(Kind::StringValue(verdict.to_owned())) };
    let receipt = Struct { fields: [("verdict".to_owned(), verdict)].into() };
    let receipt = Value { kind: Some(Kind::StructValue(receipt)) };
    Struct { fields: [("glacis".to_owned(), receipt)].into() }
}
