//! Start, reload, alarms, end.

use envoy_types::pb::envoy::service::auth::v3::{
    CheckRequest, authorization_client::AuthorizationClient,
};
use tonic::Code;

use crate::harness::{Asked, Service, eventually};

#[tokio::test]
async fn it_answers_is_healthy_and_ends() {
    let service = Service::start("otherwise: allow\n", &[]);
    assert_eq!(service.health().await, 1);
    assert_eq!(service.get("/readyz"), (200, "ready\n".to_owned()));
    let answer = service.check(&Asked::get("/")).await.unwrap();
    assert_eq!(answer.status.unwrap().code, Code::Ok as i32);
    assert!(service.metric("glacis_authz_checks_total{verdict=\"allow\"}") > 0.5);
    let status = service.get("/status").1;
    for told in ["\"ready\":true", "\"last_reload\":null", "\"rate_limit_service\":null"] {
        assert!(status.contains(told), "{status}");
    }
    assert!(service.terminate().success());
}

#[tokio::test]
async fn what_is_no_request_has_no_verdict() {
    let service = Service::start("otherwise: allow\n", &[]);
    let mut client = AuthorizationClient::new(service.channel().await);
    let answer = client.check(CheckRequest::default()).await;
    assert_eq!(answer.unwrap_err().code(), Code::InvalidArgument);
    assert!(service.metric("glacis_authz_errors_total{kind=\"protocol\"}") > 0.5);
}

#[tokio::test]
async fn joined_headers_are_an_alarm() {
    const SAMPLE: &str = "glacis_authz_alarms_total{kind=\"no_raw_headers\"}";
    let service = Service::start("otherwise: allow\n", &[]);
    service.check(&Asked::get("/")).await.unwrap();
    assert!(service.metric(SAMPLE) < 0.5);
    service.check(&Asked::get("/").joined()).await.unwrap();
    assert!(service.metric(SAMPLE) > 0.5);
}

#[tokio::test]
async fn a_client_without_an_address_is_an_alarm() {
    const SAMPLE: &str = "glacis_authz_alarms_total{kind=\"no_client_address\"}";
    let service = Service::start("otherwise: allow\n", &[]);
    service.check(&Asked::get("/").from("192.0.2.1")).await.unwrap();
    assert!(service.metric(SAMPLE) < 0.5);
    let mut nobody = Asked::get("/");
    nobody.context.source = None;
    service.check(&nobody).await.unwrap();
    assert!(service.metric(SAMPLE) > 0.5);
}

#[test]
fn a_configuration_that_is_not_good_changes_nothing() {
    let service = Service::start("otherwise: allow\n", &[]);
    service.configure("max_checks: many\n");
    eventually("the failure is counted", || {
        service.metric("glacis_reloads_total{result=\"failure\"}") > 0.5
    });
    assert!(service.get("/status").1.contains("max_checks"));
    service.configure("max_checks: 5\n");
    eventually("the success is counted", || {
        service.metric("glacis_reloads_total{result=\"success\"}") > 0.5
    });
    assert!(service.get("/status").1.contains("\"restart_needed\":[\"max_checks\"]"));
}
