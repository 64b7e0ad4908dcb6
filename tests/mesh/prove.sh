#!/bin/bash
# The chart's objects in a real kube-apiserver, pushed to real Envoys by a real istiod and a real Envoy Gateway.
# `cargo xtask mesh` builds what is needed, and runs this in a network and a mount namespace of its own: nothing
# listens where others could reach it. The environment names every program; W is a folder for logs.
set -euo pipefail

readonly HERE=${GLACIS_ROOT:?}/tests/mesh IP=10.77.0.1 CERTS=/certs SDS=/sds MODULE=/opt/glacis
readonly ATTACK="/?q=%27%20or%201%3D1%20--%20" W=${W:?}
export KUBECONFIG=$W/kubeconfig PATH=${TOOLS:?}:$PATH HOME=$W
failures=0
mkdir -p "$W"

say() { printf '%s\n' "$*" | tee -a "$W/told.txt"; }
failed() { # WHAT-IS-WRONG FILE…: the files' ends say more.
    say "FAILED  $1"; shift
    failures=$((failures + 1))
    sleep 0.5 # Envoy's access log comes a little later.
    tail -n 3 -v "$@" | cut -c 1-400
}
start() { # NAME COMMAND…
    local name=$1; shift
    "$@" >>"$W/$name.log" 2>&1 & echo $! >"$W/$name.pid"
}
stop() { # NAME…; returns when they have ended
    local p
    for p in "$@"; do
        [ -e "$W/$p.pid" ] || continue
        kill "$(cat "$W/$p.pid")" 2>/dev/null || true
    done
    for p in "$@"; do
        [ ! -e "$W/$p.pid" ] || timeout 30 tail --pid="$(cat "$W/$p.pid")" -f /dev/null || true
    done
}
wait_for() { # SECONDS WHAT COMMAND…
    local end=$((SECONDS + $1)) what=$2; shift 2
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS > end)); then failed "$what was not there in time" "$W"/*.log; exit 1; fi
        sleep 0.2
    done
}
status() { curl -s -m 5 -o "$W/answer" -w '%{http_code}' "$@" || true; }
expect() { # WHAT EXPECTED CURL-ARGUMENTS…
    local what=$1 expected=$2 actual; shift 2
    : >"$W/answer"
    actual=$(status "$@")
    if [ "$actual" = "$expected" ]; then say "ok      $what: $actual"
    else failed "$what: $actual, not $expected" "$W/answer" "$W"/*envoy.log; fi
}
becomes() { # As expect, but it may take up to twenty seconds: configuration is on its way.
    local expected=$2 end=$((SECONDS + 20))
    until [ "$(status "${@:3}")" = "$expected" ] || ((SECONDS > end)); do sleep 0.2; done
    expect "$@"
}

network() {
    ip link set lo up
    ip addr add $IP/32 dev lo
    # Names of Services, which a cluster's name server would know.
    { cat /etc/hosts
      local name
      for name in glacis-ext-proc.glacis glacis-ext-authz.glacis envoy-gateway.envoy-gateway-system; do
          echo "$IP $name.svc.cluster.local $name.svc.cluster.local."
      done; } >"$W/hosts"
    mount --bind "$W/hosts" /etc/hosts
}

kubernetes() {
    openssl genrsa -out "$W/sa.key" 2048 2>/dev/null
    openssl rsa -in "$W/sa.key" -pubout -out "$W/sa.pub" 2>/dev/null
    echo 'admintoken,admin,admin-uid,"system:masters"' >"$W/tokens.csv"
    cat >"$KUBECONFIG" <<'Y'
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:16443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: admintoken}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
Y
    start etcd "$ETCD" --data-dir "$W/etcd" --listen-client-urls http://127.0.0.1:12379 \
        --advertise-client-urls http://127.0.0.1:12379 --listen-peer-urls http://127.0.0.1:12380 \
        --initial-advertise-peer-urls http://127.0.0.1:12380 --initial-cluster default=http://127.0.0.1:12380
    start kube-apiserver "$KUBE_APISERVER" --etcd-servers=http://127.0.0.1:12379 --cert-dir="$W/apiserver" \
        --bind-address=127.0.0.1 --advertise-address=127.0.0.1 --endpoint-reconciler-type=none --secure-port=16443 \
        --service-account-key-file="$W/sa.pub" --service-account-signing-key-file="$W/sa.key" \
        --service-account-issuer=https://127.0.0.1:16443 --token-auth-file="$W/tokens.csv" \
        --authorization-mode=RBAC --service-cluster-ip-range=10.96.0.0/16 --disable-admission-plugins=ServiceAccount
    wait_for 60 kube-apiserver kubectl get --raw /readyz
    # shellcheck disable=SC2086
    kubectl apply --server-side $CRDS >"$W/crds.txt"
    kubectl wait --for=condition=Established crd --all --timeout=60s >/dev/null
    local namespace
    for namespace in glacis istio-system istio-ingress shop envoy-gateway-system monitoring; do
        kubectl create namespace $namespace >/dev/null
    done
    say "ok      kube-apiserver $(kubectl version -o json | python3 -c 'import json,sys; print(json.load(sys.stdin)["serverVersion"]["gitVersion"])'), $(wc -l <"$W/crds.txt") CRDs"
}

# Everything that the chart can make is put before the server, with each of its test values: unknown or wrong
# fields are refused by the schemas of Kubernetes and of the CRDs.
every_object() {
    local values
    for values in "$GLACIS_ROOT"/charts/glacis/tests/*.values.yaml; do
        if helm template glacis "$GLACIS_ROOT/charts/glacis" --namespace glacis --values "$values" |
            kubectl apply --server-side --dry-run=server --validate=strict -f - >"$W/apply.txt" 2>&1
        then say "ok      $(basename "$values"): $(wc -l <"$W/apply.txt") objects accepted"
        else failed "$(basename "$values")" "$W/apply.txt"; fi
    done
    local file
    for file in "$GLACIS_ROOT"/envoy-configs/{kubernetes,istio,envoy-gateway}/*.yaml; do
        if kubectl apply --server-side --dry-run=server --validate=strict -f "$file" >"$W/apply.txt" 2>&1
        then say "ok      ${file#"$GLACIS_ROOT/"}: $(wc -l <"$W/apply.txt") objects accepted"
        else failed "${file#"$GLACIS_ROOT/"}" "$W/apply.txt"; fi
    done
}

# The services with the configuration that the chart gave them, as the API server has it.
services() {
    stop ext-proc ext-authz upstream
    local part
    # What the pods' volume has; the chart has made the tokens.
    mkdir -p "$W/tokens"
    for part in admin grpc; do
        kubectl -n glacis get secret glacis-tokens -o "jsonpath={.data.$part}" | base64 -d >"$W/tokens/$part"
    done
    for part in ext-proc ext-authz; do
        kubectl -n glacis get configmap "glacis-$part" -o "jsonpath={.data.$part\\.yaml}" |
            sed "s#/etc/glacis/tokens#$W/tokens#; s#/usr/share/glacis/crs#$GLACIS_CRS_DIR#; s#/usr/share/glacis/glacis_wasm_filter.wasm#$GLACIS_WASM#" >"$W/$part.yaml"
    done
    start ext-proc "$GLACIS_EXT_PROC" --config "$W/ext-proc.yaml"
    start ext-authz "$GLACIS_EXT_AUTHZ" --config "$W/ext-authz.yaml"
    start upstream "$GLACIS_SAMPLE_UPSTREAM" 0.0.0.0:8088
    wait_for 60 ext-proc curl -sf http://127.0.0.1:9101/readyz
    wait_for 60 ext-authz curl -sf http://127.0.0.1:9102/readyz
}

chart() { # VALUES
    # Without hooks: nothing here would run the Job that checks an upgrade.
    helm upgrade --install glacis "$GLACIS_ROOT/charts/glacis" --no-hooks --namespace glacis --values "$1" "${@:2}" >"$W/helm.txt" ||
        { cat "$W/helm.txt"; exit 1; }
    # There is no controller that would do this: where the pods are.
    kubectl apply -f "$HERE/endpoints.yaml" >/dev/null
    services
}

istio() {
    say; say "# Istio: $ISTIO_VERSION"
    chart "$HERE/istio.values.yaml" --set wasm.url="file://$GLACIS_WASM"
    kubectl apply -f "$HERE/istio.yaml" >/dev/null
    start istiod env POD_NAMESPACE=istio-system POD_NAME=istiod-1 ENABLE_CA_SERVER=false PILOT_CERT_PROVIDER=none \
        CLOUD_PLATFORM=none PILOT_ENABLE_METADATA_EXCHANGE=false PILOT_ENABLE_ALPN_FILTER=false \
        "$PILOT" discovery --kubeconfig "$KUBECONFIG" --meshConfig "$HERE/mesh.yaml" --grpcAddr 127.0.0.1:15010 \
        --httpAddr 127.0.0.1:18080 --httpsAddr "" --secureGRPCAddr "" --monitoringAddr 127.0.0.1:15014 --ctrlz_port 0
    wait_for 60 istiod curl -sf http://127.0.0.1:18080/ready
    expect "the admin port without a token" 401 http://127.0.0.1:9101/status
    expect "the admin port with it" 200 -H "Authorization: Bearer $(cat "$W/tokens/admin")" http://127.0.0.1:9101/status
    say "a gateway:"
    { cat "$HERE/istio-envoy.yaml"
      python3 "$HERE/stats_tags.py" "$ISTIO_MODULE/tools/packaging/common/envoy_bootstrap.json"; } >"$W/istio-envoy.yaml"
    start istio-envoy "$GLACIS_ENVOY" -c "$W/istio-envoy.yaml" --concurrency 1 --use-dynamic-base-id --file-flush-interval-msec 200 --log-level warn
    becomes "a request passes the gateway" 200 http://127.0.0.1:18480/
    becomes "an attack is refused" 403 "http://127.0.0.1:18480$ATTACK"
    expect "an attack in a body is refused" 403 -d "q=' or 1=1 -- " http://127.0.0.1:18480/
    # Without Expect, which rule 920450 does not like; nor does another like numbers as hosts.
    expect "an upload of 2 MiB passes" 200 -H Expect: -H "Host: shop.example" -F "file=@$W/body" http://127.0.0.1:18480/echo
    expect "an address that the wasm-filter denies" 403 --interface 127.0.0.9 http://127.0.0.1:18480/
    expect "what ext-authz denies" 403 http://127.0.0.1:18480/internal/
    expect "the route that is only watched" 200 "http://127.0.0.1:18480/watched$ATTACK"
    expect "a route that is off" 200 "http://127.0.0.1:18480/static$ATTACK"
    expect "a route without receipts: the guard refuses, as what it is" 503 http://127.0.0.1:18480/aside/
    metrics 19902 "ISTIOS|PRIORITY_IN_NAME"
    say "filters, as istiod pushed them: $(curl -s http://127.0.0.1:19902/config_dump | python3 "$HERE/filters.py" | tr '\n' ' ')"
    stop ext-proc
    becomes "without ext-proc, fail closed" 503 http://127.0.0.1:18480/
    expect "without ext-proc, the open route" 200 http://127.0.0.1:18480/open/
    services
    becomes "ext-proc is back" 403 "http://127.0.0.1:18480$ATTACK"
    say "a sidecar, chosen by its label:"
    sed 's#^  id:.*#  id: sidecar~10.9.9.8~shop-1.shop~shop.svc.cluster.local#; s#^  cluster:.*#  cluster: shop.shop#
         s#NAMESPACE: .*#NAMESPACE: shop#; s#LABELS: .*#LABELS: {app: shop}\n    INTERCEPTION_MODE: NONE#; s#19902#19903#' \
        "$W/istio-envoy.yaml" >"$W/sidecar.yaml"
    start sidecar-envoy "$GLACIS_ENVOY" -c "$W/sidecar.yaml" --concurrency 1 --use-dynamic-base-id --file-flush-interval-msec 200 --log-level warn
    becomes "a request passes" 200 http://127.0.0.1:18580/
    becomes "an attack is refused" 403 "http://127.0.0.1:18580$ATTACK"
    expect "an address that the wasm-filter denies" 403 --interface 127.0.0.9 http://127.0.0.1:18580/
    say "filters, as istiod pushed them: $(curl -s http://127.0.0.1:19903/config_dump | python3 "$HERE/filters.py" | tr '\n' ' ')"
    say "the native module in the gateway, in place of ext-proc, and no service:"
    chart "$HERE/istio-native.values.yaml"
    stop ext-proc ext-authz
    becomes "a request passes the gateway" 200 http://127.0.0.1:18480/
    becomes "an attack is refused" 403 "http://127.0.0.1:18480$ATTACK"
    expect "an attack in a body is refused" 403 -d "q=' or 1=1 -- " http://127.0.0.1:18480/
    expect "an upload of 2 MiB passes" 200 -H Expect: -H "Host: shop.example" -F "file=@$W/body" http://127.0.0.1:18480/echo
    expect "the route that is only watched" 200 "http://127.0.0.1:18480/watched$ATTACK"
    expect "a route that is off" 200 "http://127.0.0.1:18480/static$ATTACK"
    say "filters, as istiod pushed them: $(curl -s http://127.0.0.1:19902/config_dump | python3 "$HERE/filters.py" | tr '\n' ' ')"
    stop sidecar-envoy istio-envoy istiod
    kubectl delete -f "$HERE/istio.yaml" --wait=false >/dev/null
}

# The alerts and dashboards ask Envoy for these.
metrics() { # PORT LIST|LIST…: of xtask/src/charts/metrics.rs
    local name missing="" lists="$GLACIS_ROOT/xtask/src/charts/metrics.rs"
    curl -s "http://127.0.0.1:$1/stats/prometheus" >"$W/envoy-metrics.txt"
    for name in $(awk "/^const (COMMON|$2):/ {on = 1} on {print} /;\$/ {on = 0}" "$lists" | grep -o '"envoy_[a-z_]*"' | tr -d '"'); do
        case $name in
            envoy_cluster_*) grep -q "^$name{.*cluster_name=\"[^\"]*glacis-" "$W/envoy-metrics.txt" ;;
            *) grep -q "^$name{" "$W/envoy-metrics.txt" ;;
        esac || missing="$missing $name"
    done
    if [ -z "$missing" ]; then say "ok      Envoy tells every metric that alerts and dashboards ask for"
    else failed "Envoy does not tell:$missing"  "$W/envoy-metrics.txt"; fi
}

secret() { # NAME FOLDER
    local key
    mkdir -p "$2"
    for key in tls.crt tls.key ca.crt; do
        kubectl -n envoy-gateway-system get secret "$1" -o "jsonpath={.data.${key/./\\.}}" | base64 -d >"$2/$key"
    done
}

envoy_gateway() {
    say; say "# Envoy Gateway: $EG_VERSION"
    ENVOY_GATEWAY_NAMESPACE=envoy-gateway-system "$ENVOY_GATEWAY" certgen --disable-topology-injector >"$W/certgen.log" 2>&1 || { cat "$W/certgen.log"; exit 1; }
    secret envoy-gateway "$W/eg-certs"; secret envoy "$W/envoy-certs"
    mkdir -p $CERTS $SDS "$W/sds"
    ENVOY_GATEWAY_NAMESPACE=envoy-gateway-system start envoy-gateway \
        unshare -m bash -c "mount --bind '$W/eg-certs' $CERTS && mount -t tmpfs none /var/lib && exec '$ENVOY_GATEWAY' server --config-path '$HERE/envoy-gateway-server.yaml'"
    chart "$HERE/envoy-gateway.values.yaml" --set "wasm.sha256=$(sha256sum "$GLACIS_WASM" | cut -d' ' -f1)"
    kubectl apply -f "$HERE/envoy-gateway.yaml" >/dev/null
    wait_for 60 "Envoy Gateway's Deployment of Envoy" envoy_of_gateway
    start eg-envoy unshare -m bash -c "mount --bind '$W/envoy-certs' $CERTS && mount --bind '$W/sds' $SDS && exec '$GLACIS_ENVOY' -c '$W/eg-envoy.yaml' --service-cluster shop/eg --service-node eg-1 --concurrency 1 --use-dynamic-base-id --file-flush-interval-msec 200 --log-level warn"
    becomes "a request passes the gateway" 200 http://127.0.0.1:18880/
    becomes "an attack is refused" 403 "http://127.0.0.1:18880$ATTACK"
    expect "an attack in a body is refused" 403 -d "q=' or 1=1 -- " http://127.0.0.1:18880/
    expect "an address that the wasm-filter denies" 403 --interface 127.0.0.9 http://127.0.0.1:18880/
    expect "what ext-authz denies" 403 http://127.0.0.1:18880/internal/
    expect "the route whose profile only watches" 200 "http://127.0.0.1:18880/watched$ATTACK"
    metrics 19000 "ENVOYS|PRIORITY_AS_LABEL"
    say "filters, as Envoy Gateway pushed them: $(curl -s http://127.0.0.1:19000/config_dump | python3 "$HERE/filters.py" | tr '\n' ' ')"
    # Frozen: only probes can see that, and once they have, nobody waits for a timeout. The first probe came before
    # any request, and the next comes a minute later: Envoy Gateway sets no interval for clusters without traffic.
    wait_for 70 "Envoy's second probe" probed
    kill -STOP "$(cat "$W/ext-proc.pid")"
    expect "with a frozen ext-proc, a timeout" 504 http://127.0.0.1:18880/
    wait_for 10 "Envoy's word that no ext-proc is in service" no_ext_proc
    expect "and then, fail closed at once" 503 -m 0.4 http://127.0.0.1:18880/
    kill -CONT "$(cat "$W/ext-proc.pid")"
    becomes "ext-proc is well again" 403 "http://127.0.0.1:18880$ATTACK"
    stop ext-proc
    becomes "without ext-proc, fail closed" 503 http://127.0.0.1:18880/
    say "the module as the guard, after ext_proc:"
    kubectl -n shop patch envoyproxy eg --type json -p '[{"op": "remove", "path": "/spec/filterOrder"}]' >/dev/null
    chart "$HERE/envoy-gateway-guard.values.yaml" --set "wasm.sha256=$(sha256sum "$GLACIS_WASM" | cut -d' ' -f1)"
    wait_for 60 "the guard in Envoy's configuration" guarded
    becomes "a request passes the gateway" 200 http://127.0.0.1:18880/
    becomes "an attack is refused" 403 "http://127.0.0.1:18880$ATTACK"
    expect "an attack in a body is refused" 403 -d "q=' or 1=1 -- " http://127.0.0.1:18880/
    expect "what ext-authz denies" 403 http://127.0.0.1:18880/internal/
    expect "a route without receipts: the guard refuses" 503 http://127.0.0.1:18880/watched
    # Into a file: grep that ends early would end curl, and with pipefail the line.
    curl -s http://127.0.0.1:19000/stats >"$W/envoy-stats.txt"
    if grep -q "guard_total.*denied: [1-9]" "$W/envoy-stats.txt"; then say "ok      and it is the module that does"
    else failed "the module has refused nothing" "$W/eg-envoy.log"; fi
    expect "a made-up header does not reach the upstream" 200 -H "x-glacis-client: admin" http://127.0.0.1:18880/echo
    if grep -q x-glacis-client "$W/answer"; then failed "a made-up header reached the upstream" "$W/answer"; fi
    if python3 "$HERE/trailers.py" 18880 "$ATTACK" >"$W/trailers.txt"; then say "ok      an attack of headers and trailers: $(cat "$W/trailers.txt")"
    else failed "an attack of headers and trailers: $(cat "$W/trailers.txt")" "$W/eg-envoy.log"; fi
    say "filters, as Envoy Gateway pushed them: $(curl -s http://127.0.0.1:19000/config_dump | python3 "$HERE/filters.py" | tr '\n' ' ')"
    stop ext-proc
    becomes "without ext-proc, fail closed" 503 http://127.0.0.1:18880/
    say "the native module, in place of ext-proc, and no service:"
    chart "$HERE/envoy-gateway-native.values.yaml"
    kubectl -n shop patch gateway eg --type merge -p '{"spec": {"infrastructure": {"parametersRef": {"group": "gateway.envoyproxy.io", "kind": "EnvoyProxy", "name": "glacis-native"}}}}' >/dev/null
    stop ext-proc ext-authz
    becomes "a request passes the gateway" 200 http://127.0.0.1:18880/
    becomes "an attack is refused" 403 "http://127.0.0.1:18880$ATTACK"
    expect "an attack in a body is refused" 403 -d "q=' or 1=1 -- " http://127.0.0.1:18880/
    expect "an upload of 2 MiB passes" 200 -H Expect: -H "Host: shop.example" -F "file=@$W/body" http://127.0.0.1:18880/echo
    expect "the route whose profile only watches" 200 "http://127.0.0.1:18880/watched$ATTACK"
    wait_for 60 "the module's volume in the Deployment of Envoy" has_volume
    say "ok      the Deployment of Envoy has the module's image as a volume"
    say "filters, as Envoy Gateway pushed them: $(curl -s http://127.0.0.1:19000/config_dump | python3 "$HERE/filters.py" | tr '\n' ' ')"
    stop eg-envoy envoy-gateway
}

has_volume() { kubectl -n envoy-gateway-system get deployments -o json >"$W/deployments.json" && grep -q '"reference": "glacis-native:' "$W/deployments.json"; }

guarded() { curl -s http://127.0.0.1:19000/config_dump >"$W/config_dump.json" && grep -q glacis-guard "$W/config_dump.json"; }

ext_proc_stat() { curl -s http://127.0.0.1:19000/stats | sed -n "s#^cluster\.envoyextensionpolicy.*/extproc/0\.$1: ##p"; }
probed() { [ "$(ext_proc_stat health_check.success)" -ge 2 ]; }
no_ext_proc() { [ "$(ext_proc_stat membership_healthy)" = 0 ]; }

