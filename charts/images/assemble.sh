#!/usr/bin/env bash
# Lays out the root of an image: haptic with the libraries that its loader maps, the certificates by which registries are
# known, and HAProxy builds with theirs. Nothing else is in it: no shell, no package manager.
#
# usage: assemble.sh INTO HAPTIC HAPROXIES VERSION...      e.g. assemble.sh /image target/dist/haptic /opt/haproxy 3.4
#
# HAPROXIES is what tests/tools/install-haproxies.sh made; a build names its loader by its path, so it keeps that path.
set -euo pipefail

into=${1:?usage: assemble.sh INTO HAPTIC HAPROXIES VERSION...} haptic=${2:?} haproxies=${3:?}
shift 3
fail() { printf 'image: error: %s\n' "$*" >&2; exit 1; }
authorities=/etc/ssl/certs/ca-certificates.crt

[ -x "$haptic" ] || fail "$haptic is no program"
[ -s "$authorities" ] || fail "$authorities is missing: install the package ca-certificates"
mkdir -p "$into/tmp" "$into/etc/ssl/certs"
chmod 1777 "$into/tmp"
install -m 755 "$haptic" "$into/haptic"
# With their folders, links followed: the loader is looked for by its path, the others in its usual folders.
ldd "$haptic" | grep -oE '/[^ ]+' | sort -u | while read -r library; do
  install -D -m 755 "$library" "$into$library"
done
install -m 644 "$authorities" "$into$authorities"
printf 'haptic:x:65532:65532::/:/none\n' >"$into/etc/passwd"
printf 'haptic:x:65532:\n' >"$into/etc/group"
for version in "$@"; do
  [ -x "$haproxies/$version/haproxy" ] || fail "there is no HAProxy $version below $haproxies"
  mkdir -p "$into$haproxies"
  cp -rL "$haproxies/$version" "$into$haproxies/$version"
done
