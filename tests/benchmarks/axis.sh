#!/usr/bin/env bash
# Compares the axis of several hosts with the truth: real jobs on hosts with different clocks. Hosts are network
# namespaces, joined by a router that delays. Prints each run and the bars. Needs root and libgloo-dev.
#   tests/benchmarks/axis.sh [RUNS [SECONDS [LATE_US]]]   default: 40 runs of 20 seconds, the late rank 5 ms late
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo build --locked --quiet --release -p rankscope-interpose
AXIS_RUNS=${1:-40} AXIS_SECONDS=${2:-20} AXIS_LATE_US=${3:-5000} CI=true \
  cargo test --locked --quiet -p rankscope-tests --test axis_hosts -- --ignored --exact benchmark_of_longer_runs --nocapture
