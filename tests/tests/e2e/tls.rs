//! Mutual TLS between Envoy and ext-proc, and certificates that are exchanged under load.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::scope;
use std::time::Duration;

use glacis_tests::certificates::{Authority, Pair};
use glacis_tests::ext_proc::ExtProc;
use glacis_tests::http::{Connection, Request};
use glacis_tests::log::Folder;
use glacis_tests::reload::PATIENT;
use glacis_tests::stack::{Ports, Processor};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use crate::support::{Own, client, eventually, folder};

const RULE: &str = r#"SecRule ARGS "@contains attack" "id:1,phase:2,deny,status:403,log""#;

/// ext-proc that lets in whoever has a certificate for `envoy.test`.
fn ext_proc(ports: &Ports, folder: &Folder) -> ExtProc {
    let config = format!(
        "listen:\n  tcp: 127.0.0.1:{}\n  tls: {{certificate: tls.crt, key: tls.key, client_ca: ca.crt, \
         client_names: [envoy.test]}}\nadmin: {{address: \"127.0.0.1:{}\"}}\n\
         directives: '{RULE}'\ncanary: /?q=attack\naudit: {{stdout: false}}\nreload_seconds: 1\n\
         deadline_ms: 0\noverload: {{lag_ms: 60000}}\n",
        ports.ext_proc, ports.ext_proc_admin
    );
    ExtProc::start_with(&config, ports.ext_proc_admin, folder).unwrap()
}

/// Writes files so that none is seen in part.
fn put(folder: &Folder, files: &[(&str, &str)]) {
    for (name, text) in files {
        folder.write(&format!("{name}.new"), text).unwrap();
    }
    for (name, _) in files {
        fs::rename(folder.file(&format!("{name}.new")), folder.file(name)).unwrap();
    }
}

/// The cluster of ext-proc with TLS and a certificate to show, and with connections that do not last, so that
/// there is a handshake now and then.
fn edits(folder: &Folder) -> [(String, String); 2] {
    let file = |name: &str| folder.file(name).display().to_string();
    let name = "  - name: glacis-ext-proc\n    connect_timeout: 0.25s\n";
    let tls = format!(
        "  - name: glacis-ext-proc\n    connect_timeout: 5s\n    transport_socket:\n      \
         name: envoy.transport_sockets.tls\n      typed_config:\n        \
         \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext\n        \
         sni: ext-proc.test\n        common_tls_context:\n          \
         tls_certificates: [{{certificate_chain: {{filename: {}}}, private_key: {{filename: {}}}}}]\n          \
         validation_context:\n            trusted_ca: {{filename: {}}}\n            \
         match_typed_subject_alt_names: [{{san_type: DNS, matcher: {{exact: ext-proc.test}}}}]\n",
        file("envoy.crt"),
        file("envoy.key"),
        file("ca.crt"),
    );
    let options = "        explicit_http_config:\n          http2_protocol_options:\n";
    let short = format!(
        "        common_http_protocol_options: {{max_requests_per_connection: 20}}\n{options}"
    );
    [(name.to_owned(), tls), (options.to_owned(), short)]
}

const ACCEPTED: &str = r#"glacis_tls_handshakes_total{listener="grpc",result="success"}"#;
const RELOADED: &str = r#"glacis_tls_reloads_total{listener="grpc",result="success"}"#;

#[test]
fn certificates_are_exchanged_under_load() {
    let certificates = Folder::new(&folder("tls-certificates")).unwrap();
    let authority = Authority::new().unwrap();
    let issue = |name: &str| authority.issue(name).unwrap();
    let (server, envoy) = (issue("ext-proc.test"), issue("envoy.test"));
    put(
        &certificates,
        &[
            ("tls.crt", &server.certificate),
            ("tls.key", &server.key),
            ("envoy.crt", &envoy.certificate),
            ("envoy.key", &envoy.key),
            ("ca.crt", &authority.certificate),
        ],
    );
    let ports = Ports::free().unwrap();
    let ext_proc = ext_proc(&ports, &certificates);
    let edits = edits(&certificates);
    let edits = edits.iter().map(|(old, new)| (old.as_str(), new.as_str()));
    // The time to connect is edited above already.
    let patient = PATIENT.iter().copied();
    let edits: Vec<_> = edits.chain(patient).collect();
    let own = Own::on("tls", ports, Processor::Other, &edits);
    let count = |name: &str| ext_proc.metrics().unwrap().get(name).copied().unwrap_or_default();

    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut connection = Connection::open(Some(client()), own.0.proxy()).unwrap();
                while !over.load(Ordering::Relaxed) {
                    for (target, status) in [("/echo?q=fine", 200), ("/echo?q=attack", 403)] {
                        let answer = connection.send(&Request::get(target).browser());
                        let answer = answer.inspect_err(|_| over.store(true, Ordering::Relaxed));
                        let answer = answer.unwrap();
                        over.fetch_or(answer.status != status, Ordering::Relaxed);
                        assert_eq!(answer.status, status, "{}", answer.text());
                        sent.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for exchange in 1..=3 {
            let Pair { certificate, key } = issue("ext-proc.test");
            put(&certificates, &[("tls.crt", &certificate), ("tls.key", &key)]);
            eventually("other certificates are in use", Duration::from_secs(30), || {
                count(RELOADED) >= f64::from(exchange) || over.load(Ordering::Relaxed)
            });
            let before = count(ACCEPTED);
            eventually("Envoy has connected anew", Duration::from_secs(30), || {
                count(ACCEPTED) > before || over.load(Ordering::Relaxed)
            });
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(sent.load(Ordering::Relaxed) > 20);
    assert_eq!(count(RELOADED), 3.0);

    // Envoy got in; whoever has no certificate, or one with another name, does not.
    let ask = |identity: Option<&Pair>| ask(&authority, identity, own.0.ports.ext_proc);
    assert!(ask(Some(&envoy)));
    assert!(!ask(None) && !ask(Some(&issue("other.test"))));
    assert!(!ask(Some(&Authority::new().unwrap().issue("envoy.test").unwrap())));
}

/// Whether ext-proc answers a client with this certificate.
fn ask(authority: &Authority, identity: Option<&Pair>, port: u16) -> bool {
    let mut tls = ClientTlsConfig::new()
        .domain_name("ext-proc.test")
        .ca_certificate(Certificate::from_pem(&authority.certificate));
    if let Some(Pair { certificate, key }) = identity {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    let endpoint = Endpoint::from_shared(format!("https://127.0.0.1:{port}")).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let channel = endpoint.tls_config(tls).unwrap().connect_lazy();
        let request = HealthCheckRequest { service: String::new() };
        HealthClient::new(channel).check(request).await.is_ok()
    })
}
