#!/usr/bin/env bash
# Serves tests/examples/shop: makes the TLS Secrets, starts the demo backends, runs haptic on the example, prints the
# URLs once they answer, and ends everything with it. Ctrl-C stops.
#
# usage: run-shop.sh HAPTIC      environment: HAPTIC_STATE, default ${HAPTIC_CACHE:-$HOME/.cache/haptic}/shop, and
# HAPTIC_STATUS_PORT of the status page, default 8081
set -euo pipefail

HAPTIC=$1
TOP=$(cd "$(dirname "$0")/../.." && pwd)
SHOP=$TOP/tests/examples/shop
STATE=${HAPTIC_STATE:-${HAPTIC_CACHE:-$HOME/.cache/haptic}/shop}
STATUS=${HAPTIC_STATUS_PORT:-8081}
CONFIG=$SHOP/common/config.yaml

value_of() { sed -n "s/^ *$1: *\([^ #]*\).*/\1/p" "$CONFIG" | sed -n 1p | tr -d \"; }
HTTP=$(value_of http_port)
HTTPS=$(value_of https_port)

secret() { # name, host
  local out=$SHOP/common/generated/$1.yaml
  if [ ! -s "$out" ]; then
    echo "making the TLS Secret shop/$1 for $2"
    mkdir -p "$SHOP/common/generated"
    (umask 077 && "$HAPTIC" demo-secret --namespace shop --name "$1" --host "$2" >"$out.new")
    mv "$out.new" "$out"
  fi
}

backends=
haptic=
finish() {
  trap - EXIT INT TERM
  # haptic first: it drains traffic that still needs the backends.
  [ -z "$haptic" ] || { kill -TERM "$haptic" 2>/dev/null || true; wait "$haptic" 2>/dev/null || true; }
  [ -z "$backends" ] || { kill -TERM "$backends" 2>/dev/null || true; wait "$backends" 2>/dev/null || true; }
}

# Whether a plain request for the host gets an answer from a backend.
answers() { # host, port
  local line
  exec 3<>"/dev/tcp/127.0.0.1/$2" || return 1
  printf 'GET / HTTP/1.0\r\nHost: %s\r\n\r\n' "$1" >&3
  read -r -t 2 line <&3 && [[ $line == HTTP/1.*\ 200\ * ]]
} 2>/dev/null

announce() {
  local _
  for _ in {1..600}; do
    if (answers shop.localhost "$HTTP") && (answers api.shop.localhost "$HTTP"); then
      cat <<TEXT

The shop is served. In another terminal:

  curl http://shop.localhost:$HTTP/
  curl http://api.shop.localhost:$HTTP/
  curl --cacert $STATE/shop-tls.crt https://shop.localhost:$HTTPS/
  curl --cacert $STATE/api-tls.crt https://api.shop.localhost:$HTTPS/

Status page, with a search for lines and routes: http://127.0.0.1:$STATUS/
Edit a file below $SHOP and watch what happens here.
Statuses: $STATE/status    Configuration: $STATE/haproxy/haproxy.cfg    Stop: Ctrl-C

TEXT
      return
    fi
    sleep 0.1
  done
  echo "the shop does not answer on http://shop.localhost:$HTTP/ yet: the lines above say why" >&2
}

haproxy=$("$TOP/tests/tools/find-haproxy.sh")
echo "HAProxy: $haproxy ($("$haproxy" -v | sed -n '1s/^HAProxy version \([^ ]*\).*/\1/p'))"
mkdir -p "$STATE"
secret shop-tls shop.localhost
secret api-tls api.shop.localhost
secret default-tls default.shop.localhost
for name in shop-tls api-tls; do
  # For curl: the certificate without its key.
  sed -n '/-BEGIN CERTIFICATE-/,/-END CERTIFICATE-/s/^ *//p' "$SHOP/common/generated/$name.yaml" >"$STATE/$name.crt"
done

trap finish EXIT INT TERM
"$HAPTIC" echo 127.0.0.11:9001=web-1 127.0.0.12:9001=web-2 127.0.0.21:9002=api-1 127.0.0.22:9002=api-2 &
backends=$!
"$HAPTIC" run --standalone "$SHOP/common" --standalone "$SHOP/standalone" --haproxy "$haproxy" --state "$STATE" \
  --debug-listen "127.0.0.1:$STATUS" &
haptic=$!
announce &
code=0
wait "$haptic" || code=$?
haptic=
exit "$code"
