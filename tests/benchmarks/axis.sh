#!/usr/bin/env bash
# The axis of several hosts against truth: real jobs on hosts (network namespaces and a router that delays), each with a
# clock of its own. Prints each run and the bars. Needs root and libgloo-dev.
#   tests/benchmarks/axis.sh [RUNS [SECONDS [LATE_US]]]   default: 40 runs of 20 seconds, the late rank 5 ms late
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo build --locked --quiet --release -p rankscope-interpose
AXIS_RUNS=${1:-40} AXIS_SECONDS=${2:-20} AXIS_LATE_US=${3:-5000} CI=true \
  cargo test --locked --quiet -p rankscope-tests --test axis_hosts -- --ignored --exact as_long_as_it_is_told_to --nocapture
