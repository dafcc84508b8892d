#!/usr/bin/env bash
# Puts real HAProxy builds of several versions side by side, without touching the system's own packages:
#
#   ROOT/bin/haproxy-3.0    ROOT/bin/haproxy-3.2    ROOT/bin/haproxy-3.4
#
# usage: install-haproxies.sh [ROOT]      ROOT defaults to ${HAPTIC_CACHE:-$HOME/.cache/haptic}/haproxy
#
# The builds are Debian's, taken with their own loader and libraries, so any glibc of the machine will do. What is
# there and works is kept. Environment: DEBIAN_MIRROR, the address of a Debian archive (it ends in /debian), is
# needed only where the machine's apt sources name none; HAPROXY_VERSIONS, default "3.0 3.2 3.4".
set -euo pipefail

ROOT=${1:-${HAPTIC_CACHE:-$HOME/.cache/haptic}/haproxy}
read -ra WANTED <<<"${HAPROXY_VERSIONS:-3.0 3.2 3.4}"
# Tried in this order until every wanted version is there: archives move on, so what a suite holds is asked, not known.
SUITES=(trixie sid experimental forky trixie-backports bookworm-backports)
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg

say() { printf 'haproxies: %s\n' "$*"; }
fail() { printf 'haproxies: error: %s\n' "$*" >&2; exit 1; }

version_of() { "$1" -v 2>/dev/null | sed -n '1s/^HAProxy version \([0-9]*\.[0-9]*\).*/\1/p'; }
works() { [ -x "$ROOT/bin/haproxy-$1" ] && [ "$(version_of "$ROOT/bin/haproxy-$1")" = "$1" ]; }

missing() {
  local version
  for version in "${WANTED[@]}"; do works "$version" || printf '%s ' "$version"; done
}

