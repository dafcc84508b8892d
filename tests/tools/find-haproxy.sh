#!/usr/bin/env bash
# Prints the path of a HAProxy of version 3.0 or later that serves on this machine; installs one if there is none.
# Progress goes to standard error.
#
# usage: find-haproxy.sh
set -euo pipefail

CACHE=${HAPTIC_CACHE:-$HOME/.cache/haptic}
INSTALLED=${HAPTIC_HAPROXY_DIR:-$CACHE/haproxy/bin}
HERE=$(cd "$(dirname "$0")" && pwd)

recent_enough() {
  local version
  version=$("$1" -v 2>/dev/null | sed -n '1s/^HAProxy version \([0-9]*\)\..*/\1/p')
  [ "${version:-0}" -ge 3 ]
}

# A version text proves nothing: start it, and ask it for an answer.
serves() (
  directory=$(mktemp -d)
  pid=
  trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null || true; rm -rf "$directory"' EXIT
  port=$((20000 + RANDOM % 20000))
  printf 'defaults\n mode http\n timeout client 2s\n timeout server 2s\n timeout connect 2s\nfrontend probe\n bind 127.0.0.1:%s\n http-request return status 204\n' \
    "$port" >"$directory/probe.cfg"
  "$1" -db -f "$directory/probe.cfg" >/dev/null 2>&1 </dev/null &
  pid=$!
  for _ in {1..100}; do
    kill -0 "$pid" 2>/dev/null || exit 1
    if exec 3<>"/dev/tcp/127.0.0.1/$port"; then
      printf 'GET / HTTP/1.0\r\n\r\n' >&3
      read -r answer <&3 && [[ $answer == HTTP/1.*204* ]] && exit 0
      exit 1
    fi 2>/dev/null
    sleep 0.05
  done
  exit 1
)

candidates() {
  command -v haproxy || true
  # The newest first.
  ls -1 "$INSTALLED"/haproxy-* 2>/dev/null | sort -rV || true
}

pick() {
  local candidate
  while read -r candidate; do
    if recent_enough "$candidate" && serves "$candidate"; then
      printf '%s\n' "$candidate"
      return 0
    fi
  done < <(candidates)
  return 1
}

pick && exit 0
echo "no HAProxy of version 3.0 or later serves on this machine: installing" >&2
"$HERE/install-haproxies.sh" "${INSTALLED%/bin}" >&2
pick || { echo "error: the installed HAProxy does not serve: try $INSTALLED/haproxy-3.4 -v" >&2; exit 1; }
