//! Serving, and ending in good order.

use core::{fmt, future::Future, net::SocketAddr, time::Duration};
use std::{
    io,
    path::{Path, PathBuf},
};

use axum::routing;
use http_body_util::Full;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, UnixListener},
    sync::watch,
    task::{JoinError, JoinSet},
};
use tokio_stream::{
    Stream, StreamExt as _,
    wrappers::{TcpListenerStream, UnixListenerStream},
};
use tonic::{
    service::Routes,
    transport::{self, server::Connected},
};
use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    accept::patient,
    admin::{self, Access, AdminPort},
    config::{Admin, Drain, Listen},
    listener::{self, BindError},
    readiness::{Causes, DRAINING, Readiness},
    tls::{Gate, Tls, TlsMetrics, secured},
    token::{Token, TokenMetrics, guarded},
};

/// HTTP/2 streams that one connection may have open: Envoy opens one per request under inspection.
const STREAMS_PER_CONNECTION_MAX: u32 = 4_096;

/// Bytes that Envoy may send on one stream, and on one connection, before it has to wait: whole
/// bodies come in one message, and the default of 64 KiB would make a round trip of each such part.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

/// What is spoken on the ports, as ALPN names it; HTTP/1.1 where gRPC is, for [probes](with_probe).
const GRPC_PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];
const ADMIN_PROTOCOLS: &[&[u8]] = &[b"http/1.1"];

/// A connection that has gone silent is given up after this long twice over.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Bound sockets, ready to serve.
#[derive(Debug)]
pub struct Server {
    tcp: Option<(TcpListener, Option<Gate>)>,
    unix: Option<(UnixListener, PathBuf)>,
    admin: Option<(TcpListener, Option<Gate>)>,
    probes: Option<TcpListener>,
    access: Access,
    grpc_token: Option<Token>,
}

/// Serving failed.
#[derive(Debug)]
pub enum ServeError {
    /// gRPC cannot be served.
    Grpc(transport::Error),
    /// A listener is gone although nobody closed it; with the panic, which is a bug, if it was one.
    Listener(Option<JoinError>),
    /// The thread of the admin port cannot be started.
    Thread(io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Grpc(error) => write!(f, "gRPC cannot be served: {error}"),
            Self::Listener(None) => f.write_str("gRPC is no longer served: a listener has ended"),
            Self::Listener(Some(error)) => write!(f, "gRPC is no longer served: {error}"),
            Self::Thread(error) => write!(f, "the admin port has no thread: {error}"),
        }
    }
}

impl core::error::Error for ServeError {}

impl Server {
    /// Binds all sockets, before anything else is done: a process that cannot listen must not start.
    ///
    /// # Errors
    /// When an address is in use or not allowed, or certificates or tokens are no good.
    pub async fn bind<const GRPC: u16, const ADMIN: u16>(
        listen: &Listen<GRPC>,
        admin_config: &Admin<ADMIN>,
    ) -> Result<Self, BindError> {
        let tcp = bind("grpc", GRPC_PROTOCOLS, listen.tcp, listen.tls.as_ref()).await?;
        let unix = match &listen.unix {
            Some(socket) => Some((listener::unix(socket).await?, socket.path.clone())),
            None => None,
        };
        let (address, tls) = (admin_config.address, admin_config.tls.as_ref());
        let admin = bind("admin", ADMIN_PROTOCOLS, address, tls).await?;
        let probes = match admin_config.probe_address {
            Some(address) => Some(listener::tcp(address).await?),
            None => None,
        };
        let grpc_token = token("grpc", listen.token_file.as_deref())?;
        let access = Access {
            hosts: admin_config.hosts.clone(),
            token: token("admin", admin_config.token_file.as_deref())?,
            open_metrics: admin_config.open_metrics,
        };
        Ok(Self { tcp, unix, admin, probes, access, grpc_token })
    }

