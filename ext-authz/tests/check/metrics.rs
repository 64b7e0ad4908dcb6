//! Metrics as they are scraped: what the reference says is there, and nothing else.

use std::{fs, path::Path};

use glacis_ext_authz::metrics_reference;

use glacis_limits::lease::wire::KeyAsk;

use crate::{
    fleet::{Redis, until_connected},
    harness::{Asked, Service, documented, scraped},
    leases::{LEASES, WANT, lease},
    quota::QUOTA,
};

#[test]
fn the_reference_is_what_the_table_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/metrics-ext-authz.md");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(&path, metrics_reference()).unwrap();
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == metrics_reference(), "{}; UPDATE_EXPECT=1 renews it", path.display());
}

#[tokio::test]
async fn a_scrape_has_what_is_documented() {
    let limits =
        "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1}}]\n";
    let redis = Redis::start();
    let store = redis.section();
    let service = Service::start(
        &format!(
            "otherwise: allow\nrate_limit_service: {{config: limits}}\n{store}{LEASES}{QUOTA}"
        ),
        &[("limits/d.yaml", limits)],
    );
    until_connected(&service);
    service.check(&Asked::get("/")).await.unwrap();
    service.limit("d", "k", "v").await;
    lease(&service, vec![KeyAsk::new("api", [1; 16], &WANT)]).await.unwrap();
    let documented = documented(&metrics_reference());
    assert_eq!(scraped(&service.get("/metrics").1), documented);
}
