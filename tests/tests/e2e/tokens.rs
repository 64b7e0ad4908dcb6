//! ext-proc with a token for its gRPC port: an Envoy with it is served, one without it is not.

use std::time::Duration;

use glacis_tests::ext_proc::ExtProc;
use glacis_tests::http::Request;
use glacis_tests::log::Folder;
use glacis_tests::stack::{Ports, Processor, Stack};

use crate::support::{client, eventually, folder};

const TOKEN: &str = "e2e-0123456789abcdef";
const SERVICE: &str = "grpc_service: {envoy_grpc: {cluster_name: glacis-ext-proc}}";

#[test]
fn only_an_envoy_with_the_token_is_inspected() {
    let with = format!(
        "grpc_service: {{envoy_grpc: {{cluster_name: glacis-ext-proc}}, initial_metadata: [{{key: authorization, \
         value: \"Bearer {TOKEN}\"}}]}}"
    );
    for (name, edits, plain, attack, rejected) in [
        ("token-with", &[(SERVICE, with.as_str())][..], 200, 403, 0.0),
        // The guard lets nothing pass that has no receipt.
        ("token-without", &[], 503, 503, 2.0),
    ] {
        let ports = Ports::free().unwrap();
        let own = Folder::new(&folder(&format!("{name}-ext-proc"))).unwrap();
        own.write("token", TOKEN).unwrap();
        let config = format!(
            "listen: {{tcp: \"127.0.0.1:{}\", token_file: token}}\nadmin: {{address: \"127.0.0.1:{}\"}}\n\
             directives: 'SecRule ARGS \"@contains attack\" \"id:1,phase:1,deny\"'\n",
            ports.ext_proc, ports.ext_proc_admin
        );
        let ext_proc = ExtProc::start_with(&config, ports.ext_proc_admin, &own).unwrap();
        let stack = Stack::start(&folder(name), ports, Processor::Other, edits).unwrap();
        // Health needs no token.
        eventually("the processor is healthy", Duration::from_secs(15), || {
            stack.processor_is_healthy().unwrap()
        });
        for (target, status) in [("/?q=plain", plain), ("/?q=attack", attack)] {
            let answer = stack.send(client(), &Request::get(target).browser()).unwrap();
            assert_eq!(answer.status, status, "{name} {target}: {}", answer.text());
        }
        let metrics = ext_proc.metrics().unwrap();
        let counted = metrics["glacis_unauthenticated_total{listener=\"grpc\"}"];
        assert!((counted - rejected).abs() < 0.5, "{name}: {counted}");
    }
}
