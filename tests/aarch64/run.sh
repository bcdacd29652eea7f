#!/usr/bin/env bash
# Builds the library and the program for aarch64, and runs the tests that depend on the processor under qemu-user, in a
# Debian system for aarch64 with its PyTorch and its Gloo. Needs Debian and root.
#
#   tests/aarch64/run.sh                    all of them: 20 minutes, and 10 more to build
#   tests/aarch64/run.sh --test hot_path    arguments for `cargo test`
#
# An emulator on x86-64 orders memory as x86-64 does. `formats/ranklog/tests/weak_memory.rs` checks the order, not this.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

RANKSCOPE_AARCH64_ROOT=$(tests/setup/aarch64.sh)
[ -n "$RANKSCOPE_AARCH64_ROOT" ] || exit 1
export RANKSCOPE_AARCH64_ROOT
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/tests/aarch64/inside.sh
export CARGO_INCREMENTAL=0 CARGO_PROFILE_DEV_DEBUG=line-tables-only
cargo=(--locked --target aarch64-unknown-linux-gnu --target-dir target/aarch64)

cargo build --release "${cargo[@]}" -p rankscope -p rankscope-interpose
if [ $# -gt 0 ]; then
    cargo test "${cargo[@]}" --no-fail-fast -p rankscope-tests "$@"
    exit
fi
status=0
# What the emulator (qemu 7.2) does not do, so that these tests cannot pass:
skip=(
    # madvise(MADV_WIPEONFORK) succeeds without an effect, so a child does not notice that it was forked.
    --skip a_forked_child_and_an_executed_program_have_their_own_logs
    # The state and the flags of a process in /proc/self/stat are 0.
    --skip the_last_thread_ends_the_process
    --skip a_job_that_is_stuck_is_reported_while_it_runs
    --skip a_process_runs_until_it_has_ended_whether_or_not_its_parent_has_noticed
    # The model of the processor is that of the real machine.
    --skip this_process_can_be_named
    # It takes longer than its limit, also without the library.
    --skip many_threads
)
cargo test "${cargo[@]}" --no-fail-fast -p rankscope-ranklog -p rankscope-recorder -p rankscope-interpose --lib -- "${skip[@]}" || status=1
tests=(do_no_harm hot_path ordinary_programs sigkill stuck truth_gloo truth_torch truth_nccl nccl_plugin nccl_loading cupti)
cargo test "${cargo[@]}" --no-fail-fast -p rankscope-tests "${tests[@]/#/--test=}" -- "${skip[@]}" || status=1
exit $status
