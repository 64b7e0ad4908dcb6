//! Answers over HTTP/1.1 that need no more than the head of a request: lists and modules for filters, on a
//! listener of their own.

use core::{convert::Infallible, net::SocketAddr, time::Duration};
use std::sync::Arc;

use http::{Request, Response};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};

use crate::accept::not_accepted;
use crate::listener::{self, BindError};

/// How long a client may take for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

/// What clients may take of a listener.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Connections at once; more have to wait.
    pub connections: usize,
    /// How long one is kept.
    pub connection_time: Duration,
}

/// A listener for [`serve`].
///
/// # Errors
/// When the address is in use or not allowed; says which one it is.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    listener::tcp(address).await
}

/// Serves until the process ends. `what` names it in the log, `answer` looks at no body.
pub async fn serve<F>(listener: TcpListener, what: &'static str, bounds: Bounds, answer: F)
where
    F: Fn(&Request<Incoming>) -> Response<Full<Bytes>> + Send + Sync + 'static,
{
    let (answer, room) = (Arc::new(answer), Arc::new(Semaphore::new(bounds.connections)));
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                not_accepted(what, &error).await;
                continue;
            }
        };
        let answer = Arc::clone(&answer);
        tokio::spawn(async move {
            let service = service_fn(move |request: Request<Incoming>| {
                let answer = answer(&request);
                async move { Ok::<_, Infallible>(answer) }
            });
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            // A client that goes away is no event worth a log line.
            let _ = timeout(bounds.connection_time, served).await;
            drop(permit);
        });
    }
}
