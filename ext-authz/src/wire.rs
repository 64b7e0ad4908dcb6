//! What Envoy asks and is answered, as plain values. The only file that knows its messages.

use envoy_types::pb::{
    envoy::service::auth::v3::{
        CheckRequest, CheckResponse, OkHttpResponse, check_response::HttpResponse,
    },
    google::rpc::Status as RpcStatus,
};
use tonic::{Code, Status};

/// A request about which Envoy asks.
#[derive(Debug)]
pub(crate) struct Asked {
    /// Whether headers came one by one, with all their bytes.
    pub(crate) raw_headers: bool,
}

impl TryFrom<CheckRequest> for Asked {
    type Error = Status;

    fn try_from(request: CheckRequest) -> Result<Self, Status> {
        let attributes = request.attributes.unwrap_or_default();
        let http = attributes.request.and_then(|request| request.http);
        let http =
            http.ok_or_else(|| Status::invalid_argument("a Check without an HTTP request"))?;
        Ok(Self { raw_headers: http.header_map.is_some() })
    }
}

/// What Envoy is answered.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) verdict: &'static str,
}

impl Answer {
    /// The request passes as it is.
    pub(crate) const fn allow() -> Self {
        Self { verdict: "allow" }
    }
}

impl From<Answer> for CheckResponse {
    fn from(_: Answer) -> Self {
        Self {
            status: Some(RpcStatus { code: Code::Ok as i32, ..RpcStatus::default() }),
            http_response: Some(HttpResponse::OkResponse(OkHttpResponse::default())),
            ..Self::default()
        }
    }
}
