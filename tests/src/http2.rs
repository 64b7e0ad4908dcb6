//! A request over HTTP/2, without TLS and with prior knowledge.

use std::convert::Infallible;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Body, Bytes, Frame};
use hyper::client::conn::http2::SendRequest;
use hyper::ext::Protocol;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_stream::StreamExt as _;

use crate::failure::{Failure, Outcome, doing};
use crate::http::{HOST, Request, Response};
use crate::websocket;

/// Sends one request on a connection of its own.
///
/// # Errors
///
/// If nobody listens, or does not speak HTTP/2.
pub fn send(from: Ipv4Addr, to: SocketAddr, request: &Request) -> Outcome<Response> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(doing("make a runtime"))?.block_on(exchange(from.into(), to, request))
}

async fn connect<B>(from: IpAddr, to: SocketAddr) -> Outcome<SendRequest<B>>
where
    B: Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let socket = tokio::net::TcpSocket::new_v4().map_err(doing("make a socket"))?;
    socket.bind(SocketAddr::new(from, 0)).map_err(doing("bind"))?;
    let stream = socket.connect(to).await.map_err(doing("connect"))?;
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (sender, connection) = handshake.await.map_err(doing("speak HTTP/2"))?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn exchange(from: IpAddr, to: SocketAddr, request: &Request) -> Outcome<Response> {
    let mut sender = connect(from, to).await?;
    let mut builder = http::Request::builder()
        .method(request.method.as_str())
        .uri(format!("http://{HOST}{}", request.target));
    for (name, value) in &request.headers {
        builder = builder.header(name, value.as_slice());
    }
    let body = Full::new(Bytes::from(request.body.clone()));
    let request = builder.body(body).map_err(doing("make a request"))?;
    let response = sender.send_request(request).await.map_err(doing("send over HTTP/2"))?;

    let status = response.status().as_u16();
    let headers = response.headers().iter().map(|(name, value)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    let headers = headers.collect();
    let body = response.into_body().collect().await.map_err(doing("read the answer"))?;
    Ok(Response { status, headers, body: body.to_bytes().to_vec() })
}

/// Bytes of a frame of [`upload_without_end`].
const PIECE: u64 = 16_384;

/// Begins so many POSTs on one connection, sends `bytes` of the body of each and never its end, and holds them for
/// this `time`, or until the connection ends.
///
/// # Errors
///
/// If nobody listens, or does not speak HTTP/2.
pub fn upload_without_end(
    from: Ipv4Addr,
    to: SocketAddr,
    path: &str,
    streams: usize,
    bytes: u64,
    time: Duration,
) -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(doing("make a runtime"))?;
    runtime.block_on(async {
        let mut sender = connect(from.into(), to).await?;
        let mut answers = tokio::task::JoinSet::new();
        for _ in 0..streams {
            let piece = Bytes::from_static(&[b'a'; PIECE as usize]);
            let pieces =
                (0..bytes / PIECE).map(move |_| Ok::<_, Infallible>(Frame::data(piece.clone())));
            let body = tokio_stream::iter(pieces).chain(tokio_stream::pending());
            let request = http::Request::builder()
                .method("POST")
                .uri(format!("http://{HOST}{path}"))
                .header("content-type", "application/x-www-form-urlencoded")
                .body(StreamBody::new(body))
                .map_err(doing("make a request"))?;
            answers.spawn(sender.send_request(request));
        }
        tokio::time::sleep(time).await;
        Ok(())
    })
}

/// Opens a WebSocket on `path` by extended CONNECT (RFC 8441), says `texts` one after the other, each when the
/// one before has come back, and returns what has come back. `fields` stand in the request besides.
///
/// # Errors
///
/// If the answer is not 200, with its status; if the connection ends before everything has come back.
pub fn web_socket(
    from: Ipv4Addr,
    to: SocketAddr,
    path: &str,
    fields: &[(&str, &str)],
    texts: &[&str],
) -> Outcome<Vec<Vec<u8>>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(doing("make a runtime"))?.block_on(talk(from.into(), to, path, fields, texts))
}

async fn talk(
    from: IpAddr,
    to: SocketAddr,
    path: &str,
    fields: &[(&str, &str)],
    texts: &[&str],
) -> Outcome<Vec<Vec<u8>>> {
    let mut sender: SendRequest<Full<Bytes>> = connect(from, to).await?;
    // A client may connect so only once the server has said that it understands: with its first frame.
    let first = http::Request::get(format!("http://{HOST}/")).body(Full::default());
    let first = sender.send_request(first.map_err(doing("make a request"))?).await;
    first.map_err(doing("send over HTTP/2"))?.into_body().collect().await.map_err(doing("read"))?;

    let mut builder = http::Request::connect(format!("http://{HOST}{path}"))
        .extension(Protocol::from_static("websocket"))
        .header("sec-websocket-version", "13");
    for (name, value) in fields {
        builder = builder.header(*name, *value);
    }
    let request = builder.body(Full::default()).map_err(doing("make a request"))?;
    let response = sender.send_request(request).await.map_err(doing("send over HTTP/2"))?;
    if response.status() != 200 {
        return Err(Failure::new(format!("the answer is {}", response.status())));
    }
    let upgraded = hyper::upgrade::on(response).await.map_err(doing("talk"))?;
    let mut stream = TokioIo::new(upgraded);
    let mut heard = Vec::new();
    for text in texts {
        let frame = websocket::client_frame(text, [1, 2, 3, 4]);
        stream.write_all(&frame).await.map_err(doing("say something"))?;
        let mut back = vec![0; websocket::server_frame(text.as_bytes()).len()];
        stream.read_exact(&mut back).await.map_err(doing("hear something"))?;
        heard.push(back);
    }
    Ok(heard)
}
