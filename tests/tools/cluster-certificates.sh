#!/usr/bin/env bash
# Makes a CA and from it the two identities that controller and agents show each other, and prints them as the Secrets
# haptic-credentials and haptic-agent.
#
# usage: cluster-certificates.sh NAMESPACE [DAYS]     e.g. cluster-certificates.sh haptic | kubectl apply -f -
#
# The CA's key is thrown away: run this again, and apply both Secrets, before the certificates end (default: 365 days).
set -euo pipefail
umask 077

namespace=${1:?usage: cluster-certificates.sh NAMESPACE [DAYS]}
days=${2:-365}
command -v openssl >/dev/null || { echo "error: no openssl: install the package openssl" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1"; }

new_key "$work/ca.key"
openssl req -x509 -new -key "$work/ca.key" -sha256 -days "$days" -subj '/CN=haptic' -out "$work/ca.crt" \
  -addext 'basicConstraints=critical,CA:TRUE' -addext 'keyUsage=critical,keyCertSign,cRLSign'

# Each side knows the other by its DNS name and its extended key usage, and neither passes for the other.
issue() { # name, extended key usage
  local name=$1 usage=$2
  new_key "$work/$name.key"
  openssl req -new -key "$work/$name.key" -subj "/CN=$name" -out "$work/$name.csr"
  openssl x509 -req -in "$work/$name.csr" -CA "$work/ca.crt" -CAkey "$work/ca.key" -CAcreateserial -sha256 \
    -days "$days" -out "$work/$name.crt" 2>/dev/null \
    -extfile <(printf 'basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\nextendedKeyUsage=%s\nsubjectAltName=DNS:%s\n' \
      "$usage" "$name")
}

secret() { # name of the Secret, name of the identity
  printf -- '---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: %s\n  namespace: %s\ntype: Opaque\ndata:\n' \
    "$1" "$namespace"
  printf '  tls.crt: %s\n  tls.key: %s\n  ca.crt: %s\n' \
    "$(base64 -w0 <"$work/$2.crt")" "$(base64 -w0 <"$work/$2.key")" "$(base64 -w0 <"$work/ca.crt")"
}

issue haptic-controller clientAuth
issue haptic-agent serverAuth
secret haptic-credentials haptic-controller
secret haptic-agent haptic-agent
