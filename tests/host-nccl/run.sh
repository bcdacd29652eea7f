#!/usr/bin/env bash
# Runs cases of the program on N ranks of the real NCCL: `run.sh DIRECTORY RANKS CASE...`, with a directory that
# tests/setup/host_nccl.sh prints. Ends with the first status that is not 0.
set -euo pipefail
directory=$1 ranks=$2
shift 2
store=$(mktemp -d)
trap 'rm -rf "$store"' EXIT
processes=()
for ((rank = 0; rank < ranks; rank++)); do
    if [ "${HOST_NCCL_HOSTS:-0}" = 1 ]; then
        export NCCL_HOSTID=host$rank HOST_NCCL_NODE=$rank
    fi
    "$directory/host_nccl_all" "$rank" "$ranks" "$store" "$@" &
    processes+=($!)
done
status=0
for process in "${processes[@]}"; do
    wait "$process" || status=$?
done
exit "$status"
