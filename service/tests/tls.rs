//! TLS on listeners: who gets in, and certificates that change while the service runs.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

use core::{net::SocketAddr, time::Duration};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use glacis_service::{
    Readiness, Server,
    admin::{AdminHandler, AdminPort, AdminRequest, Handled},
    config::{Admin, Drain, Listen},
    telemetry,
    tls::{Tls, TlsMetrics},
};
use prometheus_client::registry::Registry;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{self, RootCertStore, pki_types::ServerName},
};
use tonic::{
    service::Routes,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// An authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, in PEM.
#[derive(Clone)]
struct Pair {
    certificate: String,
    key: String,
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = pem("CERTIFICATE", params.self_signed(&key).unwrap().der());
        Self { issuer: Issuer::new(params, key), pem }
    }

    fn issue(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        let name = match name.contains("://") {
            true => SanType::URI(name.try_into().unwrap()),
            false => SanType::DnsName(name.try_into().unwrap()),
        };
        params.subject_alt_names = vec![name];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let (certificate, key) =
            (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", &key.serialize_der()));
        Pair { certificate, key }
    }
}

/// No paths but those that every service has.
struct Nothing;

impl AdminHandler for Nothing {
    fn handle(&self, _: &AdminRequest) -> Option<Handled> {
        None
    }

    fn paths(&self) -> &'static str {
        ""
    }
}

struct Running {
    grpc: SocketAddr,
    admin: SocketAddr,
    folder: PathBuf,
    registry: Arc<Registry>,
}

impl Running {
    async fn start(name: &str, server: &Pair, clients: &Authority, names: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("glacis-tls-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let tls = Tls {
            certificate: folder.join("tls.crt"),
            key: folder.join("tls.key"),
            client_ca: Some(folder.join("ca.crt")),
            client_names: names.iter().map(|&name| name.to_owned()).collect(),
        };
        put(&folder, "tls.crt", &server.certificate);
        put(&folder, "tls.key", &server.key);
        put(&folder, "ca.crt", &clients.pem);
        let any = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listen: Listen = Listen { tcp: any, tls: Some(tls.clone()), ..Listen::default() };
        let admin: Admin = Admin { address: any, tls: Some(tls), ..Admin::default() };
        let mut bound = Server::bind(&listen, &admin).await.unwrap();
        let (mut registry, metrics) = (Registry::default(), TlsMetrics::default());
        registry.register("handshakes", "", metrics.handshakes.clone());
        registry.register("reloads", "", metrics.reloads.clone());
        bound.watch_certificates(Some(Duration::from_millis(20)), &metrics).unwrap();
        let (grpc, admin) = (bound.tcp_address().unwrap(), bound.admin_address().unwrap());
        let registry = Arc::new(registry);
        let shown = Arc::clone(&registry);
        tokio::spawn(async move {
            let drain = Drain { notice: Duration::ZERO, limit: Duration::ZERO };
            let never = core::future::pending();
            let readiness = Readiness::new();
            let log_level = telemetry::init(tracing::Level::ERROR);
            let port = AdminPort { registry: shown, log_level, handler: Arc::new(Nothing) };
            bound.serve(Routes::default(), "test", port, &readiness, drain, never).await.unwrap();
        });
        Self { grpc, admin, folder, registry }
    }

    /// Whether a client that trusts `ca` and shows `identity` gets an answer.
    async fn serves(&self, ca: &Authority, identity: Option<&Pair>) -> bool {
        let mut tls = ClientTlsConfig::new()
            .domain_name("server.test")
            .ca_certificate(Certificate::from_pem(&ca.pem));
        if let Some(Pair { certificate, key }) = identity {
            tls = tls.identity(Identity::from_pem(certificate, key));
        }
        let endpoint = Endpoint::from_shared(format!("https://{}", self.grpc)).unwrap();
        let channel = endpoint.tls_config(tls).unwrap().connect_lazy();
        answers(channel).await
    }

