//! What a client sends ends in a verdict, also where it cannot be read.

use bytes::{Buf as _, BufMut as _, Bytes};
use envoy_types::pb::envoy::service::auth::v3::{CheckResponse, check_response::HttpResponse};
use prost::Message as _;
use tonic::{
    Code, Request, Status, client,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use crate::harness::{Asked, Service};
use crate::policies::verdict;

/// Sends any bytes, and reads an answer of the service.
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = CheckResponse;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put(message);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = CheckResponse;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<CheckResponse>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        let answer = CheckResponse::decode(bytes);
        answer.map(Some).map_err(|error| Status::data_loss(error.to_string()))
    }
}

async fn check(service: &Service, message: Vec<u8>) -> Result<CheckResponse, Status> {
    let mut client = client::Grpc::new(service.channel().await).max_encoding_message_size(8 << 20);
    client.ready().await.unwrap();
    let path = "/envoy.service.auth.v3.Authorization/Check".parse().unwrap();
    client
        .unary(Request::new(Bytes::from(message)), path, Raw)
        .await
        .map(tonic::Response::into_inner)
}

/// A Check whose message has so many bytes.
fn of_bytes(length: usize) -> Vec<u8> {
    let with = |body: usize| Asked::get("/").body(&"a".repeat(body)).message().encode_to_vec();
    let message = with(length - (with(length).len() - length));
    assert_eq!(message.len(), length);
    message
}

#[tokio::test]
async fn what_cannot_be_read_is_refused() {
    let service = Service::start("otherwise: allow\nmax_message_bytes: 1048576\n", &[]);
    let mut no_text = Asked::get("/aaaa").message().encode_to_vec();
    let at = no_text.windows(5).position(|window| window == b"/aaaa").unwrap();
    no_text[at + 1] = 0xff;
    for (message, expected, status) in [
        (Asked::get("/").message().encode_to_vec(), "allow", None),
        (of_bytes(1 << 20), "allow", None),
        (of_bytes((1 << 20) + 1), "deny unreadable", Some(413)),
        (no_text, "deny unreadable", Some(400)),
        (vec![0xff; 16], "deny unreadable", Some(400)),
    ] {
        let length = message.len();
        let answer = check(&service, message).await.unwrap();
        assert_eq!(verdict(&answer), expected, "{length}");
        let found = match &answer.http_response {
            Some(HttpResponse::DeniedResponse(denied)) => {
                denied.status.as_ref().map(|one| one.code)
            }
            _ => None,
        };
        assert_eq!(found, status, "{length}");
    }
    assert!(service.metric("glacis_authz_refused_total{reason=\"unreadable\"}") > 2.5);
    // What is no request is Envoy's fault, not a client's.
    assert_eq!(check(&service, Vec::new()).await.unwrap_err().code(), Code::InvalidArgument);
}