# What a pod of the Deployment that Envoy Gateway has made would find.
envoy_of_gateway() {
    kubectl -n envoy-gateway-system get deployments -o json | python3 "$HERE/bootstrap.py" "$W/eg-envoy.yaml"
    kubectl -n envoy-gateway-system get configmaps -o json | python3 "$HERE/configmaps.py" "$W/sds"
    test -s "$W/eg-envoy.yaml" -a -s "$W/sds/xds-trusted-ca.json"
}

cleanup() { stop eg-envoy envoy-gateway sidecar-envoy istio-envoy istiod ext-proc ext-authz upstream kube-apiserver; sleep 0.5; stop etcd; umount $MODULE 2>/dev/null; rmdir $CERTS $SDS $MODULE 2>/dev/null || true; }
trap cleanup EXIT
head -c 2097152 /dev/zero | tr '\0' 'x' >"$W/body"
# What a pod's volume of the native module's image has.
mkdir -p $MODULE && mount -t tmpfs none $MODULE
sh "$GLACIS_ROOT/images/module.sh" $MODULE "$GLACIS_ENVOY_MODULE" "$GLACIS_CRS_DIR"
network
kubernetes
every_object
for part in ${PARTS:-istio envoy_gateway}; do $part; done
say
if ((failures)); then say "$failures failed; logs are in $W"; exit 1; fi
say "all passed"
