#!/usr/bin/env bash
# Builds what tests/gpu/run.sh needs on a machine without Rust, stripped, into tests/gpu/carry.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo build --locked --release -p rankscope -p rankscope-interpose
carry=tests/gpu/carry
rm -rf "$carry"
mkdir -p "$carry"
for file in target/release/librankscope.so target/release/rankscope; do
    strip -o "$carry/$(basename "$file")" "$file"
done
du -sk "$carry"
echo "there: OUT=\$OUT tests/gpu/run.sh, with tests/gpu/carry carried along"
