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

say() { printf 'registry tools: %s\n' "$*"; }
fail() { printf 'registry tools: error: %s\n' "$*" >&2; exit 1; }

# The module and version that a binary was built from, as its build information says.
built_from() { "$GO" version -m "$1" 2>/dev/null | awk '$1 == "path" {path = $2} $1 == "mod" {print path "@" $3; exit}'; }

has_go() { local minor; minor=$("$1" env GOVERSION 2>/dev/null | sed -n 's/^go1\.\([0-9]*\).*/\1/p'); [ "${minor:-0}" -ge "$GO_MINOR" ]; }

# The machine's Go if it is new enough; else Debian's Go of any version fetches the one it is told to, by its own
# toolchain mechanism.
find_go() {
  local candidate
  for candidate in go /usr/local/go/bin/go /usr/lib/go/bin/go; do
    if command -v "$candidate" >/dev/null && has_go "$candidate"; then GO=$(command -v "$candidate"); return; fi
  done
  if ! command -v go >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    say "installing golang-go"
    apt-get -qq update </dev/null || say "apt-get update failed; trying with the lists that are there"
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install golang-go ca-certificates </dev/null >/dev/null ||
      say "could not install golang-go"
  fi
  command -v go >/dev/null || fail "no Go: install Go 1.$GO_MINOR or newer and run this again"
  GO=$(command -v go)
  export GOTOOLCHAIN=go1.$GO_MINOR.0
  if has_go "$GO"; then return; fi
  # Go before 1.21 knows no toolchains; its modules carry a newer one.
  say "fetching Go 1.$GO_MINOR, this machine has $("$GO" version | cut -d' ' -f3)"
  fetch_go
}

# A Go toolchain is a module as well: golang.org/toolchain.
fetch_go() {
  local version=v0.0.1-go1.$GO_MINOR.0.linux-$(dpkg --print-architecture 2>/dev/null || uname -m) modules
  modules=$(unset GOTOOLCHAIN; "$GO" env GOMODCACHE)
  (unset GOTOOLCHAIN; cd "$(mktemp -d)" && GOFLAGS=-mod=mod "$GO" mod download "golang.org/toolchain@$version") ||
    fail "Go 1.$GO_MINOR could not be fetched: install it and run this again"
  GO=$modules/golang.org/toolchain@$version/bin/go
  chmod -R u+x "$(dirname "$GO")" "$(dirname "$GO")/../pkg/tool" 2>/dev/null || true
  has_go "$GO" || fail "the fetched Go does not run: try $GO version"
}

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
