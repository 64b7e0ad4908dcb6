//! What Helm prints after an installation: the next step, and warnings.

use super::Helm;
use super::stored::Stored;
use crate::failure::{Failure, Outcome};

/// Values, parts that the text has, and parts that it does not have.
const NOTES: &[(&str, &[&str], &[&str])] = &[
    (
        "{}",
        &["WARNING: image.registry is empty", "glacis-ext-proc:", "2. Attach your Envoys", "helm test glacis"],
        &["has no guard"],
    ),
    (
        "{image: {registry: r}, attach: {istio: {a: {kind: gateway, namespace: a, selector: {b: c}}}}}",
        &["2. Nothing is blocked", "get secret glacis-tokens", "-f values.yaml"],
        &["WARNING", "Attach your Envoys"],
    ),
    (
        "{image: {registry: r}, tokens: {admin: false}, extProc: {config: {mode: on}}, attach: {files: true}}",
        &["2. Send an attack"],
        &["WARNING", "Nothing is blocked", "get secret"],
    ),
    (
        "{image: {registry: r}, tokens: {grpc: false}, attach: {envoyGateway: {a: {namespace: a, unguarded: true,
          targetRefs: [{kind: Gateway, name: eg}]}}}}",
        &["WARNING: attach.envoyGateway.a has no guard"],
        &["image.registry is empty"],
    ),
    (
        "{image: {registry: r}, tokens: {grpc: false}, wasm: {url: 'oci://r/m:1'}, attach: {envoyGateway: {a: {
          namespace: a, targetRefs: [{kind: Gateway, name: eg}]}}}}",
        &["2. Nothing is blocked"],
        &["WARNING"],
    ),
    (
        "{image: {registry: r}, extProc: {enabled: false}, attach: {istio: {a: {kind: gateway, namespace: a, native: true}},
          envoyGateway: {b: {namespace: a, native: true, envoyProxy: p, targetRefs: [{kind: Gateway, name: eg}]}}}}",
        &["r/glacis-native:", "sidecar.istio.io/userVolume:", "parametersRef: {group: gateway.envoyproxy.io, kind: EnvoyProxy, name: p}", "1. Nothing runs here", "2. Nothing is blocked: native.config.mode"],
        &["WARNING", "glacis-ext-proc", "rollout status"],
    ),
    (
        "{image: {registry: r}, native: {volume: init}, attach: {istio: {a: {kind: gateway, namespace: a, native: true}},
          envoyGateway: {b: {namespace: a, native: true, targetRefs: [{kind: Gateway, name: eg}]}}}}",
        &["r/glacis-native-init:", "your EnvoyProxy needs the native module"],
        &["sidecar.istio.io/userVolume:"],
    ),
];

pub(super) fn check(helm: &Helm) -> Outcome<()> {
    let mut stored = Stored::new(helm)?;
    let mut wrong = Vec::new();
    for (values, parts, absent) in NOTES {
        stored.forget();
        let file = stored.values_file(0, values)?;
        stored.upgrade(&["--install".to_owned(), "--values".to_owned(), file])?;
        let notes = stored.notes();
        let missing = parts.iter().filter(|part| !notes.contains(**part));
        wrong
            .extend(missing.map(|part| format!("NOTES.txt for {values} lacks {part:?}:\n{notes}")));
        let present = absent.iter().filter(|part| notes.contains(**part));
        wrong.extend(present.map(|part| format!("NOTES.txt for {values} has {part:?}:\n{notes}")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}
