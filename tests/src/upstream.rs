//! The sample upstream: what stands behind the WAF, in tests and in `up`.
//!
//! It tells back what has reached it, so that a test can say whether a request was changed on its
//! way. HTTP/1.1 and HTTP/2 without TLS, and gRPC (see [`grpc`]). The prefix `/open`, which is another route in Envoy, is
//! taken off.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{CONNECTION, CONTENT_TYPE, HeaderName, HeaderValue, UPGRADE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use crate::failure::{Outcome, doing};
use crate::{grpc, websocket};

/// The longest body that is read, in bytes.
const BODY_BYTES_MAX: usize = 32 << 20;
/// The longest body that `/size/N` makes, in bytes.
const SIZE_BYTES_MAX: usize = 64 << 20;
/// How many events `/events` sends.
pub const EVENTS: u32 = 5;
/// The time between two events.
pub const EVENT_PAUSE: Duration = Duration::from_millis(100);
const SLOW: Duration = Duration::from_secs(2);

const PAGE: &str = "<!doctype html>\n<html lang=\"en\">\n<title>Sample shop</title>\n\
                    <h1>Sample shop</h1>\n<p>You have reached the upstream.</p>\n</html>\n";

type Body = UnsyncBoxBody<Bytes, Status>;

/// An upstream in threads of this process, until the process ends.
///
/// # Errors
///
/// If the port is taken.
pub fn spawn(port: u16) -> Outcome<SocketAddr> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let listener = std::net::TcpListener::bind(address).map_err(doing("bind the upstream"))?;
    listener.set_nonblocking(true).map_err(doing("set a socket"))?;
    let address = listener.local_addr().map_err(doing("read a bound port"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(doing("make a runtime"))?;
    std::thread::spawn(move || {
        runtime.block_on(async {
            if let Ok(listener) = TcpListener::from_std(listener) {
                serve(listener).await;
            }
        });
    });
    Ok(address)
}

/// Serves for ever.
pub async fn serve(listener: TcpListener) {
    loop {
        // A connection that cannot be accepted is the client's loss, not the end of the server.
        if let Ok((stream, _)) = listener.accept().await {
            // Events are small, and are to leave at once.
            let _ = stream.set_nodelay(true);
            tokio::spawn(connection(stream));
        }
    }
}

async fn connection(stream: TcpStream) {
    let service = service_fn(|request| async { Ok::<_, Infallible>(answer(request).await) });
    let builder = auto::Builder::new(TokioExecutor::new());
    // An error here is a client that went away.
    let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
}

async fn answer(request: Request<Incoming>) -> Response<Body> {
    if grpc::is_call(request.headers()) {
        return grpc::answer(request).await.map(BodyExt::boxed_unsync);
    }
    let path = request.uri().path();
    let path = path.strip_prefix("/open").filter(|rest| rest.starts_with('/')).unwrap_or(path);
    match path.to_owned().as_str() {
        "/" => reply(StatusCode::OK, "text/html; charset=utf-8", PAGE),
        "/echo" => echo(request).await,
        "/reflect" if request.method() == Method::POST => reflect(request).await,
        "/trailed" if request.method() == Method::POST => trailed(reflect(request).await).await,
        "/early" => early(request),
        "/ws" => upgrade(request),
        "/events" => events(),
        "/slow" => {
            tokio::time::sleep(SLOW).await;
            reply(StatusCode::OK, "text/plain", "at last\n")
        }
        other => match other.strip_prefix("/size/").and_then(|size| size.parse::<usize>().ok()) {
            Some(size) => reply(
                StatusCode::OK,
                "application/octet-stream",
                vec![b'x'; size.min(SIZE_BYTES_MAX)],
            ),
            // The upstream of the CRS tests answers 200 to everything. The body is read first: an answer
            // before its end closes the connection, which Envoy may still be writing to.
            None => match read(request.into_body()).await {
                Some(_) => reply(StatusCode::OK, "text/plain", "ok\n"),
                None => reply(StatusCode::PAYLOAD_TOO_LARGE, "text/plain", "too long\n"),
            },
        },
    }
}

fn reply(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(full(body.into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

async fn read(body: Incoming) -> Option<Bytes> {
    Limited::new(body, BODY_BYTES_MAX).collect().await.ok().map(|body| body.to_bytes())
}

/// The request as JSON. `body` is for reading, `body_base64` is exact.
async fn echo(request: Request<Incoming>) -> Response<Body> {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return reply(StatusCode::PAYLOAD_TOO_LARGE, "text/plain", "too long\n");
    };
    let trailers = body.trailers().cloned().unwrap_or_default();
    let body = body.to_bytes();
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let list = |fields: &HeaderMap| {
        let pairs = fields.iter().map(|(name, value)| json!([name.as_str(), text(value)]));
        pairs.collect::<Vec<_>>()
    };
    let told = json!({
        "method": head.method.as_str(),
        "uri": head.uri.to_string(),
        "version": format!("{:?}", head.version),
        "headers": list(&head.headers),
        "trailers": list(&trailers),
        "body": String::from_utf8_lossy(&body),
        "body_base64": STANDARD.encode(&body),
    });
    reply(StatusCode::OK, "application/json", told.to_string())
}

/// The answer that the request describes, as the upstream of the CRS tests does:
/// `{"status": 200, "headers": {"name": "value"}, "body": "text", "encodedBody": "base64"}`.
async fn reflect(request: Request<Incoming>) -> Response<Body> {
    let described = read(request.into_body()).await;
    let described = described.and_then(|body| serde_json::from_slice::<Value>(&body).ok());
    let made = described.as_ref().and_then(reflected);
    made.unwrap_or_else(|| reply(StatusCode::BAD_REQUEST, "text/plain", "not a description\n"))
}

fn reflected(described: &Value) -> Option<Response<Body>> {
    let encoded = described["encodedBody"].as_str().filter(|text| !text.is_empty());
    let body = match encoded {
        Some(encoded) => STANDARD.decode(encoded).ok()?,
        None => described["body"].as_str().unwrap_or_default().as_bytes().to_vec(),
    };
    let media_type = HeaderValue::from_static(media_type(&body));
    let mut response = Response::new(full(body.into()));
    if let Some(status) = described["status"].as_u64() {
        *response.status_mut() = StatusCode::from_u16(u16::try_from(status).ok()?).ok()?;
    }
    for (name, value) in described["headers"].as_object().into_iter().flatten() {
        let value = HeaderValue::from_str(value.as_str()?).ok()?;
        response.headers_mut().append(HeaderName::from_bytes(name.as_bytes()).ok()?, value);
    }
    response.headers_mut().entry(CONTENT_TYPE).or_insert(media_type);
    Some(response)
}

/// The response with trailers behind its body, and no DATA at all where that is empty.
async fn trailed(response: Response<Body>) -> Response<Body> {
    let (head, body) = response.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", HeaderValue::from_static("8f14e45f"));
    let data = (!body.is_empty()).then(|| Ok(Frame::data(body)));
    let frames = data.into_iter().chain([Ok(Frame::trailers(trailers))]);
    let body = StreamBody::new(tokio_stream::iter(frames.collect::<Vec<_>>())).boxed_unsync();
    Response::from_parts(head, body)
}

/// Answers before the request's body is there. It is read all the same: otherwise the connection would end, and
/// perhaps take the answer along.
fn early(request: Request<Incoming>) -> Response<Body> {
    tokio::spawn(read(request.into_body()));
    reply(StatusCode::OK, "text/plain", "early\n")
}

/// The type that the upstream of the CRS tests, a Go server, finds out by itself for a body without one
/// (WHATWG MIME Sniffing section 7.1, in part).
fn media_type(body: &[u8]) -> &'static str {
    const HTML: [&str; 6] = ["<!doctype html", "<html", "<head", "<script", "<body", "<!--"];
    let start = String::from_utf8_lossy(body.trim_ascii_start()).to_ascii_lowercase();
    if HTML.iter().any(|tag| start.starts_with(tag)) {
        "text/html; charset=utf-8"
    } else if start.starts_with("<?xml") {
        "text/xml; charset=utf-8"
    } else {
        "text/plain; charset=utf-8"
    }
}

/// WebSocket: sends each text frame back.
fn upgrade(mut request: Request<Incoming>) -> Response<Body> {
    let Some(key) = request.headers().get("sec-websocket-key").cloned() else {
        return reply(StatusCode::UPGRADE_REQUIRED, "text/plain", "a WebSocket is spoken here\n");
    };
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        if let Ok(upgraded) = upgraded.await {
            // An error here is a client that went away.
            let _ = echo_frames(TokioIo::new(upgraded)).await;
        }
    });
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    if let Ok(accept) = HeaderValue::from_str(&websocket::accept(key.as_bytes())) {
        headers.insert("sec-websocket-accept", accept);
    }
    response
}

async fn echo_frames(mut io: TokioIo<hyper::upgrade::Upgraded>) -> std::io::Result<()> {
    let mut bytes = Vec::new();
    while io.read_buf(&mut bytes).await? > 0 {
        while let Some(payload) = websocket::take_client_payload(&mut bytes) {
            io.write_all(&websocket::server_frame(&payload)).await?;
        }
        io.flush().await?;
    }
    Ok(())
}

/// Server-sent events, one after the other.
fn events() -> Response<Body> {
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        for number in 1..=EVENTS {
            let event = Bytes::from(format!("data: {number}\n\n"));
            if sender.send(Ok(Frame::data(event))).await.is_err() {
                return;
            }
            tokio::time::sleep(EVENT_PAUSE).await;
        }
    });
    let body = StreamBody::new(ReceiverStream::new(receiver)).boxed_unsync();
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}
