//! A service of gRPC whose messages are one text each, and a client for it: one method of each kind.
//!
//! The service is part of the sample upstream. The last segment of the path names the method, whatever
//! stands before it, so that each route of Envoy can have it.

use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _};
use http::uri::PathAndQuery;
use http::{HeaderMap, Uri, header::CONTENT_TYPE};
use hyper::body::Incoming;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder, Streaming};
use tonic::codegen::Service;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::transport::Channel;
use tonic::{Code, Request, Response, Status, body::Body, client, server};

use crate::failure::{Outcome, doing};
use crate::http::HOST;

/// Answers with the message that it is sent.
pub const ECHO: &str = "Echo";
/// Answers with all messages that it is sent, joined.
pub const COLLECT: &str = "Collect";
/// Answers with [`REPEATED`] messages.
pub const REPEAT: &str = "Repeat";
/// Answers each message as it comes; [`FAIL`] with an error.
pub const CHAT: &str = "Chat";

/// What a text of field 1 begins with.
const TAG: u8 = 0x0a;

/// The messages that [`REPEAT`] answers with.
pub const REPEATED: usize = 3;
/// What [`CHAT`] answers with an error.
pub const FAIL: &str = "fail";
/// What stands in the trailers of that error.
pub const TRAILER: &str = "x-why";
/// Metadata, text and bytes, that each method gives back.
pub const NOTES: [&str; 2] = ["x-note", "x-note-bin"];

/// Whether a request is a call of gRPC.
pub(crate) fn is_call(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value == "application/grpc")
}

/// Answers a call.
pub(crate) async fn answer(request: http::Request<Incoming>) -> http::Response<Body> {
    let mut server = server::Grpc::new(Text);
    let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    match method.as_str() {
        ECHO => server.unary(Method(echo), request).await,
        COLLECT => server.client_streaming(Method(collect), request).await,
        REPEAT => server.server_streaming(Method(repeat), request).await,
        CHAT => server.streaming(Method(chat), request).await,
        _ => Status::unimplemented("no such method").into_http(),
    }
}

async fn echo(request: Request<String>) -> Result<Response<String>, Status> {
    let noted = noted(request.metadata());
    Ok(noted(request.into_inner()))
}

async fn collect(request: Request<Streaming<String>>) -> Result<Response<String>, Status> {
    let noted = noted(request.metadata());
    let messages = request.into_inner().collect::<Result<Vec<String>, _>>().await?;
    Ok(noted(messages.concat()))
}

type Answers = Pin<Box<dyn Stream<Item = Result<String, Status>> + Send>>;

async fn repeat(request: Request<String>) -> Result<Response<Answers>, Status> {
    let noted = noted(request.metadata());
    let message = request.into_inner();
    let messages = (0..REPEATED).map(move |number| Ok(format!("{message}{number}")));
    Ok(noted(Box::pin(tokio_stream::iter(messages)) as Answers))
}

async fn chat(request: Request<Streaming<String>>) -> Result<Response<Answers>, Status> {
    let noted = noted(request.metadata());
    let answers = request.into_inner().map(|message| match message?.as_str() {
        FAIL => {
            let mut metadata = MetadataMap::new();
            metadata.insert(TRAILER, MetadataValue::from_static("asked for"));
            let message = "as asked for";
            Err(Status::with_metadata(Code::FailedPrecondition, message, metadata))
        }
        message => Ok(message.to_owned()),
    });
    Ok(noted(Box::pin(answers) as Answers))
}

/// Makes answers that carry the notes of a request.
fn noted<T>(metadata: &MetadataMap) -> impl FnOnce(T) -> Response<T> + use<T> {
    let sent = metadata.clone().into_headers();
    move |message| {
        let mut response = Response::new(message);
        let mut headers = HeaderMap::new();
        for name in NOTES {
            headers.extend(sent.get(name).map(|value| (name.parse().ok(), value.clone())));
        }
        *response.metadata_mut() = MetadataMap::from_headers(headers);
        response
    }
}

/// A function as a method.
struct Method<F>(F);

impl<M, R, F, O> Service<Request<M>> for Method<F>
where
    F: FnMut(Request<M>) -> O,
    O: Future<Output = Result<Response<R>, Status>>,
{
    type Response = Response<R>;
    type Error = Status;
    type Future = O;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<M>) -> O {
        (self.0)(request)
    }
}

