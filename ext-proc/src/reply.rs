//! What Envoy is answered. Nobody else writes its messages.

mod metadata;

use envoy_types::pb::envoy::{
    config::core::v3::{HeaderValue, HeaderValueOption, header_value_option::HeaderAppendAction},
    extensions::filters::http::ext_proc::v3::{
        ProcessingMode,
        processing_mode::{BodySendMode, HeaderSendMode},
    },
    service::ext_proc::v3::{
        BodyMutation, BodyResponse, CommonResponse, GrpcStatus, HeaderMutation, HeadersResponse,
        ImmediateResponse, StreamedBodyResponse, TrailersResponse, body_mutation::Mutation,
        processing_response::Response,
    },
    r#type::v3::{HttpStatus, StatusCode},
};
use glacis_inspector::{HeaderChange, Reply};
use tonic::Status;

use crate::wire::BodyMode;
pub(crate) use metadata::metadata;

/// What a message is answered.
pub(crate) type Answered = Result<Vec<Answer>, Status>;

/// `ProcessingResponse` of Envoy, with the dynamic metadata as the bytes of its message.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Answer {
    /// What [`metadata`] makes; empty for none.
    #[prost(bytes = "vec", tag = "8")]
    pub(crate) dynamic_metadata: Vec<u8>,
    #[prost(message, optional, tag = "9")]
    pub(crate) mode_override: Option<ProcessingMode>,
    #[prost(oneof = "Response", tags = "1, 2, 3, 4, 5, 6, 7, 11")]
    response: Option<Response>,
}

/// Which message is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    RequestHeaders,
    RequestBody,
    RequestTrailers,
    ResponseHeaders,
    ResponseBody,
    ResponseTrailers,
}

impl Part {
    /// As it stands in metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::RequestHeaders => "request_headers",
            Self::RequestBody => "request_body",
            Self::RequestTrailers => "request_trailers",
            Self::ResponseHeaders => "response_headers",
            Self::ResponseBody => "response_body",
            Self::ResponseTrailers => "response_trailers",
        }
    }

    /// Whether it is of the request, not of the response.
    pub(crate) const fn is_of_request(self) -> bool {
        matches!(self, Self::RequestHeaders | Self::RequestBody | Self::RequestTrailers)
    }
}

/// What Envoy is to send from here on, of what can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModeOverride {
    pub(crate) request_body: BodyMode,
    pub(crate) request_trailers: bool,
    pub(crate) response_headers: bool,
    pub(crate) response_body: BodyMode,
    pub(crate) response_trailers: bool,
}

/// Lets `part` pass; of trailers, without the fields in `remove`.
pub(crate) fn pass(part: Part, remove: Vec<String>) -> Answer {
    let common = CommonResponse::default;
    let trailers = |remove: Vec<String>| TrailersResponse {
        header_mutation: (!remove.is_empty())
            .then(|| HeaderMutation { set_headers: Vec::new(), remove_headers: remove }),
    };
    let response = match part {
        Part::RequestHeaders => {
            Response::RequestHeaders(HeadersResponse { response: Some(common()) })
        }
        Part::ResponseHeaders => {
            Response::ResponseHeaders(HeadersResponse { response: Some(common()) })
        }
        Part::RequestBody => Response::RequestBody(BodyResponse { response: Some(common()) }),
        Part::ResponseBody => Response::ResponseBody(BodyResponse { response: Some(common()) }),
        Part::RequestTrailers => Response::RequestTrailers(trailers(remove)),
        Part::ResponseTrailers => Response::ResponseTrailers(trailers(remove)),
    };
    Answer { response: Some(response), ..Answer::default() }
}

