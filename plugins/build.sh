#!/usr/bin/env bash
# Builds the first-party plugins and copies each component to OUTPUT_DIR as <name>.wasm.
# A plugin is a folder here whose Cargo.toml makes a cdylib; `parts` is none.
# usage: plugins/build.sh OUTPUT_DIR
set -euo pipefail
output=$(mkdir -p "${1:?usage: plugins/build.sh OUTPUT_DIR}" && cd "$1" && pwd)
cd "$(dirname "$0")"
target="${HAPTIC_CACHE:-$HOME/.cache/haptic}/guests/target"
env -u RUSTFLAGS -u CARGO_ENCODED_RUSTFLAGS cargo build --quiet --locked --release --target wasm32-wasip2 --target-dir "$target"
for manifest in $(grep -l '^crate-type = .*"cdylib"' ./*/Cargo.toml); do
  plugin=$(basename "$(dirname "$manifest")")
  built="$target/wasm32-wasip2/release/${plugin//-/_}.wasm"
  # A file that did not change keeps its time, and a reader never sees half of one.
  if ! cmp -s "$built" "$output/$plugin.wasm"; then
    cp "$built" "$output/.$plugin.wasm.$$" && mv "$output/.$plugin.wasm.$$" "$output/$plugin.wasm"
  fi
done
