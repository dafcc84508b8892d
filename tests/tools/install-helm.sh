#!/usr/bin/env bash
# Puts both Helms side by side that the tests of the charts use, built from their pinned Go modules:
#
#   ROOT/bin/helm3    Helm 3
#   ROOT/bin/helm4    Helm 4
#
# usage: install-helm.sh [ROOT]      ROOT defaults to ${HAPTIC_CACHE:-$HOME/.cache/haptic}/go
#
# What is there in the pinned version is kept. Both take some minutes on two cores; a line says where it stands.
set -euo pipefail

ROOT=${1:-${HAPTIC_CACHE:-$HOME/.cache/haptic}/go}
HELM3=helm.sh/helm/v3/cmd/helm@v3.22.0
HELM4=helm.sh/helm/v4/cmd/helm@v4.3.1
# The oldest Go that both modules take.
GO_MINOR=26
# What `helm template` takes the cluster for where it asks none: that of tests/cluster. Without this it is 1.20.
KUBERNETES_MINOR=37

# shellcheck source=tests/tools/go.sh
. "$(dirname "${BASH_SOURCE[0]}")/go.sh"

say() { printf 'helm: %s\n' "$*"; }
fail() { printf 'helm: error: %s\n' "$*" >&2; exit 1; }

# The version that a Helm tells, and the Kubernetes that it assumes, are set where it is linked.
stamps() {
  local base=$1 version=$2 package
  printf -- '-X %s/internal/version.version=%s' "$base" "$version"
  shift 2
  for package in "$@"; do
    printf -- ' -X %s.k8sVersionMajor=1 -X %s.k8sVersionMinor=%s' "$package" "$package" "$KUBERNETES_MINOR"
  done
}

mkdir -p "$ROOT/bin"
ROOT=$(cd "$ROOT" && pwd)
GO=
find_go
v3=helm.sh/helm/v3
v4=helm.sh/helm/v4
go_program helm3 "$HELM3" "$(stamps $v3 "${HELM3#*@}" $v3/pkg/lint/rules $v3/pkg/chartutil)"
go_program helm4 "$HELM4" "$(stamps $v4 "${HELM4#*@}")"
