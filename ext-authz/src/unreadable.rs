//! Checks that cannot be read: too large, or no message. What a client sends must not end in an error of gRPC, which
//! Envoy's failure mode may let pass, so that such a Check is answered with a refusal.

use axum::{
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use envoy_types::pb::envoy::service::auth::v3::CheckResponse;
use http::{HeaderMap, HeaderValue};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use prost::Message as _;
use tonic::{Code, service::Routes};

use crate::answer::{Answer, Reason};

/// Learns of a refusal.
pub(crate) trait Tell: Fn(&Answer) + Clone + Send + Sync + 'static {}

impl<T: Fn(&Answer) + Clone + Send + Sync + 'static> Tell for T {}

/// Answers calls whose message cannot be read with a refusal, of which `tell` learns.
pub(crate) fn refused<T: Tell>(routes: Routes, tell: T) -> Routes {
    async fn answer<T: Tell>(State(tell): State<T>, request: Request, next: Next) -> Response {
        let answered = next.run(request).await;
        let Some(status) = status(answered.headers()) else { return answered };
        let answer = Answer::without_request(Reason::Unreadable, status);
        tell(&answer);
        message(&answer.into())
    }
    routes.into_axum_router().layer(from_fn_with_state(tell, answer::<T>)).into()
}

/// The status for a client whose request could not be read: tonic ends the call before the service sees it, by
/// `OUT_OF_RANGE` where the message is too large and by `INTERNAL` where it is none. The service itself uses neither.
fn status(headers: &HeaderMap) -> Option<u16> {
    let code = headers.get("grpc-status")?.as_bytes();
    match Code::from_bytes(code) {
        Code::OutOfRange => Some(413),
        Code::Internal => Some(400),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::Unimplemented
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => None,
    }
}

/// An answer of gRPC with one message.
fn message(answer: &CheckResponse) -> Response {
    let message = answer.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap_or_default();
    let mut frame = vec![0];
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(&message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    let trailers = core::future::ready(Some(Ok(trailers)));
    let body = Full::new(Bytes::from(frame)).with_trailers(trailers);
    let mut response = Response::new(axum::body::Body::new(body));
    let kind = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert(http::header::CONTENT_TYPE, kind);
    response
}
