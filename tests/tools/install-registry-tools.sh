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

# The module and version that a binary was built from, as its build information says.
built_from() { "$GO" version -m "$1" 2>/dev/null | awk '$1 == "path" {path = $2} $1 == "mod" {print path "@" $3; exit}'; }

install() {
  local name=$1 module=$2 started=$SECONDS build
  if [ -x "$ROOT/bin/$name" ] && [ "$(built_from "$ROOT/bin/$name")" = "$module" ]; then
    say "$name is there (${module#*@})"
    return
  fi
  say "building $name from $module; this takes some minutes"
  # Debug information is of no use here, and a private GOBIN leaves the user's own alone.
  GOBIN=$ROOT/bin GOFLAGS=-buildvcs=false CGO_ENABLED=0 "$GO" install -trimpath -ldflags='-s -w' "$module" \
    >"$ROOT/$name.log" 2>&1 </dev/null &
  build=$!
  while kill -0 "$build" 2>/dev/null; do
    # Ends early with the build.
    timeout 15 tail --pid="$build" -f /dev/null 2>/dev/null || true
    if kill -0 "$build" 2>/dev/null; then
      say "$name: $((SECONDS - started)) s, $(grep -c '^go: downloading' "$ROOT/$name.log" || true) modules downloaded"
    fi
  done
  wait "$build" || { tail -n 20 "$ROOT/$name.log" >&2; fail "$name could not be built; the log is $ROOT/$name.log"; }
  rm -f "$ROOT/$name.log"
  say "$name is built after $((SECONDS - started)) s"
}

mkdir -p "$ROOT/bin"
ROOT=$(cd "$ROOT" && pwd)
GO=
find_go
install registry "$REGISTRY"
install cosign "$COSIGN"
