#!/usr/bin/env bash
# Builds the guests that the host's tests load and copies each component to OUTPUT_DIR as <name>.wasm.
# usage: tests/guests/build.sh OUTPUT_DIR
set -euo pipefail
output=$(mkdir -p "${1:?usage: tests/guests/build.sh OUTPUT_DIR}" && cd "$1" && pwd)
cd "$(dirname "$0")"
target="${HAPTIC_CACHE:-$HOME/.cache/haptic}/guests/target"
env -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS cargo build --quiet --locked --release --target wasm32-wasip2 --target-dir "$target"
for manifest in */Cargo.toml; do
  guest=$(dirname "$manifest")
  built="$target/wasm32-wasip2/release/${guest//-/_}.wasm"
  # A file that did not change keeps its time, and a reader never sees half of one.
  if ! cmp -s "$built" "$output/$guest.wasm"; then
    cp "$built" "$output/.$guest.wasm.$$" && mv "$output/.$guest.wasm.$$" "$output/$guest.wasm"
  fi
done
