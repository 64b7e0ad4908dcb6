//! Metrics and health over plain HTTP: `/metrics`, `/healthz` (the process runs), `/readyz` (it
//! takes requests; if not, why).

use core::{convert::Infallible, time::Duration};
use std::sync::Arc;

use http::{Method, Request, Response, StatusCode, header};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
};

use crate::readiness::Causes;

/// Connections served at once; more have to wait.
const CONNECTIONS_MAX: usize = 64;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);

type Answer = Response<String>;

/// Serves until the process ends.
pub(crate) async fn serve(
    listener: TcpListener,
    registry: Arc<Registry>,
    causes: watch::Receiver<Causes>,
) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most likely: it would fail again at once.
                tracing::warn!(%error, "admin connection not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (registry, causes) = (Arc::clone(&registry), causes.clone());
        tokio::spawn(async move {
            let answer = service_fn(move |request: Request<Incoming>| {
                let answer = answer(&request, &registry, &causes.borrow());
                async move { Ok::<_, Infallible>(answer) }
            });
            // A client that goes away is no event worth a log line.
            let _ = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), answer)
                .await;
            drop(permit);
        });
    }
}

fn answer<B>(request: &Request<B>, registry: &Registry, causes: &Causes) -> Answer {
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return text(StatusCode::METHOD_NOT_ALLOWED, "GET only\n".to_owned());
    }
    match request.uri().path() {
        "/metrics" => metrics(registry),
        "/healthz" => text(StatusCode::OK, "ok\n".to_owned()),
        "/readyz" if causes.is_empty() => text(StatusCode::OK, "ready\n".to_owned()),
        "/readyz" => {
            let lines = causes.iter().map(|(cause, why)| format!("{cause}: {why}\n"));
            text(StatusCode::SERVICE_UNAVAILABLE, lines.collect())
        }
        _ => text(StatusCode::NOT_FOUND, "try /metrics, /healthz or /readyz\n".to_owned()),
    }
}

fn metrics(registry: &Registry) -> Answer {
    let mut out = String::new();
    if prometheus_client::encoding::text::encode(&mut out, registry).is_err() {
        return text(StatusCode::INTERNAL_SERVER_ERROR, "metrics cannot be written\n".to_owned());
    }
    let mut answer = Response::new(out);
    let openmetrics = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    answer
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(openmetrics));
    answer
}

fn text(status: StatusCode, body: String) -> Answer {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
    answer.headers_mut().insert(header::CONTENT_TYPE, plain);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths() {
        for (method, path, ready, status, body) in [
            ("GET", "/metrics", true, 200, "# EOF\n"),
            ("GET", "/healthz", false, 200, "ok\n"),
            ("GET", "/readyz", true, 200, "ready\n"),
            ("GET", "/readyz", false, 503, "canary: it sang\ndraining: it ends\n"),
            ("POST", "/metrics", true, 405, "GET only\n"),
            ("GET", "/", true, 404, "try /metrics, /healthz or /readyz\n"),
        ] {
            let request = Request::builder().method(method).uri(path).body(()).unwrap();
            let causes = [("draining", "it ends"), ("canary", "it sang")];
            let causes = causes.map(|(cause, why)| (cause, why.to_owned()));
            let causes = if ready { Causes::new() } else { causes.into() };
            let answer = answer(&request, &Registry::default(), &causes);
            assert_eq!((answer.status().as_u16(), answer.body().as_str()), (status, body));
        }
    }
}