/// Has other bytes go on in the place of a piece of a body, in the mode `STREAMED`.
pub(crate) fn replaced(part: Part, bytes: Vec<u8>) -> Answer {
    let mutation = if bytes.is_empty() { Mutation::ClearBody(true) } else { Mutation::Body(bytes) };
    let mutation = BodyMutation { mutation: Some(mutation) };
    let common = CommonResponse { body_mutation: Some(mutation), ..CommonResponse::default() };
    let body = BodyResponse { response: Some(common) };
    let response = if part.is_of_request() {
        Response::RequestBody(body)
    } else {
        Response::ResponseBody(body)
    };
    Answer { response: Some(response), ..Answer::default() }
}

impl Answer {
    /// Changes a header, if this answers headers. What is set takes the place of each header of this name.
    pub(crate) fn change_header(&mut self, name: &str, change: &HeaderChange) {
        let set = match change {
            HeaderChange::Keep => return,
            HeaderChange::Remove => None,
            HeaderChange::Set(value) => Some(header(name, value)),
        };
        let Some(Response::RequestHeaders(headers) | Response::ResponseHeaders(headers)) =
            &mut self.response
        else {
            return;
        };
        // Envoy removes before it sets.
        headers.response.get_or_insert_default().header_mutation = Some(HeaderMutation {
            set_headers: Vec::from_iter(set),
            remove_headers: vec![name.to_owned()],
        });
    }
}

/// Gives a piece of a body back, in the mode `FULL_DUPLEX_STREAMED`. `part` is the body of the request or
/// of the response.
pub(crate) fn streamed(part: Part, body: Vec<u8>, end_of_stream: bool) -> Answer {
    let piece = StreamedBodyResponse { body, end_of_stream, ..StreamedBodyResponse::default() };
    let mutation = BodyMutation { mutation: Some(Mutation::StreamedResponse(piece)) };
    let common = CommonResponse { body_mutation: Some(mutation), ..CommonResponse::default() };
    let body = BodyResponse { response: Some(common) };
    let response = if part.is_of_request() {
        Response::RequestBody(body)
    } else {
        Response::ResponseBody(body)
    };
    Answer { response: Some(response), ..Answer::default() }
}

/// Answers the client instead.
pub(crate) fn immediate(reply: &Reply) -> Answer {
    // Envoy ignores a status that is none, and would answer 200 instead. One that its enumeration
    // does not list, such as 451, it passes on.
    let good = (200..=599).contains(&reply.status);
    let code = if good { i32::from(reply.status) } else { StatusCode::Forbidden as i32 };
    let headers = reply.headers.iter().map(|(name, value)| header(name, value)).collect();
    let response = ImmediateResponse {
        status: Some(HttpStatus { code }),
        headers: Some(HeaderMutation { set_headers: headers, remove_headers: Vec::new() }),
        body: reply.body.clone().into_bytes(),
        grpc_status: reply.grpc_status.map(|status| GrpcStatus { status }),
        details: reply.details.clone(),
    };
    let response = Some(Response::ImmediateResponse(response));
    Answer { response, ..Answer::default() }
}

fn header(name: &str, value: &str) -> HeaderValueOption {
    HeaderValueOption {
        header: Some(HeaderValue {
            key: name.to_owned(),
            value: String::new(),
            raw_value: value.as_bytes().to_vec(),
        }),
        append_action: HeaderAppendAction::OverwriteIfExistsOrAdd as i32,
        ..HeaderValueOption::default()
    }
}

impl From<ModeOverride> for ProcessingMode {
    /// Says everything: `DEFAULT` would not mean "as it was".
    fn from(mode: ModeOverride) -> Self {
        let send = |wanted| if wanted { HeaderSendMode::Send } else { HeaderSendMode::Skip } as i32;
        Self {
            // Envoy ignores it, the headers being here already.
            request_header_mode: HeaderSendMode::Default as i32,
            response_header_mode: send(mode.response_headers),
            request_body_mode: BodySendMode::from(mode.request_body) as i32,
            response_body_mode: BodySendMode::from(mode.response_body) as i32,
            request_trailer_mode: send(mode.request_trailers),
            response_trailer_mode: send(mode.response_trailers),
        }
    }
}