    /// Counts handshakes there, and looks after certificates: they are read anew when their content has
    /// changed, as [`reload::watch`](crate::reload::watch) does it. To be called within a runtime.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn watch_certificates(
        &mut self,
        interval: Option<Duration>,
        metrics: &TlsMetrics,
    ) -> io::Result<()> {
        let listeners = [&mut self.tcp, &mut self.admin].into_iter().flatten();
        for gate in listeners.filter_map(|(_, gate)| gate.as_mut()) {
            gate.count_in(metrics);
            gate.watch(interval)?;
        }
        Ok(())
    }

    /// Counts requests without a token there, and reloads tokens when their files change, as
    /// [`reload::watch`](crate::reload::watch) does it. To be called within a runtime.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn watch_tokens(
        &mut self,
        interval: Option<Duration>,
        metrics: &TokenMetrics,
    ) -> io::Result<()> {
        for token in [&mut self.grpc_token, &mut self.access.token].into_iter().flatten() {
            token.count_in(metrics);
            token.watch(interval)?;
        }
        Ok(())
    }

    /// The address of the TCP listener.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp.as_ref().and_then(|(listener, _)| listener.local_addr().ok())
    }

    /// The address of the admin listener.
    #[must_use]
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin.as_ref().and_then(|(listener, _)| listener.local_addr().ok())
    }

    /// The address of the listener for probes.
    #[must_use]
    pub fn probe_address(&self) -> Option<SocketAddr> {
        self.probes.as_ref().and_then(|listener| listener.local_addr().ok())
    }

    /// Serves `routes` and the gRPC health service until `end` is ready. Then health says `NOT_SERVING`, as it
    /// does whenever something holds `readiness` back; after [`Drain::notice`] no connection is accepted any
    /// more, and open streams have [`Drain::limit`] to finish.
    ///
    /// `name` is the gRPC service whose health is reported, besides the empty name.
    ///
    /// # Errors
    /// When gRPC cannot be served, or no longer; not for what goes wrong on one connection.
    pub async fn serve(
        self,
        routes: Routes,
        name: &'static str,
        port: AdminPort,
        readiness: &Readiness,
        drain: Drain,
        end: impl Future<Output = ()>,
    ) -> Result<(), ServeError> {
        let (health, health_service) = tonic_health::server::health_reporter();
        report(&health, name, &readiness.subscribe()).await;
        tokio::spawn(keep_reporting(health.clone(), name, readiness.subscribe()));
        // Health is added behind the token: probes and Envoy's health checks have none.
        let routes = match self.grpc_token {
            Some(token) => guarded(routes, token),
            None => routes,
        };
        let routes = with_probe(routes.add_service(health_service), readiness.subscribe());
        let (close, _) = watch::channel(false);
        let listeners = (self.admin, self.probes);
        serve_admin(listeners, port, readiness.subscribe(), self.access)?;
        let mut serving = JoinSet::new();
        match self.tcp {
            Some((listener, Some(gate))) => {
                let incoming = secured(listener, gate);
                serving.spawn(serve_on(incoming, routes.clone(), close.subscribe()));
            }
            Some((listener, None)) => {
                // Small messages go back and forth: waiting to fill a packet only adds latency.
                let incoming = TcpListenerStream::new(listener)
                    .map(|stream| stream.inspect(|stream| drop(stream.set_nodelay(true))));
                serving.spawn(serve_on(incoming, routes.clone(), close.subscribe()));
            }
            None => {}
        }
        let mut socket_path = None;
        if let Some((listener, path)) = self.unix {
            socket_path = Some(path);
            let incoming = UnixListenerStream::new(listener);
            serving.spawn(serve_on(incoming, routes, close.subscribe()));
        }
        let finished = tokio::select! {
            () = end => None,
            Some(finished) = serving.join_next() => Some(finished),
        };
        tracing::info!("draining: not ready any more, open streams finish");
        readiness.hold(DRAINING, "the process ends");
        report(&health, name, &readiness.subscribe()).await;
        if finished.is_none() {
            tokio::time::sleep(drain.notice).await;
        }
        close.send_replace(true);
        let all = async { while serving.join_next().await.is_some() {} };
        if tokio::time::timeout(drain.limit, all).await.is_err() {
            tracing::warn!(
                "streams were still open at the end of the drain time, they are cut off"
            );
        }
        if let Some(path) = socket_path {
            // Already gone is as good.
            let _ = std::fs::remove_file(path);
        }
        finished.map_or(Ok(()), |finished| Err(unasked(finished)))
    }
}

