//! The service as a whole: limits, metrics, audit records, and its end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests: helpers fail as assertions do")]

mod harness;

use core::time::Duration;

use harness::{Sent, Service, Stream, counted, get};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

const RULES: &str = r#"
    SecRule ARGS "@contains attack" "id:1,phase:2,deny,status:403,log,logdata:'%{MATCHED_VAR}'"
"#;

#[tokio::test]
async fn exchanges_are_counted() {
    let service = Service::start("", RULES).await;
    for (steps, lines) in [
        (
            vec![Sent::get("/", &[])],
            &["glacis_requests_total{profile=\"default\",verdict=\"allow\"} 1"][..],
        ),
        (
            vec![Sent::get("/?q=attack", &[])],
            &[
                "glacis_requests_total{profile=\"default\",verdict=\"deny\"} 1",
                "glacis_rule_matches_total{rule_id=\"1\"} 1",
            ],
        ),
        (
            vec![Sent::post("/", &[])],
            &[
                "glacis_requests_total{profile=\"default\",verdict=\"none\"} 1",
                "glacis_uninspected_total{reason=\"body_not_sent\"} 1",
            ],
        ),
    ] {
        let mut stream = Stream::open(service.channel().await).await.unwrap();
        for sent in &steps {
            stream.send(sent).await;
            stream.answer().await;
        }
        drop(stream);
        for line in lines {
            counted(&service, line).await;
        }
    }
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::RequestTrailers(&[])).await;
    stream.answer().await;
    counted(&service, "glacis_errors_total{kind=\"protocol\"} 1").await;
    counted(&service, "glacis_streams_open 0").await;
}

#[tokio::test]
async fn streams_are_bounded() {
    let service = Service::start("max_streams: 1\n", RULES).await;
    let channel = service.channel().await;
    let mut first = Stream::open(channel.clone()).await.unwrap();
    first.send(&Sent::get("/", &[])).await;
    first.answer().await;
    // One more is let in, to be rejected when its headers come.
    let second = Stream::open(channel.clone()).await.unwrap();
    let third = Stream::open(channel.clone()).await;
    assert_eq!(third.err().unwrap().code(), tonic::Code::ResourceExhausted);
    counted(&service, "glacis_errors_total{kind=\"overload\"} 1").await;
    first.send(&Sent::End).await;
    assert_eq!(first.answer().await, "end");
    drop((first, second));
    counted(&service, "glacis_streams_open 0").await;
    Stream::open(channel).await.unwrap();
}

#[tokio::test]
async fn refusals_are_recorded_without_secrets() {
    let file = std::env::temp_dir().join(format!("glacis-audit-{}.json", std::process::id()));
    let config = format!("audit: {{file: {}}}\ndrain_notice_seconds: 0\n", file.display());
    let mut service = Service::start(&config, RULES).await;
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::get("/?q=fine", &[])).await;
    stream.answer().await;
    drop(stream);
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::get("/a?b=c&password=attack-hunter2", &["cookie: a=hunter2"])).await;
    stream.answer().await;
    drop(stream);
    counted(&service, "glacis_requests_total{profile=\"default\",verdict=\"deny\"} 1").await;
    drop(service.end.take());
    service.served.await.unwrap();
    let mut text = String::new();
    // The writer ends with the last stream's connection.
    for _ in 0..100 {
        text = std::fs::read_to_string(&file).unwrap();
        if text.ends_with('\n') {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    std::fs::remove_file(&file).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    for part in
        ["\"rule\":1", "\"uri\":\"/a?b=c&password=[redacted]\"", "\"logdata\":\"[redacted]\""]
    {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
}

#[tokio::test]
async fn draining() {
    let mut service = Service::start("drain_notice_seconds: 1\n", RULES).await;
    let mut health = HealthClient::new(service.channel().await);
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &["content-type: application/x-www-form-urlencoded"])).await;
    stream.answer().await;
    let names = ["", "envoy.service.ext_proc.v3.ExternalProcessor"];
    for (status, ready) in [(1, 200), (2, 503)] {
        for name in names {
            let request = HealthCheckRequest { service: name.to_owned() };
            assert_eq!(health.check(request).await.unwrap().into_inner().status, status, "{name}");
        }
        assert_eq!(get(service.admin, "/readyz").await.0, ready);
        assert_eq!(get(service.admin, "/healthz").await.0, 200);
        drop(service.end.take());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // New streams are taken while the notice is up.
    let mut late = Stream::open(service.channel().await).await.unwrap();
    late.send(&Sent::get("/", &[])).await;
    assert_eq!(late.answer().await, "request_headers allow/headers");
    drop(late);
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    assert!(std::net::TcpStream::connect(service.address).is_err());
    // The open stream gets its verdict all the same.
    stream.send(&Sent::body("q=attack", true)).await;
    assert!(stream.answer().await.starts_with("immediate 403"));
    drop((stream, health));
    tokio::time::timeout(Duration::from_secs(5), service.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_drain_time_is_an_end() {
    let config = "drain_notice_seconds: 0\ndrain_seconds: 1\n";
    let mut service = Service::start(config, RULES).await;
    let mut stream = Stream::open(service.channel().await).await.unwrap();
    stream.send(&Sent::post("/", &[])).await;
    stream.answer().await;
    drop(service.end.take());
    tokio::time::timeout(Duration::from_secs(3), service.served).await.unwrap().unwrap();
}