    /// Waits until metrics have the line.
    async fn counted(&self, line: &str) {
        let mut text = String::new();
        for _ in 0..500 {
            text.clear();
            prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
            if text.lines().any(|found| found == line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no {line} in\n{text}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Replaces a file at once.
fn put(folder: &Path, name: &str, text: &str) {
    let new = folder.join(format!("{name}.new"));
    fs::write(&new, text).unwrap();
    fs::rename(new, folder.join(name)).unwrap();
}

async fn answers(channel: Channel) -> bool {
    let request = HealthCheckRequest { service: String::new() };
    let mut client = HealthClient::new(channel);
    let answer = tokio::time::timeout(Duration::from_secs(10), client.check(request)).await;
    answer.unwrap().is_ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_gets_in() {
    let (servers, clients, others) = (Authority::new(), Authority::new(), Authority::new());
    let server = servers.issue("server.test");
    let spiffe = "spiffe://mesh/ns/edge/sa/envoy";
    for (name, names, client, expected, counted) in [
        ("any", &[][..], Some((&clients, "envoy.test")), true, "success"),
        ("no-certificate", &[], None, false, "failure"),
        ("other-authority", &[], Some((&others, "envoy.test")), false, "failure"),
        ("named", &["a.test", "envoy.test"], Some((&clients, "envoy.test")), true, "success"),
        ("uri", &[spiffe], Some((&clients, spiffe)), true, "success"),
        ("other-name", &["envoy.test"], Some((&clients, "other.test")), false, "name"),
        ("longer-name", &["envoy.test"], Some((&clients, "envoy.test.evil")), false, "name"),
        ("shorter-uri", &[spiffe], Some((&clients, "spiffe://mesh/ns/edge")), false, "name"),
    ] {
        let running = Running::start(name, &server, &clients, names).await;
        let client = client.map(|(authority, name)| authority.issue(name));
        assert_eq!(running.serves(&servers, client.as_ref()).await, expected, "{name}");
        let count = format!("{{listener=\"grpc\",result=\"{counted}\"}}");
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &running.registry).unwrap();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("handshakes_total")?.strip_prefix(&count));
        assert!(line.is_some_and(|value| value != " 0"), "{name}: {text}");
        // Without TLS nobody gets in.
        let plain = Endpoint::from_shared(format!("http://{}", running.grpc)).unwrap();
        assert!(!answers(plain.connect_lazy()).await, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_exchanged() {
    let (first, second) = (Authority::new(), Authority::new());
    let (old, new) = (first.issue("server.test"), second.issue("server.test"));
    let (old_client, new_client) = (first.issue("envoy.test"), second.issue("envoy.test"));
    let running = Running::start("exchange", &old, &first, &[]).await;
    assert!(running.serves(&first, Some(&old_client)).await);
    assert!(!running.serves(&second, Some(&old_client)).await);
    assert!(!running.serves(&first, Some(&new_client)).await);

    // What is not good changes nothing.
    let mut failures = 0;
    for (file, text) in [("tls.key", &*new.key), ("tls.crt", "nothing"), ("ca.crt", "")] {
        put(&running.folder, file, text);
        failures += 1;
        for listener in ["grpc", "admin"] {
            let line = "reloads_total{listener=\"";
            running.counted(&format!("{line}{listener}\",result=\"failure\"}} {failures}")).await;
        }
        assert!(running.serves(&first, Some(&old_client)).await, "{file}");
    }
    put(&running.folder, "ca.crt", &second.pem);
    put(&running.folder, "tls.crt", &new.certificate);
    running.counted("reloads_total{listener=\"grpc\",result=\"success\"} 1").await;
    assert!(running.serves(&second, Some(&new_client)).await);
    assert!(!running.serves(&second, Some(&old_client)).await);
    assert!(!running.serves(&first, Some(&new_client)).await);
}

/// Clients that open a connection and say nothing hold up nobody.
#[tokio::test(flavor = "multi_thread")]
async fn silent_clients_are_given_up() {
    let authority = Authority::new();
    let (server, client) = (authority.issue("server.test"), authority.issue("envoy.test"));
    let running = Running::start("silent", &server, &authority, &[]).await;
    let mut silent = Vec::new();
    for _ in 0..32 {
        silent.push(TcpStream::connect(running.grpc).await.unwrap());
    }
    let begun = Instant::now();
    assert!(running.serves(&authority, Some(&client)).await);
    let at_once = begun.elapsed();
    // More than there may be at once: who comes then has to wait for the first of them to be given up.
    let mut more = Vec::new();
    for _ in 0..38 {
        more.push(TcpStream::connect(running.grpc).await.unwrap());
    }
    assert!(running.serves(&authority, Some(&client)).await);
    assert!(begun.elapsed() > Duration::from_secs(4) && at_once < Duration::from_secs(4));
    for mut stream in silent {
        let mut byte = [0];
        let closed = stream.read(&mut byte);
        let closed = tokio::time::timeout(Duration::from_secs(20), closed).await.unwrap();
        assert!(matches!(closed, Ok(0) | Err(_)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn admin() {
    let authority = Authority::new();
    let (server, client) = (authority.issue("server.test"), authority.issue("operator.test"));
    let running = Running::start("admin", &server, &authority, &[]).await;
    for (identity, expected) in [(Some(client), true), (None, false)] {
        let answer = get(running.admin, &authority, identity.as_ref(), "/healthz").await;
        assert_eq!(answer.starts_with("HTTP/1.1 200 "), expected, "{answer}");
        // Where gRPC is, there is a probe for those who cannot ask by gRPC.
        let answer = get(running.grpc, &authority, identity.as_ref(), "/readyz").await;
        assert_eq!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("ready\n"), expected);
    }
}

/// The answer, as it came; empty without one.
async fn get(address: SocketAddr, ca: &Authority, identity: Option<&Pair>, path: &str) -> String {
    use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate(&ca.pem)).unwrap();
    let config = rustls::ClientConfig::builder().with_root_certificates(roots);
    let config = match identity {
        Some(pair) => {
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
            config.with_client_auth_cert(vec![certificate(&pair.certificate)], key).unwrap()
        }
        None => config.with_no_client_auth(),
    };
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("server.test").unwrap();
    let Ok(mut stream) = TlsConnector::from(Arc::new(config)).connect(name, stream).await else {
        return String::new();
    };
    let request = format!("GET {path} HTTP/1.1\r\nhost: server.test\r\nconnection: close\r\n\r\n");
    let mut answer = Vec::new();
    let _ = stream.write_all(request.as_bytes()).await;
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}
