#!/bin/bash
# Tries Glacis in a cluster that you have, with Istio in it: what cannot be tried on one machine.
#   tests/mesh/cluster.sh REGISTRY
# REGISTRY has the images glacis-ext-proc and glacis-ext-authz. Installs into the namespaces glacis-try and
# glacis-try-shop, with sidecars, and removes both at the end.
set -euo pipefail
registry=${1:?usage: tests/mesh/cluster.sh REGISTRY}
root=$(cd "$(dirname "$0")/../.." && pwd)
trap 'helm uninstall glacis -n glacis-try || true; kubectl delete namespace glacis-try glacis-try-shop --wait=false || true' EXIT

kubectl create namespace glacis-try-shop
kubectl label namespace glacis-try-shop istio-injection=enabled
kubectl -n glacis-try-shop create deployment upstream --image=nginxinc/nginx-unprivileged:1.29-alpine --port=8080
kubectl -n glacis-try-shop expose deployment upstream --port=80 --target-port=8080
kubectl -n glacis-try-shop create deployment client --image=curlimages/curl:8.16.0 -- sleep infinity

helm install glacis "$root/charts/glacis" --namespace glacis-try --create-namespace --wait \
    --set image.registry="$registry" --set-string extProc.config.mode=on \
    --set attach.istio.shop.kind=sidecar,attach.istio.shop.namespace=glacis-try-shop
kubectl -n glacis-try-shop rollout status deployment/upstream deployment/client

ask() { kubectl -n glacis-try-shop exec deploy/client -c curl -- curl -s -o /dev/null -w '%{http_code}' "http://upstream$1"; }
for try in $(seq 30); do
    [ "$(ask '/?q=%27+or+1%3D1+--+')" = 403 ] && break
    [ "$try" -lt 30 ] || { echo "FAILED: the attack was not refused"; exit 1; }
    sleep 1
done
[ "$(ask /)" = 200 ] || { echo "FAILED: a request did not pass"; exit 1; }
echo "ok: refused and passed through sidecars, with mTLS between them as your mesh has it"
