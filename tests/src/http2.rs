//! A request over HTTP/2, without TLS and with prior knowledge.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper_util::rt::{TokioExecutor, TokioIo};

use crate::failure::{Outcome, doing};
use crate::http::{HOST, Request, Response};

/// Sends one request on a connection of its own.
///
/// # Errors
///
/// If nobody listens, or does not speak HTTP/2.
pub fn send(from: Ipv4Addr, to: SocketAddr, request: &Request) -> Outcome<Response> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(doing("make a runtime"))?.block_on(exchange(from.into(), to, request))
}

async fn exchange(from: IpAddr, to: SocketAddr, request: &Request) -> Outcome<Response> {
    let socket = tokio::net::TcpSocket::new_v4().map_err(doing("make a socket"))?;
    socket.bind(SocketAddr::new(from, 0)).map_err(doing("bind"))?;
    let stream = socket.connect(to).await.map_err(doing("connect"))?;
    let handshake =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(doing("speak HTTP/2"))?;
    tokio::spawn(connection);

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
