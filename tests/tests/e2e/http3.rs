//! Requests over HTTP/3: rules see what was sent, and attacks are refused as over TCP.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, Bytes};
use glacis_tests::certificates::Authority;
use glacis_tests::http::{HOST, Request, Response};
use glacis_tests::log::Folder;
use glacis_tests::stack::{Ports, Processor, quickstart};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::rustls::crypto::ring;
use quinn::rustls::pki_types::{CertificateDer, pem::PemObject as _};
use quinn::rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout;

use crate::support::{Own, client, eventually, folder};

/// Longer than an answer takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// The quickstart's listener once more, for UDP: the lines that differ.
fn listener(port: u16, certificates: &Folder) -> String {
    let config = quickstart(&Ports::QUICKSTART, &[]).unwrap();
    let start = config.find("  - name: glacis\n").unwrap();
    let end = config.find("  clusters:\n").unwrap();
    let mut listener = config[start..end].to_owned();
    let file = |name: &str| certificates.file(name).display().to_string();
    let quic = format!(
        "    udp_listener_config: {{quic_options: {{}}}}\n    filter_chains:\n    - transport_socket:\n        \
         name: envoy.transport_sockets.quic\n        typed_config:\n          \
         \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.quic.v3.QuicDownstreamTransport\n          \
         downstream_tls_context:\n            common_tls_context:\n              \
         tls_certificates: [{{certificate_chain: {{filename: {}}}, private_key: {{filename: {}}}}}]\n      filters:\n",
        file("shop.crt"),
        file("shop.key"),
    );
    for (old, new) in [
        (
            "name: glacis\n    address: {socket_address: {",
            "name: quic\n    address: {socket_address: {protocol: UDP, ",
        ),
        ("port_value: 10000}", &format!("port_value: {port}}}")),
        ("    filter_chains:\n    - filters:\n", &quic),
        ("codec_type: AUTO", "codec_type: HTTP3"),
    ] {
        assert!(listener.contains(old), "{old:?} is not in the quickstart");
        listener = listener.replacen(old, new, 1);
    }
    listener
}

/// A port of UDP that nobody has.
fn free_port() -> u16 {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

/// Sends one request on a connection of its own.
fn send(authority: &Authority, from: Ipv4Addr, to: SocketAddr, request: &Request) -> Response {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sent = async { timeout(PATIENCE, exchange(authority, from, to, request)).await };
    runtime.block_on(sent).unwrap()
}

fn tls(authority: &Authority) -> quinn::ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate.as_bytes()).unwrap()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap();
    let mut config = config.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h3".to_vec()];
    let mut config =
        quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(config).unwrap()));
    // Batches of datagrams come over the loopback as one, which is longer than Envoy reads.
    let mut transport = quinn::TransportConfig::default();
    transport.enable_segmentation_offload(false);
    config.transport_config(Arc::new(transport));
    config
}

async fn exchange(
    authority: &Authority,
    from: Ipv4Addr,
    to: SocketAddr,
    request: &Request,
) -> Response {
    let endpoint = quinn::Endpoint::client(SocketAddr::from((from, 0))).unwrap();
    let connection = endpoint.connect_with(tls(authority), to, HOST).unwrap().await.unwrap();
    let (mut driver, mut sender) =
        h3::client::new(h3_quinn::Connection::new(connection)).await.unwrap();
    let driven = tokio::spawn(async move { driver.wait_idle().await });
    let uri = format!("https://{HOST}{}", request.target);
    let mut head = http::Request::builder().method(request.method.as_str()).uri(uri);
    for (name, value) in &request.headers {
        head = head.header(name, value.as_slice());
    }
    let mut stream = sender.send_request(head.body(()).unwrap()).await.unwrap();
    // A refusal may come before everything is sent: then the answer is what matters.
    if !request.body.is_empty() {
        let _ = stream.send_data(Bytes::from(request.body.clone())).await;
    }
    let _ = stream.finish().await;
    let head = stream.recv_response().await.unwrap();
    let mut body = Vec::new();
    while let Ok(Some(mut piece)) = stream.recv_data().await {
        body.extend_from_slice(&piece.copy_to_bytes(piece.remaining()));
    }
    drop(sender);
    driven.abort();
    endpoint.close(0_u32.into(), b"");
    let headers = head.headers().iter().map(|(name, value)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    });
    Response { status: head.status().as_u16(), headers: headers.collect(), body }
}

#[test]
fn requests_are_inspected_as_they_were_sent() {
    let certificates = Folder::new(&folder("http3-certificates")).unwrap();
    let authority = Authority::new().unwrap();
    let pair = authority.issue(HOST).unwrap();
    certificates.write("shop.crt", &pair.certificate).unwrap();
    certificates.write("shop.key", &pair.key).unwrap();
    let port = free_port();
    let quic = format!("{}  clusters:\n", listener(port, &certificates));
    let own = Own::start("http3", Processor::ExtProc, &[("  clusters:\n", &quic)]);
    let stack = &own.0;
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, port));

    let json = "application/json";
    let long = format!(r#"{{"a": "{}"}}"#, "glacis and ice ".repeat(5_000));
    let attack = format!(r#"{{"a": "{}<script>alert(1)</script>"}}"#, "and ice ".repeat(5_000));
    let target = "/echo/%2E/a//b;c=1?q=%3Cscript%3Ealert(1)%3C/script%3E";
    let rows = [
        ("no body", Request::get("/echo?q=winter+coat"), 200),
        ("a short one", Request::post("/echo", json, r#"{"a": 1}"#), 200),
        ("a long one", Request::post("/echo", json, long), 200),
        ("attack in the query", Request::get(target), 403),
        ("attack at the end of a long body", Request::post("/echo", json, attack), 403),
    ];
    let mut clients = Vec::new();
    for (name, request, status) in rows {
        let (from, request) = (client(), request.browser());
        let answer = send(&authority, from, to, &request);
        assert_eq!(answer.status, status, "{name}: {:.300}", answer.text());
        if status == 200 {
            let body = answer.json()["body_base64"].as_str().unwrap().to_owned();
            assert!(STANDARD.decode(body).unwrap() == request.body, "{name}: another body");
        } else {
            clients.push((from, request));
        }
    }
    // What rules have seen is what was sent, and by whom.
    for (from, request) in clients {
        let mut found = None;
        eventually("a record in the audit log", Duration::from_secs(5), || {
            let log = stack.audit_log();
            found = log.into_iter().find(|record| record["client"] == from.to_string());
            found.is_some()
        });
        let record = found.unwrap();
        assert_eq!(record["request"]["protocol"], "HTTP/3", "{record}");
        assert_eq!(record["uri"], request.target, "{record}");
        assert_eq!(record["host"], HOST, "{record}");
        assert_eq!(record["method"], request.method, "{record}");
    }
}
