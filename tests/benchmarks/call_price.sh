#!/usr/bin/env bash
# Measures the cost of one intercepted call against its floor, in one process (tests/programs/price.h). Measures calls
# of Gloo (needs libgloo-dev), and of NCCL on its test double.
#   tests/benchmarks/call_price.sh [RUNS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
c++ -std=c++17 -O2 -I tests/programs tests/programs/call_price.cc -o "$work/call_price" -lgloo -ldl -lpthread
double=$work/double
mkdir "$double"
c++ -std=c++17 -O2 -fPIC -shared -pthread -Wl,-soname,libnccl.so.2 \
  tests/doubles/nccl/nccl.cc tests/doubles/nccl/profiler.cc -o "$double/libnccl.so.2" -ldl
c++ -std=c++17 -O2 tests/programs/nccl_price.cc -o "$work/nccl_price" -L "$double" -l:libnccl.so.2 -Wl,-rpath,"$double" -ldl
c++ -std=c++17 -O2 -fno-builtin -rdynamic tests/programs/nccl_plugin_hot.cc -o "$work/nccl_plugin" -ldl -lpthread
for run in $(seq "${1:-3}"); do
  mkdir "$work/store$run"
  LD_PRELOAD=$PWD/target/release/librankscope.so RANKSCOPE_DIR=$work/run$run "$work/call_price" 0 1 "$work/store$run"
  LD_PRELOAD=$PWD/target/release/librankscope.so RANKSCOPE_DIR=$work/nccl$run "$work/nccl_price"
  LD_PRELOAD=$PWD/target/release/librankscope.so RANKSCOPE_DIR=$work/plugin$run "$work/nccl_plugin" price 5
done
