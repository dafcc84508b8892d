#!/usr/bin/env bash
# Starts a Kubernetes to play with, or ends it: see tests/cluster/README.md.
#
# usage: cluster.sh up|down HAPTIC_CLUSTER HAPTIC
#
#   HAPTIC_CLUSTER  the program that tests/tools/install-cluster.sh built
#   HAPTIC          the haptic binary, which pods find as the image `haptic`
set -euo pipefail

action=${1:?usage: cluster.sh up|down HAPTIC_CLUSTER HAPTIC}
program=${2:?usage: cluster.sh up|down HAPTIC_CLUSTER HAPTIC}
haptic=${3:?usage: cluster.sh up|down HAPTIC_CLUSTER HAPTIC}
cache=${HAPTIC_CACHE:-$HOME/.cache/haptic}
# Not below the home of root, where nobody else may go: pods run as users of their own.
dir=${TMPDIR:-/tmp}/haptic-cluster-$(id -u)

case $action in
  up)
    mkdir -p "$cache"
    images=$cache/cluster-images.json
    printf '{"haptic": {"entrypoint": ["/haptic"], "binds": {"/haptic": "%s"}, "user": 65532}}\n' "$haptic" >"$images"
    "$program" up --dir "$dir" --images "$images" --detach
    printf '\nA cluster runs, with the images `haptic` and `demo`. Use it with\n\n'
    printf '  export KUBECONFIG=%s/kubeconfig\n  %s kubectl get nodes\n\n' "$dir" "$program"
    printf 'and end it with `make cluster-down`.\n'
    ;;
  down) "$program" down --dir "$dir" ;;
  *) echo "error: $action is neither up nor down" >&2; exit 2 ;;
esac
