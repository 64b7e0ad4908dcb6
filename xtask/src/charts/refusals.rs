//! Values that make no sense are refused, and the message says which.

use super::Helm;
use crate::failure::{Failure, Outcome};

/// What is set, and what the message has to contain.
const REFUSED: &[(&[&str], &str)] = &[
    (&["extProc.replica=2"], "additional properties 'replica' not allowed"),
    (&["extProc.replicas=0"], "/extProc/replicas"),
    (&["extProc.config.mode=blocking"], "/extProc/config/mode"),
    (&["extProc.config.paranoia=5"], "/extProc/config/paranoia"),
    (&["extProc.config.profiles.api.paranoia=5"], "/extProc/config/profiles/api/paranoia"),
    (&["extProc.config.paranioa=2"], "additional properties 'paranioa' not allowed"),
    (&["extProc.config.exclusions[0].reason=x"], "missing properties 'owner', 'expires'"),
    (&["extProc.config.audit.format=cef"], "/extProc/config/audit/format"),
    (&["extAuthz.config.polices[0].name=x"], "additional properties 'polices' not allowed"),
    (&["extAuthz.config.otherwise=block"], "/extAuthz/config/otherwise"),
    (&["image.registry=https://foo/"], "/image/registry"),
    (
        &["extProc.autoscaling.minReplicas=5", "extProc.autoscaling.maxReplicas=2"],
        "extProc.autoscaling: minReplicas (5) is greater than maxReplicas (2)",
    ),
    (
        &["extAuthz.autoscaling.minReplicas=5", "extAuthz.autoscaling.maxReplicas=2"],
        "extAuthz.autoscaling: minReplicas (5) is greater than maxReplicas (2)",
    ),
    (
        &["extProc.config.listen.tcp=x"],
        "extProc.config.listen: this part of the configuration is the chart's",
    ),
    (
        &["extAuthz.config.admin.address=x"],
        "extAuthz.config.admin: this part of the configuration is the chart's",
    ),
    (&["extProc.digest=1234"], "/extProc/digest"),
    (&["extProc.rules.own=x"], "at '/extProc/rules': additional properties 'own' not allowed"),
    (&["image.pullPolicy=Sometimes"], "/image/pullPolicy"),
    (&["wasm.sha256=abc"], "/wasm/sha256"),
    (&["wasm.url=ftp://x/y"], "/wasm/url"),
    (&["wasm.serve=true", "extProc.enabled=false"], "wasm.serve needs extProc.enabled"),
    (&["tls.enabled=true"], "tls.enabled needs a certificate"),
    (&["tls.enabled=true", "tls.certManager.enabled=true"], "tls.certManager.issuerRef.name"),
    (
        &["tls.enabled=true", "tls.certManager.enabled=true", "tls.secretName=a"],
        "leave tls.secretName empty",
    ),
    (&["redis.nodes[0]=redis"], "/redis/nodes/0"),
    (&["redis.nodes[0]=redis:6379", "redis.trial.enabled=true"], "either redis.nodes"),
    (&["networkPolicy.egress[0].from=x"], "/networkPolicy/egress/0"),
    (&["monitoring.serviceMonitor=true", "monitoring.podMonitor=true"], "choose one"),
    (
        &["attach.istio.edge.kind=ingress", "attach.istio.edge.namespace=a"],
        "/attach/istio/edge/kind",
    ),
    (&["attach.istio.edge.kind=gateway"], "missing property 'namespace'"),
    (
        &["attach.istio.Edge.kind=gateway", "attach.istio.Edge.namespace=a"],
        "additional properties 'Edge' not allowed",
    ),
    (
        &["attach.istio.a.kind=waypoint", "attach.istio.a.namespace=a"],
        "a waypoint is named by targetRefs",
    ),
    (
        &[
            "attach.istio.a.kind=sidecar",
            "attach.istio.a.namespace=a",
            "attach.istio.a.routes[0].name=x",
        ],
        "routes of sidecars have no names",
    ),
    (
        &["attach.istio.a.kind=gateway", "attach.istio.a.namespace=a", "attach.istio.a.wasm=true"],
        "set wasm.serve, or wasm.url",
    ),
    (
        &[
            "attach.istio.a.kind=gateway",
            "attach.istio.a.namespace=a",
            "attach.istio.a.wasm=true",
            "wasm.serve=true",
        ],
        "only believed with its SHA-256",
    ),
    (
        &[
            "attach.istio.a.kind=gateway",
            "attach.istio.a.namespace=a",
            "tls.enabled=true",
            "tls.secretName=s",
        ],
        "attach.istio.a.ca",
    ),
    (&["attach.envoyGateway.a.namespace=a"], "missing property 'targetRefs'"),
    (
        &[
            "attach.envoyGateway.a.namespace=a",
            "attach.envoyGateway.a.targetRefs[0].kind=Gateway",
            "attach.envoyGateway.a.targetRefs[0].name=eg",
        ],
        "Envoy Gateway sends no token",
    ),
    (&["tokens.grpcValue=short"], "/tokens/grpcValue"),
    (&["tokens.secretName=mine", "attach.files=true"], "write its key `grpc`"),
    (
        &[
            "tokens.grpc=false",
            "attach.envoyGateway.a.namespace=a",
            "attach.envoyGateway.a.targetRefs[0].kind=Gateway",
            "attach.envoyGateway.a.targetRefs[0].name=eg",
            "attach.envoyGateway.a.wasmTargetRefs[0].kind=Gateway",
            "attach.envoyGateway.a.wasmTargetRefs[0].name=eg",
        ],
        "one EnvoyExtensionPolicy for each target",
    ),
    (
        &[
            "tokens.grpc=false",
            "attach.envoyGateway.a.namespace=a",
            "attach.envoyGateway.a.targetRefs[0].kind=Gateway",
            "attach.envoyGateway.a.targetRefs[0].name=eg",
            "attach.envoyGateway.a.guardListeners[0]=a/eg/http",
        ],
        "attach.envoyGateway.a.guardGateway",
    ),
    (
        &[
            "tokens.grpc=false",
            "attach.envoyGateway.a.namespace=a",
            "attach.envoyGateway.a.targetRefs[0].kind=Gateway",
            "attach.envoyGateway.a.targetRefs[0].name=eg",
        ],
        "nothing would refuse a request that no rules have seen",
    ),
    (
        &[
            "tokens.grpc=false",
            "attach.envoyGateway.a.namespace=a",
            "attach.envoyGateway.a.targetRefs[0].kind=HTTPRoute",
            "attach.envoyGateway.a.targetRefs[0].name=shop",
            "attach.envoyGateway.a.unguarded=true",
        ],
        "which Gateway has these routes?",
    ),
    (
        &[
            "tokens.grpc=false",
            "attach.envoyGateway.a.namespace=a",
            "attach.envoyGateway.a.targetRefs[0].kind=Gateway",
            "attach.envoyGateway.a.targetRefs[0].name=eg",
            "attach.envoyGateway.a.unguarded=true",
            "attach.envoyGateway.b.namespace=a",
            "attach.envoyGateway.b.targetRefs[0].kind=Gateway",
            "attach.envoyGateway.b.targetRefs[0].name=eg",
            "attach.envoyGateway.b.unguarded=true",
            "attach.envoyGateway.b.bodyLimit=13Mi",
        ],
        "another attachment gives it another bodyLimit",
    ),
    (
        &[
            "tls.enabled=true",
            "tls.secretName=s",
            "tokens.grpc=false",
            "attach.envoyGateway.a.namespace=a",
            "attach.envoyGateway.a.targetRefs[0].kind=Gateway",
            "attach.envoyGateway.a.targetRefs[0].name=eg",
            "attach.envoyGateway.a.unguarded=true",
            "attach.envoyGateway.b.unguarded=true",
            "attach.envoyGateway.a.caConfigMap=one",
            "attach.envoyGateway.b.namespace=b",
            "attach.envoyGateway.b.targetRefs[0].kind=Gateway",
            "attach.envoyGateway.b.targetRefs[0].name=eg",
            "attach.envoyGateway.b.caConfigMap=another",
        ],
        "attach.envoyGateway.b.caConfigMap: another attachment has \"one\"",
    ),
    (&["native.volume=hostPath"], "/native/volume"),
    (
        &[
            "attach.istio.a.kind=gateway",
            "attach.istio.a.namespace=a",
            "attach.istio.a.native=true",
            "attach.istio.a.extProc=true",
        ],
        "attach.istio.a: with native: true the module has the rules",
    ),
    (
        &[
            "attach.istio.a.kind=gateway",
            "attach.istio.a.namespace=a",
            "attach.istio.a.native=true",
            "attach.istio.a.routes[0].name=x",
            "attach.istio.a.routes[0].failOpen=true",
        ],
        "remove failOpen from the route x",
    ),
    (
        &[
            "attach.envoyGateway.a.namespace=a",
            "attach.envoyGateway.a.targetRefs[0].kind=Gateway",
            "attach.envoyGateway.a.targetRefs[0].name=eg",
            "attach.envoyGateway.a.native=true",
            "attach.envoyGateway.a.failOpen=true",
        ],
        "attach.envoyGateway.a.failOpen: the native module has no failure mode",
    ),
    (
        &[
            "tokens.grpc=false",
            "attach.envoyGateway.a.namespace=a",
            "attach.envoyGateway.a.targetRefs[0].kind=Gateway",
            "attach.envoyGateway.a.targetRefs[0].name=eg",
            "attach.envoyGateway.a.unguarded=true",
            "attach.envoyGateway.a.envoyProxy=p",
        ],
        "write native: true beside it",
    ),
];

pub(super) fn check(helm: &Helm) -> Outcome<()> {
    let mut wrong = Vec::new();
    for (settings, expected) in REFUSED {
        let joined = settings.join(",");
        let outcome = helm.template(&["--set", &joined]).err().map(|failure| failure.to_string());
        match outcome {
            Some(told) if told.contains(expected) => {}
            Some(told) => wrong
                .push(format!("--set {joined}: the refusal does not say {expected:?}:\n{told}")),
            None => {
                wrong.push(format!("--set {joined}: accepted, and should be refused ({expected})"))
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::new(wrong.join("\n"))) }
}
