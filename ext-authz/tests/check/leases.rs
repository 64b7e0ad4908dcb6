//! The lender, asked as the wasm-filter asks.

use glacis_limits::lease::{
    Ask,
    desk::ASKS_MAX,
    wire::{self, KeyAnswer, KeyAsk, LeaseRequest, LeaseResponse},
};
use tonic::{Code, Request, Status, client::Grpc, codegen::http::uri::PathAndQuery};
use tonic_prost::ProstCodec;

use crate::harness::Service;

/// A hundred tokens may be outstanding.
pub(crate) const LEASES: &str =
    "leases: {limits: [{name: api, requests: 1000, per_seconds: 60, burst: 150}]}\n";

pub(crate) const WANT: Ask = Ask { want: 80, left: 0, returned: 0, spent: 0 };

/// Calls the lender.
pub(crate) async fn lease(service: &Service, asks: Vec<KeyAsk>) -> Result<Vec<KeyAnswer>, Status> {
    call(service, wire::METHOD, asks).await
}

async fn call(
    service: &Service,
    method: &str,
    asks: Vec<KeyAsk>,
) -> Result<Vec<KeyAnswer>, Status> {
    let mut grpc = Grpc::new(service.channel().await);
    grpc.ready().await.unwrap();
    let path = format!("/{}/{method}", wire::SERVICE);
    let codec = ProstCodec::<LeaseRequest, LeaseResponse>::default();
    let request = Request::new(LeaseRequest { borrower: 7, asks });
    let answered = grpc.unary(request, PathAndQuery::try_from(path).unwrap(), codec).await?;
    Ok(answered.into_inner().answers)
}

#[tokio::test]
async fn tokens_are_lent() {
    let service = Service::start(LEASES, &[]);
    let ask = |limit: &str| KeyAsk::new(limit, [1; 16], &WANT);
    let answers = lease(&service, vec![ask("api"), ask("other")]).await.unwrap();
    let expected =
        KeyAnswer { granted: 80, lifetime_ms: 6_000, retry_after_ms: 0, unavailable: false };
    assert_eq!(answers, [expected, KeyAnswer::UNAVAILABLE]);
    // The limit has seventy left, or one more for each sixty milliseconds since.
    let answers = lease(&service, vec![ask("api")]).await.unwrap();
    assert!((70..80).contains(&answers[0].granted), "{answers:?}");
    assert_eq!(service.metric(r#"glacis_leases{limit="api"}"#), 1.0);
    assert_eq!(service.metric(r#"glacis_lease_calls_total{outcome="unavailable"}"#), 1.0);

    let other = call(&service, "Other", vec![ask("api")]).await;
    assert_eq!(other.unwrap_err().code(), Code::Unimplemented);

    let many = vec![ask("api"); ASKS_MAX + 1];
    assert_eq!(lease(&service, many).await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(lease(&service, vec![ask("api"); ASKS_MAX]).await.unwrap().len(), ASKS_MAX);
}

/// Without limits to lend nobody is there to be asked.
#[tokio::test]
async fn no_lender_without_limits() {
    let service = Service::start("", &[]);
    let refused = lease(&service, vec![KeyAsk::new("api", [1; 16], &WANT)]).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}
