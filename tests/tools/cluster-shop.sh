#!/usr/bin/env bash
# Brings the example shop into the cluster of `make cluster`: see tests/examples/shop/cluster/README.md.
#
# usage: cluster-shop.sh HAPTIC_CLUSTER HAPTIC
#
#   HAPTIC_CLUSTER  the program that tests/tools/install-cluster.sh built
#   HAPTIC          the haptic binary
set -euo pipefail

program=${1:?usage: cluster-shop.sh HAPTIC_CLUSTER HAPTIC}
haptic=${2:?usage: cluster-shop.sh HAPTIC_CLUSTER HAPTIC}
top=$(cd "$(dirname "$0")/../.." && pwd)
shop=$top/tests/examples/shop
cache=${HAPTIC_CACHE:-$HOME/.cache/haptic}
dir=${TMPDIR:-/tmp}/haptic-cluster-$(id -u)
export KUBECONFIG=$dir/kubeconfig
[ -s "$KUBECONFIG" ] || { echo "error: no cluster runs in $dir: run make cluster" >&2; exit 1; }

kubectl() { "$program" kubectl "$@"; }

# Those that are there stay: new ones would meet pods that show the old.
secret() { # name, host
  kubectl -n shop get secret "$1" >/dev/null 2>&1 ||
    "$haptic" demo-secret --namespace shop --name "$1" --host "$2" | kubectl apply --server-side -f -
}

kubectl apply --server-side -f "$top/crds"
kubectl wait --for=condition=Established -f "$top/crds"
kubectl apply --server-side -f "$shop/cluster/namespaces.yaml"
kubectl -n haptic get secret haptic-credentials haptic-agent >/dev/null 2>&1 ||
  "$top/tests/tools/cluster-certificates.sh" haptic | kubectl apply --server-side -f -
secret shop-tls shop.localhost
secret api-tls api.shop.localhost
secret default-tls default.shop.localhost
kubectl apply --server-side -n haptic -f "$top/charts/libraries"
kubectl apply --server-side -f "$shop/common/plugins.yaml" -f "$shop/common/services.yaml" -f "$shop/common/ingresses.yaml"
kubectl apply --server-side -f "$shop/cluster"
echo "waiting for the pods; a controller is ready once it has rendered, HAProxy once it serves that"
kubectl -n shop rollout status deployment/web deployment/api --timeout=120s
kubectl -n haptic rollout status deployment/haptic deployment/haproxy --timeout=300s || {
  kubectl -n haptic get pods >&2
  kubectl -n haptic describe haproxytemplateconfigs shop >&2
  echo "error: not all pods are ready: their logs are in $dir/pods" >&2
  exit 1
}
proxy=$(sed -n 's/.*"proxy":"\([^"]*\)".*/\1/p' "$cache/cluster.json")
cat <<TEXT

The shop is served. By the HTTP proxy that leads into the cluster:

  curl -p -x $proxy --connect-to ::haproxy.haptic.svc:80 http://shop.localhost/
  curl -p -x $proxy --connect-to ::haproxy.haptic.svc:80 http://api.shop.localhost/
  curl -p -k -x $proxy --connect-to ::haproxy.haptic.svc:443 https://shop.localhost/

  export KUBECONFIG=$KUBECONFIG
  $program kubectl -n haptic get htplcfg,pods
TEXT
