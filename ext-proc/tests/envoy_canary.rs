//! The canary through Envoy, with a stand-in for Envoy that refuses, or does not.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use harness::{Service, counted, eventually, get};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

const REFUSED: &str = "HTTP/1.1 403 Forbidden\r\ncache-control: no-store\r\nvary: accept\r\n\r\n";
const PASSED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Answers each request with one or the other.
async fn stand_in(refuses: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 4_096];
            let length = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            assert!(request.starts_with("GET /?attack=1 HTTP/1.1\r\nhost: shop.example\r\n"));
            let answer = if refuses.load(Ordering::Relaxed) { REFUSED } else { PASSED };
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attack_that_passes_envoy_turns_readiness_off() {
    let refuses = Arc::new(AtomicBool::new(true));
    let port = stand_in(Arc::clone(&refuses)).await;
    let config = format!(
        "canary_seconds: 1\ncanary_envoy:\n  address: 127.0.0.1:{port}\n  host: shop.example\n  \
         uri: /?attack=1\n"
    );
    let service =
        Service::start(&config, "SecRule ARGS:a \"@streq 1\" \"id:1,phase:1,deny\"").await;
    counted(&service, "glacis_canary_envoy_total{result=\"refused\"} 1").await;
    assert_eq!((get(service.admin, "/readyz").await.0, service.health().await), (200, 1));
    refuses.store(false, Ordering::Relaxed);
    eventually(async || get(service.admin, "/readyz").await.0 == 503).await;
    let why = get(service.admin, "/readyz").await.1;
    assert!(why.contains("a known attack passes Envoy: it was answered with 200"), "{why}");
    assert_eq!(service.health().await, 2);
    refuses.store(true, Ordering::Relaxed);
    eventually(async || get(service.admin, "/readyz").await.0 == 200).await;
    assert_eq!(service.health().await, 1);
}
