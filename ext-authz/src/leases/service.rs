//! The gRPC service of the lender, written by hand: its messages are the filter's, too.

use core::{
    convert::Infallible,
    task::{Context, Poll},
};
use std::sync::Arc;

use glacis_limits::lease::{
    desk,
    wire::{self, LeaseRequest, LeaseResponse},
};
use tokio::sync::Semaphore;
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    codegen::{Body as HttpBody, BoxFuture, Service, StdError, http},
    server::{Grpc, NamedService, UnaryService},
};
use tonic_prost::ProstCodec;

use super::{lender::Lender, metrics::Outcome};

/// Room for [`desk::ASKS_MAX`] questions with the longest names, several times over.
const MESSAGE_BYTES_MAX: usize = 128 << 10;

/// The service; clones are one.
#[derive(Clone, Debug)]
pub(super) struct LenderServer {
    lender: Arc<Lender>,
    room: Arc<Semaphore>,
}

impl LenderServer {
    pub(super) fn new(lender: Lender, max_calls: usize) -> Self {
        let room = Semaphore::new(max_calls.min(Semaphore::MAX_PERMITS));
        Self { lender: Arc::new(lender), room: Arc::new(room) }
    }

    async fn lease(self, request: LeaseRequest) -> Result<Response<LeaseResponse>, Status> {
        let metrics = &self.lender.metrics;
        if request.asks.len() > desk::ASKS_MAX {
            metrics.call(Outcome::Malformed);
            return Err(Status::invalid_argument("more than 256 keys in one call"));
        }
        let Ok(permit) = Arc::clone(&self.room).try_acquire_owned() else {
            metrics.call(Outcome::Overload);
            return Err(Status::resource_exhausted("leases.max_calls calls are under way"));
        };
        // A task of its own: a caller that goes away must not leave tokens reserved.
        let lender = Arc::clone(&self.lender);
        let answered = tokio::spawn(async move {
            let response = lender.lease(&request).await;
            drop(permit);
            response
        });
        match answered.await {
            Ok(response) => Ok(Response::new(response)),
            Err(_) => Err(Status::internal("the call failed")),
        }
    }
}

impl NamedService for LenderServer {
    const NAME: &'static str = wire::SERVICE;
}

impl<B> Service<http::Request<B>> for LenderServer
where
    B: HttpBody + Send + 'static,
    B::Error: Into<StdError> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Self::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let server = self.clone();
        let is_known = request
            .uri()
            .path()
            .strip_prefix('/')
            .and_then(|path| path.split_once('/'))
            .is_some_and(|(service, method)| service == wire::SERVICE && method == wire::METHOD);
        Box::pin(async move {
            if !is_known {
                return Ok(Status::new(Code::Unimplemented, "no such method").into_http());
            }
            let codec = ProstCodec::<LeaseResponse, LeaseRequest>::default();
            let mut grpc =
                Grpc::new(codec).apply_max_message_size_config(Some(MESSAGE_BYTES_MAX), None);
            Ok(grpc.unary(Method(server), request).await)
        })
    }
}

/// The one method.
struct Method(LenderServer);

impl UnaryService<LeaseRequest> for Method {
    type Response = LeaseResponse;
    type Future = BoxFuture<Response<LeaseResponse>, Status>;

    fn call(&mut self, request: Request<LeaseRequest>) -> Self::Future {
        let server = self.0.clone();
        Box::pin(server.lease(request.into_inner()))
    }
}
