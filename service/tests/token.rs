//! Tokens on the gRPC port and on the admin port, and what needs none.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

use core::{net::SocketAddr, time::Duration};
use std::{fs, path::PathBuf, sync::Arc, time::Instant};

use glacis_service::{
    Readiness, Server,
    admin::{AdminHandler, AdminPort, AdminRequest, Handled, text},
    config::{Admin, Drain, Listen},
    metrics::ServiceMetrics,
    telemetry,
};
use http::StatusCode;
use prometheus_client::registry::Registry;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tonic::{Code, Request, client, service::Routes, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_client::HealthClient};
use tonic_prost::ProstCodec;

const GRPC: &str = "grpc-0123456789abcdef";
const ADMIN: &str = "admin-0123456789abcdef";

/// One path of its own.
struct Mine;

impl AdminHandler for Mine {
    fn handle(&self, request: &AdminRequest) -> Option<Handled> {
        let answer = || Handled::Now(text(StatusCode::OK, "mine\n".to_owned()));
        (request.path == "/mine").then(answer)
    }

    fn paths(&self) -> &'static str {
        "/mine"
    }
}

struct Running {
    grpc: SocketAddr,
    admin: SocketAddr,
    probes: SocketAddr,
    folder: PathBuf,
}

impl Running {
    async fn start(name: &str, open_metrics: bool) -> Self {
        let folder =
            std::env::temp_dir().join(format!("glacis-token-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("grpc"), GRPC).unwrap();
        fs::write(folder.join("admin"), format!("{ADMIN}\n")).unwrap();
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let token_file = Some(folder.join("grpc"));
        let listen: Listen = Listen { tcp: any, token_file, ..Listen::default() };
        let admin: Admin = Admin {
            address: any,
            token_file: Some(folder.join("admin")),
            probe_address: any,
            open_metrics,
            ..Admin::default()
        };
        let mut server = Server::bind(&listen, &admin).await.unwrap();
        let mut registry = Registry::default();
        let metrics = ServiceMetrics::register(&mut registry, "test");
        server.watch_tokens(Some(Duration::from_millis(20)), &metrics.tokens).unwrap();
        let running = Self {
            grpc: server.tcp_address().unwrap(),
            admin: server.admin_address().unwrap(),
            probes: server.probe_address().unwrap(),
            folder,
        };
        tokio::spawn(async move {
            let drain = Drain { notice: Duration::ZERO, limit: Duration::ZERO };
            let (never, readiness) = (core::future::pending(), Readiness::new());
            let log_level = telemetry::init(tracing::Level::ERROR);
            let registry = Arc::new(registry);
            let port = AdminPort { registry, log_level, handler: Arc::new(Mine) };
            server.serve(Routes::default(), "test", port, &readiness, drain, never).await.unwrap();
        });
        running
    }

    /// What a call of a method that nobody serves ends with.
    async fn call(&self, token: Option<&str>) -> Code {
        let mut client = client::Grpc::new(self.channel().await);
        client.ready().await.unwrap();
        let mut request = Request::new(HealthCheckRequest::default());
        if let Some(token) = token {
            let value = format!("Bearer {token}").parse().unwrap();
            request.metadata_mut().insert("authorization", value);
        }
        let codec = ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
        let path = http::uri::PathAndQuery::from_static("/some.Service/Call");
        client.unary(request, path, codec).await.unwrap_err().code()
    }

    async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.grpc)).unwrap().connect().await.unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Status and text of an answer.
async fn get(from: SocketAddr, path: &str, token: Option<&str>) -> (u16, String) {
    let mut stream = TcpStream::connect(from).await.unwrap();
    let token = token.map(|token| format!("authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{token}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

#[tokio::test]
async fn the_admin_port_wants_its_token() {
    for open_metrics in [false, true] {
        let running = Running::start(&format!("admin-{open_metrics}"), open_metrics).await;
        let (admin, probes) = (running.admin, running.probes);
        let metrics = if open_metrics { 200 } else { 401 };
        for (to, path, token, status) in [
            (admin, "/mine", None, 401),
            (admin, "/mine", Some(GRPC), 401),
            (admin, "/mine", Some(ADMIN), 200),
            (admin, "/", None, 401),
            (admin, "/log-level", None, 401),
            (admin, "/metrics", None, metrics),
            (admin, "/metrics", Some(ADMIN), 200),
            // Probes bring no token, and are right under a wrong one.
            (admin, "/livez", None, 200),
            (admin, "/healthz", None, 200),
            (admin, "/readyz", None, 200),
            (admin, "/readyz", Some("wrong"), 200),
            (probes, "/livez", None, 200),
            (probes, "/readyz", None, 200),
            (probes, "/metrics", None, if open_metrics { 200 } else { 404 }),
            // The port of probes has nothing else, whatever is brought.
            (probes, "/mine", Some(ADMIN), 404),
            (probes, "/log-level", Some(ADMIN), 404),
        ] {
            let (found, answer) = get(to, path, token).await;
            assert_eq!(found, status, "{path} {token:?} {open_metrics}: {answer}");
            let challenges = answer.matches("www-authenticate: ").count();
            assert_eq!(challenges, if status == 401 { 2 } else { 0 }, "{answer}");
        }
        let (_, told) = get(admin, "/metrics", Some(ADMIN)).await;
        let rejected = if open_metrics { 4 } else { 5 };
        let line = format!("glacis_unauthenticated_total{{listener=\"admin\"}} {rejected}\n");
        assert!(told.contains(&line), "{told}");
    }
}

#[tokio::test]
async fn the_grpc_port_wants_its_token() {
    let running = Running::start("grpc", true).await;
    for (token, code) in [
        (None, Code::Unauthenticated),
        (Some(ADMIN), Code::Unauthenticated),
        (Some(GRPC), Code::Unimplemented),
    ] {
        assert_eq!(running.call(token).await, code, "{token:?}");
    }
    // Health needs none, by gRPC and by HTTP.
    let mut health = HealthClient::new(running.channel().await);
    assert!(health.check(HealthCheckRequest::default()).await.is_ok());
    assert_eq!(get(running.grpc, "/readyz", None).await.0, 200);
    let (_, told) = get(running.probes, "/metrics", None).await;
    assert!(told.contains("glacis_unauthenticated_total{listener=\"grpc\"} 2\n"), "{told}");
}

#[tokio::test]
async fn another_token_is_put_to_use() {
    let running = Running::start("rotated", true).await;
    assert_eq!(running.call(Some(GRPC)).await, Code::Unimplemented);
    fs::write(running.folder.join("grpc"), ADMIN).unwrap();
    let begun = Instant::now();
    while running.call(Some(ADMIN)).await != Code::Unimplemented {
        assert!(begun.elapsed() < Duration::from_secs(20), "the token was never reloaded");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(running.call(Some(GRPC)).await, Code::Unauthenticated);
    let (_, told) = get(running.probes, "/metrics", None).await;
    let line = "glacis_token_reloads_total{listener=\"grpc\",result=\"success\"} 1\n";
    assert!(told.contains(line), "{told}");
}

#[tokio::test]
async fn a_token_that_is_no_good_is_refused_at_the_start() {
    let folder = std::env::temp_dir().join(format!("glacis-token-{}-bad", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
    for content in [None, Some(""), Some("0123456789abcde")] {
        let file = folder.join("token");
        let _ = content.map(|content| fs::write(&file, content).unwrap());
        let token_file = Some(file);
        let listen: Listen = Listen { tcp: any, token_file, ..Listen::default() };
        let admin: Admin = Admin { address: any, ..Admin::default() };
        let error = Server::bind(&listen, &admin).await.unwrap_err().to_string();
        assert!(error.contains("token_file"), "{error}");
    }
    let _ = fs::remove_dir_all(&folder);
}