/// Serves the admin port and that of probes, where there are such, until the process ends.
fn serve_admin(
    (admin, probes): (Option<(TcpListener, Option<Gate>)>, Option<TcpListener>),
    port: AdminPort,
    causes: watch::Receiver<Causes>,
    access: Access,
) -> Result<(), ServeError> {
    if admin.is_none() && probes.is_none() {
        return Ok(());
    }
    let desk = admin::Admin::new(port, causes, access).map_err(ServeError::Thread)?;
    if let Some(listener) = probes {
        tokio::spawn(admin::serve(listener, None, desk.for_probes()));
    }
    if let Some((listener, gate)) = admin {
        tokio::spawn(admin::serve(listener, gate, desk));
    }
    Ok(())
}

/// Why a listener has ended that nobody has told to.
fn unasked(finished: Result<Result<(), transport::Error>, JoinError>) -> ServeError {
    match finished {
        Ok(Ok(())) => ServeError::Listener(None),
        Ok(Err(error)) => ServeError::Grpc(error),
        Err(error) => ServeError::Listener(Some(error)),
    }
}

/// `GET /readyz` beside the gRPC services, over HTTP/1.1 too, with the admin port's answer: for control planes
/// whose Envoys cannot ask by gRPC, and may not reach the admin port.
fn with_probe(routes: Routes, causes: watch::Receiver<Causes>) -> Routes {
    let answer = move || core::future::ready(admin::ready(&causes.borrow()).map(Full::new));
    routes.into_axum_router().route("/readyz", routing::get(answer)).into()
}

fn token(listener: &'static str, file: Option<&Path>) -> Result<Option<Token>, BindError> {
    let token = file.map(|file| Token::load(listener, file)).transpose();
    token.map_err(|error| BindError::of_token(listener, error))
}

/// A listener for what `protocols` name, with or without TLS.
async fn bind(
    name: &'static str,
    protocols: &'static [&'static [u8]],
    address: Option<SocketAddr>,
    tls: Option<&Tls>,
) -> Result<Option<(TcpListener, Option<Gate>)>, BindError> {
    let Some(address) = address else { return Ok(None) };
    let gate = tls.map(|tls| Gate::load(name, protocols, tls)).transpose();
    let gate = gate.map_err(|error| BindError::of_tls(address, error))?;
    Ok(Some((listener::tcp(address).await?, gate)))
}

/// Serves connections until the door is closed, and those that are open to their end.
async fn serve_on<S, I>(
    incoming: S,
    routes: Routes,
    close: watch::Receiver<bool>,
) -> Result<(), transport::Error>
where
    S: Stream<Item = io::Result<I>>,
    I: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
{
    let (incoming, closed) = (patient("gRPC", incoming), closed(close));
    builder().add_routes(routes).serve_with_incoming_shutdown(incoming, closed).await
}

/// Says by gRPC whether the process is ready, for itself and for the service `name`.
async fn report(health: &HealthReporter, name: &str, causes: &watch::Receiver<Causes>) {
    let ready = causes.borrow().is_empty();
    let status = if ready { ServingStatus::Serving } else { ServingStatus::NotServing };
    for service in ["", name] {
        health.set_service_status(service, status).await;
    }
}

async fn keep_reporting(
    health: HealthReporter,
    name: &'static str,
    mut causes: watch::Receiver<Causes>,
) {
    while causes.changed().await.is_ok() {
        report(&health, name, &causes).await;
    }
}

fn builder() -> transport::Server {
    transport::Server::builder()
        .accept_http1(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
}

async fn closed(mut close: watch::Receiver<bool>) {
    // An error means that the sender is gone: then it is time to end as well.
    let _ = close.wait_for(|closed| *closed).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn bug() -> Result<(), transport::Error> {
        panic!("a bug")
    }

    #[tokio::test]
    async fn a_listener_that_ends_by_itself_is_an_error() {
        let mut listeners = JoinSet::new();
        listeners.spawn(async { Ok(()) });
        let ended = unasked(listeners.join_next().await.unwrap());
        assert!(ended.to_string().contains("a listener has ended"), "{ended}");
        listeners.spawn(bug());
        let panicked = unasked(listeners.join_next().await.unwrap());
        assert!(panicked.to_string().contains("panicked"), "{panicked}");
    }
}