# The archive this machine already trusts for its own packages.
archive() {
  if [ -n "${DEBIAN_MIRROR:-}" ]; then
    printf '%s\n' "${DEBIAN_MIRROR%/}"
    return
  fi
  local sources found
  sources=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* /etc/apt/mirrors/* 2>/dev/null | grep -v '^ *#' || true)
  found=$(grep -oE 'https?://[^] ]+/debian/?( |$)' <<<"$sources" | sed 's|/* *$||' | sed -n 1p || true)
  # A mirror of Ubuntu often carries Debian beside it; if not, the update below says so.
  [ -n "$found" ] || found=$(grep -oE 'https?://[^] ]+/ubuntu/?( |$)' <<<"$sources" | sed 's|/ubuntu/* *$|/debian|' | sed -n 1p || true)
  printf '%s\n' "$found"
}

# Packages of this machine that the work needs; only root can install them.
prerequisites() {
  local packages=()
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null ||
    fail "apt-get and dpkg-deb are needed; on another system put HAProxy 3.0, 3.2 and 3.4 as $ROOT/bin/haproxy-VERSION by hand"
  [ -s "$KEYRING" ] || packages+=(debian-archive-keyring)
  command -v patchelf >/dev/null || packages+=(patchelf)
  [ ${#packages[@]} -gt 0 ] || return 0
  if [ "$(id -u)" = 0 ]; then
    say "installing ${packages[*]}"
    apt-get -qq update </dev/null || say "apt-get update failed; trying with the lists that are there"
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install "${packages[@]}" </dev/null >/dev/null ||
      say "could not install ${packages[*]}"
  fi
  [ -s "$KEYRING" ] || fail "$KEYRING is missing: install the package debian-archive-keyring (as root) and run this again"
}

# A private apt of one suite: own lists, own sources, an empty package database.
prepare_apt() {
  local suite=$1 apt=$2 base=$1
  mkdir -p "$apt"/{parts,lists/partial,archives/partial,debs}
  : >"$apt/status"
  : >"$apt/preferences"
  [ "$suite" = experimental ] && base=sid
  case $suite in *-backports) base=${suite%-backports} ;; esac
  printf 'deb [signed-by=%s arch=%s] %s %s main\n' "$KEYRING" "$ARCH" "$MIRROR" "$base" >"$apt/sources.list"
  if [ "$base" != "$suite" ]; then
    printf 'deb [signed-by=%s arch=%s] %s %s main\n' "$KEYRING" "$ARCH" "$MIRROR" "$suite" >>"$apt/sources.list"
    # HAProxy itself from the overlay, its libraries from the suite below.
    printf 'Package: haproxy\nPin: release a=%s\nPin-Priority: 990\n' "$suite" >"$apt/preferences"
  fi
  APT=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o "Dir::Etc::sourceparts=$apt/parts"
    -o "Dir::Etc::preferences=$apt/preferences" -o "Dir::Etc::preferencesparts=$apt/parts"
    -o "Dir::State::Lists=$apt/lists" -o "Dir::State::status=$apt/status"
    -o "Dir::Cache=$apt" -o "Dir::Cache::archives=$apt/archives"
    -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=3
    -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false)
}

offered() { apt-cache "${APT[@]}" policy haproxy 2>/dev/null | sed -n 's/^ *Candidate: \([0-9]*\.[0-9]*\).*/\1/p'; }

# haproxy and every library below it, by apt's own dependency walk. Virtual packages have nothing to download.
packages_of_haproxy() {
  local libraries
  libraries=$(apt-cache "${APT[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances haproxy | grep -E '^lib[a-z0-9.+-]+$')
  # shellcheck disable=SC2086
  apt-cache "${APT[@]}" policy haproxy libgcc-s1 $libraries |
    awk '/^[^ ].*:$/ {name = substr($1, 1, length($1) - 1)} /^ *Candidate: [0-9]/ {print name}' | sort -u
}

# An archive under load drops a connection now and then.
download() {
  local into=$1 attempt
  shift
  for attempt in 1 2 3; do
    (cd "$into" && rm -f ./*.deb && apt-get "${APT[@]}" -qq download "$@" </dev/null) && return 0
    say "the download broke off (attempt $attempt of 3)"
  done
  return 1
}

# Keeps the binary and exactly the libraries that its loader maps.
assemble() {
  local tree=$1 out=$2 loader
  mkdir -p "$out/lib" "$out/all"
  find "$tree" -name '*.so*' \( -type f -o -type l \) -not -path '*/gconv/*' -exec cp -L -n {} "$out/all/" \; 2>/dev/null || true
  loader=$(cd "$out/all" && ls ld-linux*.so.* | sed -n 1p)
  cp "$tree/usr/sbin/haproxy" "$out/haproxy"
  "$out/all/$loader" --library-path "$out/all" --list "$out/haproxy" | awk '$3 ~ /^\// {print $3}' |
    while read -r library; do cp -L "$library" "$out/lib/"; done
  # libgcc_s is opened by name when a thread ends.
  cp "$out/all/$loader" "$out/all/libgcc_s.so.1" "$out/lib/"
  rm -rf "$out/all"
  printf '%s\n' "$loader"
}

# Makes ROOT/bin/haproxy-VERSION start the assembled binary.
link_binary() {
  local version=$1 loader=$2 home=$ROOT/$1 entry=$ROOT/bin/haproxy-$1
  rm -f "$entry"
  if command -v patchelf >/dev/null; then
    patchelf --set-interpreter "$home/lib/$loader" --force-rpath --set-rpath "$home/lib" "$home/haproxy"
    ln -s "$home/haproxy" "$entry"
  else
    # A reload of the master runs argv[0] again, so argv[0] has to be this script.
    printf '#!/bin/sh\nexec %s --library-path %s --argv0 %s %s "$@"\n' \
      "$home/lib/$loader" "$home/lib" "$entry" "$home/haproxy" >"$entry"
    chmod 755 "$entry"
  fi
}

install_from() {
  local suite=$1 apt=$ROOT/.apt/$1 version loader package
  prepare_apt "$suite" "$apt"
  say "$suite: reading package lists"
  if ! apt-get "${APT[@]}" -qq update </dev/null 2>"$apt/errors"; then
    say "$suite: skipped, its lists cannot be read: $(sed -n 1p "$apt/errors")"
    return 0
  fi
  version=$(offered)
  case " $(missing)" in
    *" $version "*) ;;
    *) say "$suite: holds HAProxy ${version:-(none)}, nothing that is missing"; return 0 ;;
  esac
  say "$suite: downloading HAProxy $version and its libraries"
  mapfile -t packages < <(packages_of_haproxy)
  rm -rf "$apt/tree" "$ROOT/.new-$version"
  download "$apt/debs" "${packages[@]}" || fail "$suite: the download failed: run this again, or set DEBIAN_MIRROR"
  mkdir -p "$apt/tree"
  for package in "$apt"/debs/*.deb; do dpkg-deb -x "$package" "$apt/tree"; done
  loader=$(assemble "$apt/tree" "$ROOT/.new-$version")
  rm -rf "${ROOT:?}/$version" "$apt/tree" "$apt/debs"
  mv "$ROOT/.new-$version" "$ROOT/$version"
  link_binary "$version" "$loader"
  works "$version" || fail "the HAProxy $version of $suite does not run: try $ROOT/bin/haproxy-$version -v"
  say "$suite: $("$ROOT/bin/haproxy-$version" -v | sed -n 1p)"
}

mkdir -p "$ROOT/bin"
ROOT=$(cd "$ROOT" && pwd)
if [ -z "$(missing)" ]; then
  say "${WANTED[*]} are installed in $ROOT/bin"
  exit 0
fi
prerequisites
ARCH=$(dpkg --print-architecture)
MIRROR=$(archive)
[ -n "$MIRROR" ] || fail "this machine's apt sources name no Debian archive: set DEBIAN_MIRROR to one (its address ends in /debian)"
for suite in "${SUITES[@]}"; do
  [ -n "$(missing)" ] || break
  install_from "$suite"
done
rm -rf "$ROOT/.apt"
left=$(missing)
[ -z "$left" ] || fail "no suite of $MIRROR (${SUITES[*]}) offers HAProxy ${left% }: set DEBIAN_MIRROR to an archive that does, or put the binary as $ROOT/bin/haproxy-VERSION"
say "${WANTED[*]} are installed in $ROOT/bin"