/// Messages whose field 1 is a text.
#[derive(Clone, Copy, Debug)]
struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, message: String, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        if !message.is_empty() {
            out.put_u8(TAG);
            let mut length = message.len();
            while length >= 0x80 {
                out.put_u8(length as u8 | 0x80);
                length >>= 7;
            }
            out.put_u8(length as u8);
        }
        out.put_slice(message.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let mut bytes = from.copy_to_bytes(from.remaining());
        if !bytes.is_empty() {
            let tag = bytes.get_u8();
            let (mut length, mut shift) = (0, 0);
            while let Ok(byte) = bytes.try_get_u8() {
                length |= usize::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            if (tag, length) != (TAG, bytes.len()) {
                return Err(Status::data_loss("it is no text in field 1"));
            }
        }
        let text = String::from_utf8(bytes.to_vec());
        text.map(Some).map_err(|error| Status::data_loss(error.to_string()))
    }
}

/// A client, on one connection.
#[derive(Clone, Debug)]
pub struct Client {
    calls: client::Grpc<Channel>,
    /// What stands before the method.
    prefix: String,
}

/// What a call came to.
#[derive(Debug)]
pub struct Called {
    /// The metadata before the messages.
    pub metadata: MetadataMap,
    /// The messages.
    pub messages: Vec<String>,
}

/// A conversation: what is said is heard before more is said.
#[derive(Debug)]
pub struct Chat {
    say: mpsc::Sender<String>,
    hear: Streaming<String>,
}

impl Client {
    /// A client of the service behind Envoy, by the route whose path begins with `prefix`.
    ///
    /// # Errors
    ///
    /// If nobody listens.
    pub async fn connect(to: SocketAddr, prefix: &str) -> Outcome<Self> {
        let channel = Channel::from_shared(format!("http://{to}")).map_err(doing("name it"))?;
        let origin = Uri::try_from(format!("http://{HOST}")).map_err(doing("name the host"))?;
        let channel = channel.origin(origin).connect().await.map_err(doing("connect"))?;
        Ok(Self { calls: client::Grpc::new(channel), prefix: prefix.to_owned() })
    }

    async fn path(&mut self, method: &str) -> Result<PathAndQuery, Status> {
        self.calls.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = PathAndQuery::try_from(format!("{}{method}", self.prefix));
        path.map_err(|error| Status::internal(error.to_string()))
    }

    /// Calls a method with one message, and reads one answer.
    ///
    /// # Errors
    ///
    /// What the service, or somebody on the way, answers instead.
    pub async fn unary(&mut self, request: Request<String>) -> Result<Called, Status> {
        let path = self.path(ECHO).await?;
        let (metadata, message, _) = self.calls.unary(request, path, Text).await?.into_parts();
        Ok(Called { metadata, messages: vec![message] })
    }

    /// Calls a method with many messages, and reads one answer.
    ///
    /// # Errors
    ///
    /// As [`Client::unary`].
    pub async fn collect(&mut self, messages: Vec<String>) -> Result<Called, Status> {
        let path = self.path(COLLECT).await?;
        let request = Request::new(tokio_stream::iter(messages));
        let (metadata, message, _) =
            self.calls.client_streaming(request, path, Text).await?.into_parts();
        Ok(Called { metadata, messages: vec![message] })
    }

    /// Calls a method with one message, and reads many answers.
    ///
    /// # Errors
    ///
    /// As [`Client::unary`].
    pub async fn repeat(&mut self, request: Request<String>) -> Result<Called, Status> {
        let path = self.path(REPEAT).await?;
        let (metadata, messages, _) =
            self.calls.server_streaming(request, path, Text).await?.into_parts();
        Ok(Called { metadata, messages: messages.collect::<Result<_, _>>().await? })
    }

    /// Begins a conversation.
    ///
    /// # Errors
    ///
    /// As [`Client::unary`].
    pub async fn chat(&mut self, first: &str) -> Result<Chat, Status> {
        let path = self.path(CHAT).await?;
        let (say, said) = mpsc::channel(1);
        // A server may wait for a message before it answers at all.
        say.send(first.to_owned()).await.map_err(|_| Status::cancelled("nobody listens"))?;
        let request = Request::new(ReceiverStream::new(said));
        let hear = self.calls.streaming(request, path, Text).await?.into_inner();
        Ok(Chat { say, hear })
    }
}

impl Chat {
    /// Says something.
    ///
    /// # Errors
    ///
    /// If the call is over.
    pub async fn say(&self, message: &str) -> Result<(), Status> {
        self.say.send(message.to_owned()).await.map_err(|_| Status::cancelled("it is over"))
    }

    /// Waits for a message; `None` at the end.
    ///
    /// # Errors
    ///
    /// What the call ends with.
    pub async fn hear(&mut self) -> Result<Option<String>, Status> {
        self.hear.message().await
    }

    /// Says nothing more, and waits for the end.
    ///
    /// # Errors
    ///
    /// As [`Chat::hear`].
    pub async fn end(self) -> Result<Option<String>, Status> {
        let Self { say, mut hear } = self;
        drop(say);
        hear.message().await
    }
}
