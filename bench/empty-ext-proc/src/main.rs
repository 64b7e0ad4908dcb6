//! `empty-ext-proc SOCKET`: an external processor on a Unix socket that lets the headers of every request pass and
//! looks at nothing. What it adds to a request is the price of asking anybody; `cargo xtask bench decisions` compares
//! ext-proc with it.
#![allow(clippy::print_stderr, reason = "a command line tool talks on its standard streams")]

use std::{pin::Pin, process::ExitCode};

use envoy_types::pb::envoy::service::ext_proc::v3::{
    HeadersResponse, ProcessingRequest, ProcessingResponse,
    external_processor_server::{ExternalProcessor, ExternalProcessorServer},
    processing_request::Request as Sent,
    processing_response::Response as Answer,
};
use tokio::net::UnixListener;
use tokio_stream::{Stream, StreamExt as _, wrappers::UnixListenerStream};
use tonic::{Request, Response, Status, Streaming, transport::Server};

type Failure = Box<dyn core::error::Error>;

fn main() -> ExitCode {
    let Some(socket) = std::env::args().nth(1) else {
        eprintln!("usage: empty-ext-proc SOCKET");
        return ExitCode::from(2);
    };
    match run(&socket) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("empty-ext-proc: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(socket: &str) -> Result<(), Failure> {
    // The runtime is built as that of ext-proc is.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let incoming = UnixListenerStream::new(UnixListener::bind(socket)?);
        let (_reporter, health) = tonic_health::server::health_reporter();
        let router = Server::builder().add_service(health);
        let router = router.add_service(ExternalProcessorServer::new(Empty));
        Ok(router.serve_with_incoming(incoming).await?)
    })
}

#[derive(Debug)]
struct Empty;

type Answers = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

#[tonic::async_trait]
impl ExternalProcessor for Empty {
    type ProcessStream = Answers;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Answers>, Status> {
        Ok(Response::new(Box::pin(request.into_inner().map(|message| answer(&message?)))))
    }
}

fn answer(message: &ProcessingRequest) -> Result<ProcessingResponse, Status> {
    match message.request {
        Some(Sent::RequestHeaders(_)) => Ok(ProcessingResponse {
            response: Some(Answer::RequestHeaders(HeadersResponse::default())),
            ..ProcessingResponse::default()
        }),
        _ => Err(Status::unimplemented("only the headers of requests are expected")),
    }
}
