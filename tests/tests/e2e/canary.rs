//! The canary that ext-proc sends through the real Envoy.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use glacis_tests::http::{self, Request};
use glacis_tests::stack::{Ports, Processor};

use crate::support::{Own, client, eventually};

/// Rules that block nothing are as good as none: the attack arrives, and the service is not ready, until they block
/// again.
#[test]
fn rules_that_do_not_block_are_noticed() {
    let ports = Ports::free().unwrap();
    let keys = format!(
        "canary_seconds: 1\ncanary_envoy: {{address: \"127.0.0.1:{}\", host: shop.example}}\n",
        ports.proxy
    );
    // It lives as long as the process, as tests do.
    let keys: &'static str = keys.leak();
    let own = Own::on("canary", ports, Processor::ExtProcWith(keys), &[]);
    let stack = &own.0;
    let ext_proc = stack.ext_proc.as_ref().unwrap();
    let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, ports.ext_proc_admin));
    let patience = Duration::from_secs(30);
    let sent = |result: &str| {
        let name = format!("glacis_canary_envoy_total{{result=\"{result}\"}}");
        ext_proc.metrics().unwrap()[&name]
    };
    eventually("the canary is refused", patience, || sent("refused") >= 2.0);
    let ready = || http::fetch(admin, "/readyz").unwrap();
    assert_eq!((ready().status, sent("passed")), (200, 0.0));

    ext_proc.set_keys(&format!("{keys}mode: detection\n")).unwrap();
    ext_proc.hang_up().unwrap();
    eventually("the service is not ready", patience, || ready().status == 503);
    let why = ready().text();
    assert!(why.contains("canary_envoy") && why.contains("a known attack passes Envoy"), "{why}");
    assert!(sent("passed") >= 1.0);
    assert!(stack.folder.read("ext-proc.log").contains("not ready: a known attack passes Envoy"));
    // Envoy hears of it, and its failure mode decides.
    eventually("Envoy asks nobody", patience, || {
        stack.send(client(), &Request::get("/echo").browser()).unwrap().status == 503
    });

    ext_proc.set_keys(keys).unwrap();
    ext_proc.hang_up().unwrap();
    let refused = sent("refused");
    eventually("the canary is refused again", patience, || {
        sent("refused") > refused && ready().status == 200
    });
    eventually("requests pass again", patience, || {
        stack.send(client(), &Request::get("/echo").browser()).unwrap().status == 200
    });
}
