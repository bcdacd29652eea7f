#!/usr/bin/env bash
# Builds everything that tests/gpu/run.sh needs on a machine without Rust, stripped, into tests/gpu/carry. Needs no GPU
# and no CUDA.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo build --locked --release -p rankscope -p rankscope-interpose
carry=tests/gpu/carry
rm -rf "$carry"
mkdir -p "$carry"
for file in target/release/librankscope.so target/release/rankscope; do
    strip -o "$carry/$(basename "$file")" "$file"
done
# A program that loads everything of CUDA at run time.
${CXX:-g++} -std=c++17 -O2 -Wall -Wextra -s -static-libstdc++ -static-libgcc -o "$carry/questions" \
    tests/gpu/programs/questions.cc -ldl -pthread
# A separate workspace, with its own target directory.
(cd examples/overlap && cargo build --locked --release --target-dir target)
strip -o "$carry/overlap" examples/overlap/target/release/rankscope-example-overlap
du -sk "$carry"
echo "there, with tests/gpu/carry carried along:"
echo "  OUT=/tmp/results PACK=\$OUT/results.tar.gz tests/gpu/run.sh [PART…]    (devices: the parts that use CUPTI)"
