#!/usr/bin/env bash
# Puts what the tests of plugin sources need side by side, built from their pinned Go modules:
#
#   ROOT/bin/registry    the CNCF Distribution registry
#   ROOT/bin/cosign      Sigstore's cosign
#
# usage: install-registry-tools.sh [ROOT]      ROOT defaults to ${HAPTIC_CACHE:-$HOME/.cache/haptic}/go
#
# What is there in the pinned version is kept. Both take some minutes on two cores; a line says where it stands.
set -euo pipefail

ROOT=${1:-${HAPTIC_CACHE:-$HOME/.cache/haptic}/go}
REGISTRY=github.com/distribution/distribution/v3/cmd/registry@v3.1.2
COSIGN=github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3
# The oldest Go that both modules take.
GO_MINOR=26

# shellcheck source=tests/tools/go.sh
. "$(dirname "${BASH_SOURCE[0]}")/go.sh"

say() { printf 'registry tools: %s\n' "$*"; }
fail() { printf 'registry tools: error: %s\n' "$*" >&2; exit 1; }

mkdir -p "$ROOT/bin"
ROOT=$(cd "$ROOT" && pwd)
GO=
find_go
go_program registry "$REGISTRY"
go_program cosign "$COSIGN"
