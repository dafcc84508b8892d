#!/usr/bin/env bash
# Builds the test cluster of tests/cluster from its pinned Go modules:
#
#   ROOT/bin/haptic-cluster    a link to the build of these sources, which is ROOT/bin/cluster-DIGEST/haptic-cluster
#
# usage: install-cluster.sh [ROOT [test]]      ROOT defaults to ${HAPTIC_CACHE:-$HOME/.cache/haptic}/go
#
# With `test` it then runs the tests of tests/cluster on that build.
#
# What is there for the same sources is kept. The first build takes about ten minutes on two cores, later ones seconds;
# a line says where it stands. Also installs what kube-proxy calls, where this may install packages.
set -euo pipefail

ROOT=${1:-${HAPTIC_CACHE:-$HOME/.cache/haptic}/go}
SOURCE=$(cd "$(dirname "${BASH_SOURCE[0]}")/../cluster" && pwd)
# The oldest Go that the modules take.
GO_MINOR=26
# Builds of other sources are kept for so many days, as other work trees may use them.
KEEP_DAYS=2

# shellcheck source=tests/tools/go.sh
. "$(dirname "${BASH_SOURCE[0]}")/go.sh"

say() { printf 'cluster: %s\n' "$*"; }
fail() { printf 'cluster: error: %s\n' "$*" >&2; exit 1; }

# What kube-proxy calls, by program and Debian package.
find_helpers() {
  local missing=() pair
  for pair in nft:nftables conntrack:conntrack; do
    if ! PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null; then missing+=("${pair##*:}"); fi
  done
  if [ ${#missing[@]} = 0 ]; then return; fi
  install_packages "${missing[@]}"
  for pair in nft:nftables conntrack:conntrack; do
    PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null ||
      say "${pair%%:*} is missing; a cluster starts only with it: install the package ${pair##*:}"
  done
}

# Of everything that the build depends on; tests do not change it.
digest() {
  (cd "$SOURCE" && {
    "$GO" env GOVERSION GOARCH
    sed -n '/^build()/,/^}/p' "$SCRIPT"
    find . -type f \( -name '*.go' -o -name go.mod -o -name go.sum \) ! -name '*_test.go' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum
  }) | sha256sum | cut -c1-16
}

build() {
  local into=$1 kubernetes stamp=k8s.io/component-base/version
  kubernetes=$(sed -n 's/^\tk8s.io\/kubernetes \(v[0-9.]*\)$/\1/p' "$SOURCE/go.mod")
  [ -n "$kubernetes" ] || fail "go.mod names no version of k8s.io/kubernetes"
  cd "$SOURCE"
  # Helm and others read the version; without these the server has none.
  "$GO" build -ldflags='-s -w' -o "$into/haptic-pod" ./cmd/haptic-pod
  "$GO" build -ldflags="-s -w -X $stamp.gitVersion=$kubernetes -X $stamp.gitMajor=1 -X $stamp.gitMinor=$(cut -d. -f2 <<<"$kubernetes") -X $stamp.gitTreeState=clean" \
    -o "$into/haptic-cluster" .
}

install() {
  local name started=$SECONDS work log child
  name=cluster-$(digest)
  if [ -x "$ROOT/bin/$name/haptic-cluster" ]; then
    touch "$ROOT/bin/$name"
    ln -sfn "$name/haptic-cluster" "$ROOT/bin/haptic-cluster"
    say "haptic-cluster is there ($name)"
    return
  fi
  say "building haptic-cluster; the first time this takes about ten minutes"
  work=$(mktemp -d "$ROOT/bin/.cluster-XXXXXX")
  log=$ROOT/haptic-cluster.log
  (build "$work") >"$log" 2>&1 </dev/null &
  child=$!
  while kill -0 "$child" 2>/dev/null; do
    # Ends early with the build.
    timeout 15 tail --pid="$child" -f /dev/null 2>/dev/null || true
    if kill -0 "$child" 2>/dev/null; then
      say "haptic-cluster: $((SECONDS - started)) s, $(grep -c '^go: downloading' "$log" || true) modules downloaded"
    fi
  done
  wait "$child" || { tail -n 20 "$log" >&2; rm -rf "$work"; fail "haptic-cluster could not be built; the log is $log"; }
  rm -f "$log"
  chmod 755 "$work"
  # Whole or not at all; another one that built the same at the same time wins.
  mv -T "$work" "$ROOT/bin/$name" 2>/dev/null || rm -rf "$work"
  ln -sfn "$name/haptic-cluster" "$ROOT/bin/haptic-cluster"
  find "$ROOT/bin" -mindepth 1 -maxdepth 1 -type d -name 'cluster-*' ! -name "$name" -mtime "+$KEEP_DAYS" -exec rm -rf {} +
  say "haptic-cluster is built after $((SECONDS - started)) s"
}

SCRIPT=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/$(basename "${BASH_SOURCE[0]}")
mkdir -p "$ROOT/bin"
ROOT=$(cd "$ROOT" && pwd)
# The same for every command: with others Go would compile all of Kubernetes once more.
export CGO_ENABLED=0 GOFLAGS='-buildvcs=false -trimpath'
GO=
find_go
find_helpers
install
if [ "${2:-}" = test ]; then
  cd "$SOURCE"
  "$GO" vet ./...
  HAPTIC_CLUSTER=$ROOT/bin/haptic-cluster "$GO" test -count=1 ./...
fi
