#!/usr/bin/env bash
# Starts a Kubernetes to play with, or ends it: see tests/cluster/README.md.
#
# usage: cluster.sh up|down HAPTIC_CLUSTER HAPTIC
#
#   HAPTIC_CLUSTER  the program that tests/tools/install-cluster.sh built
#   HAPTIC          the haptic binary, which pods find in the images `haptic` and `haptic-haproxy`
#
# environment: HAPTIC_HAPROXY_DIR, the HAProxies of those images; default ${HAPTIC_CACHE:-$HOME/.cache/haptic}/haproxy/bin
set -euo pipefail

action=${1:?usage: cluster.sh up|down HAPTIC_CLUSTER HAPTIC}
program=${2:?usage: cluster.sh up|down HAPTIC_CLUSTER HAPTIC}
haptic=${3:?usage: cluster.sh up|down HAPTIC_CLUSTER HAPTIC}
cache=${HAPTIC_CACHE:-$HOME/.cache/haptic}
haproxies=${HAPTIC_HAPROXY_DIR:-$cache/haproxy/bin}
# Not below the home of root, where nobody else may go: pods run as users of their own.
dir=${TMPDIR:-/tmp}/haptic-cluster-$(id -u)

# Where a HAProxy and its libraries lie; they find each other by this path.
home_of() { dirname "$(realpath "$haproxies/haproxy-$1")"; }

images() {
  local version home every
  every='"/haptic": "'$haptic'"'
  printf '{\n'
  for version in 3.0 3.2 3.4; do
    [ -e "$haproxies/haproxy-$version" ] || { echo "error: $haproxies/haproxy-$version is missing: run make haproxies" >&2; exit 1; }
    home=$(home_of "$version")
    every+=', "/opt/haproxy/'$version'": "'$home'", "'$home'": "'$home'"'
    printf '"haptic-haproxy:%s": {"entrypoint": ["/haptic"], "args": ["agent"], "user": 65532, ' "$version"
    printf '"env": {"PATH": "/opt/haproxy:/usr/local/bin:/usr/bin:/bin"}, '
    printf '"binds": {"/haptic": "%s", "/opt/haproxy": "%s", "%s": "%s"}},\n' "$haptic" "$home" "$home" "$home"
  done
  printf '"haptic": {"entrypoint": ["/haptic"], "user": 65532, "binds": {%s}}\n}\n' "$every"
}

case $action in
  up)
    mkdir -p "$cache"
    images >"$cache/cluster-images.json"
    "$program" up --dir "$dir" --images "$cache/cluster-images.json" --detach | tee "$cache/cluster.json"
    printf '\nA cluster runs, with the images `haptic`, `haptic-haproxy` (3.0, 3.2, 3.4) and `demo`. Use it with\n\n'
    printf '  export KUBECONFIG=%s/kubeconfig\n  %s kubectl get nodes\n\n' "$dir" "$program"
    printf 'fill it with `make cluster-shop`, and end it with `make cluster-down`.\n'
    ;;
  down) "$program" down --dir "$dir" ;;
  *) echo "error: $action is neither up nor down" >&2; exit 2 ;;
esac
