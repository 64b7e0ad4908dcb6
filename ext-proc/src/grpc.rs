//! The one method of the service, with messages of our own instead of those that are generated from Envoy's files: see
//! [`wire::message`](crate::wire) and [`reply`](crate::reply).

use core::{
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use prost::Message as _;
use tonic::{
    Code, Request, Response, Status, Streaming,
    body::Body,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::{BoxFuture, Service, http},
    server::{Grpc, NamedService, StreamingService},
    service::Routes,
};

use crate::{
    reply::Answer,
    service::{Answers, Processor},
    wire::ProcessingRequest,
};

/// The path of `ExternalProcessor.Process`.
const PATH: &str = "/envoy.service.ext_proc.v3.ExternalProcessor/Process";

/// Bytes that a stream has room for at first, for what Envoy sends: the headers of most requests are shorter. tonic's
/// 8 KiB would be taken for each request, and held by each idle WebSocket.
const MESSAGE_BUFFER_BYTES: usize = 2 << 10;

/// The same for answers: every one that lets pass is shorter.
const ANSWER_BUFFER_BYTES: usize = 512;

/// Bytes after which answers that are ready go out, as tonic has it.
const YIELD_BYTES: usize = 32 << 10;

/// The gRPC service.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    processor: Processor,
    message_bytes_max: usize,
}

impl Server {
    /// Messages beyond `message_bytes_max` end their stream with an error.
    pub(crate) const fn new(processor: Processor, message_bytes_max: usize) -> Self {
        Self { processor, message_bytes_max }
    }
}

impl Processor {
    /// The service, to be served.
    #[must_use]
    pub fn routes(self) -> Routes {
        let message_bytes_max = self.message_bytes_max;
        Routes::new(Server::new(self, message_bytes_max))
    }
}

impl NamedService for Server {
    const NAME: &'static str = Processor::NAME;
}

impl Service<http::Request<Body>> for Server {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.uri().path() != PATH {
            let status = Status::new(Code::Unimplemented, "");
            return Box::pin(ready(Ok(status.into_http())));
        }
        let Self { processor, message_bytes_max } = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(Messages);
            grpc = grpc.apply_max_message_size_config(Some(message_bytes_max), None);
            Ok(grpc.streaming(Process(processor), request).await)
        })
    }
}

struct Process(Processor);

impl StreamingService<ProcessingRequest> for Process {
    type Response = Answer;
    type ResponseStream = Answers;
    type Future = Ready<Result<Response<Answers>, Status>>;

    fn call(&mut self, request: Request<Streaming<ProcessingRequest>>) -> Self::Future {
        ready(self.0.process(request))
    }
}

/// How messages are read and written.
struct Messages;

impl Codec for Messages {
    type Encode = Answer;
    type Decode = ProcessingRequest;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Messages {
    type Item = Answer;
    type Error = Status;

    fn encode(&mut self, answer: Answer, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        answer.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(ANSWER_BUFFER_BYTES, YIELD_BYTES)
    }
}

impl Decoder for Messages {
    type Item = ProcessingRequest;
    type Error = Status;

    fn decode(&mut self, bytes: &mut DecodeBuf<'_>) -> Result<Option<ProcessingRequest>, Status> {
        let message = ProcessingRequest::decode(bytes);
        // What tonic's own codec says.
        message.map(Some).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(MESSAGE_BUFFER_BYTES, YIELD_BYTES)
    }
}
