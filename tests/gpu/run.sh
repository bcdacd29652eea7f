#!/usr/bin/env bash
# Everything that needs a GPU, on a machine that has one, with CUDA 13 and PyTorch and without Rust:
#
#   tests/gpu/pack.sh                       here: builds and puts what is needed into tests/gpu/carry (not committed)
#   OUT=DIRECTORY tests/gpu/run.sh [PART…]  there: runs all parts, or those that are named
#
# Parts (each with its own time limit, in seconds): see the table below. All together under 9 minutes. Results lie in
# $OUT from the first second on, small; $OUT/results.txt says how each part ended.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
carry=$here/carry
out=${OUT:?set OUT to an empty directory for the results}
python=${PYTHON:-python3}
library=$carry/librankscope.so
rankscope=$carry/rankscope
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

for file in "$library" "$rankscope"; do
    [ -r "$file" ] || { echo "no $file: run tests/gpu/pack.sh where Rust is" >&2; exit 2; }
done
# Files that were carried may have lost their mode.
chmod +x "$rankscope" 2>/dev/null || { cp "$rankscope" "$work/rankscope"; chmod +x "$work/rankscope"; rankscope=$work/rankscope; }

# name, limit in seconds, what it is
parts=(
    "machine 15 versions and the device"
    "single 30 one rank, eager training, preloaded"
    "collectives 35 two ranks on the one GPU, every collective with a known size, by hooks and plugin"
    "preload_alone 35 the same by hooks alone"
    "events 40 the same by hooks, and events around launches"
    "plugin_alone 35 the same by the plugin alone, without a preload"
    "traffic 35 the same with what proxies move"
    "ddp 45 two ranks, DDP training"
    "fsdp 45 two ranks, FSDP training"
    "graphs 35 two ranks, communication inside CUDA graphs"
    "hang 45 two ranks, of which one never comes"
    "kill 40 kill -9 in mid-run"
    "overhead_calls 50 step time with calls recorded and not, one rank, in interleaved blocks"
    "overhead_plugin 55 step time with calls and plugin and without either, two ranks, in interleaved blocks"
)

# Run only if they are named: with them all would take too long.
more=(
    "overhead_events 55 step time with launches timed by events and not, two ranks, in interleaved blocks"
)

# Ranks of a Python program, each on the one GPU and on a host of its own as far as NCCL knows
# (research: NCCL_HOSTID per process passes its check for duplicate devices; the transport is a socket).
# ranks NUMBER DIRECTORY PROGRAM [ARGUMENTS…]
# How they are recorded is in `settings`: variables of their environment.
settings=(LD_PRELOAD="$library")
ranks() {
    local number=$1 directory=$2 rank pids=() status=0
    shift 2
    local port=$((20000 + RANDOM % 20000))
    mkdir -p "$directory"
    for rank in $(seq 0 $((number - 1))); do
        env RANK="$rank" WORLD_SIZE="$number" LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" \
            NCCL_HOSTID="fake$rank" NCCL_SOCKET_IFNAME=lo NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_P2P_DISABLE=1 \
            NCCL_SHM_DISABLE=1 NCCL_NVLS_ENABLE=0 NCCL_MNNVL_ENABLE=0 NCCL_RAS_ENABLE=0 NCCL_MAX_CTAS=2 \
            GLOO_SOCKET_IFNAME=lo RANKSCOPE_DIR="$directory" "${settings[@]}" \
            "$python" "$@" >"$directory/rank$rank.out" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || status=$?
    done
    return "$status"
}

# What a run directory says, and its logs if they are small enough to become fixtures.
# keep PART DIRECTORY
keep() {
    local part=$1 directory=$2
    mkdir -p "$out/$part"
    "$rankscope" merge "$directory" >"$out/$part/summary.txt" 2>&1
    cp "$directory"/session/session.json "$out/$part/" 2>/dev/null
    tail -c 20000 "$directory"/rank*.out >"$out/$part/output.txt" 2>/dev/null
    local bytes
    bytes=$(cat "$directory"/*.rslog 2>/dev/null | wc -c)
    if [ "$bytes" -le $((1 << 20)) ]; then
        cp "$directory"/*.rslog "$out/$part/" 2>/dev/null
    fi
}

# A part that is ranks of one program: merged and kept however they end.
# part NAME RANKS PROGRAM [ARGUMENTS…]
part() {
    local name=$1 number=$2 program=$3 status
    shift 3
    ranks "$number" "$work/$name" "$here/programs/$program" "$@"
    status=$?
    keep "$name" "$work/$name"
    return "$status"
}

machine() {
    {
        nvidia-smi
        "$python" -c 'import torch; print(torch.__version__, torch.version.cuda, torch.cuda.nccl.version())'
        "$python" -m pip list 2>/dev/null | grep -i -E 'nccl|cupti|torch|nvtx'
        uname -a
        ldd --version | head -1
    } >"$out/machine.txt" 2>&1
}

single() {
    part single 1 train.py --steps 50
}

# Every collective once, recorded in one way: checked NAME HAS_DEVICE_TIMES
checked() {
    part "$1" 2 collectives.py "$out/$1.truth" && "$python" "$here/programs/check.py" "$out/$1.truth" \
        "$out/$1/session.json" "$2" >"$out/$1/check.txt" 2>&1
}

collectives() {
    checked collectives yes
}

preload_alone() {
    settings+=(NCCL_PROFILER_PLUGIN=none)
    checked preload_alone no
}

events() {
    settings+=(NCCL_PROFILER_PLUGIN=none RANKSCOPE_NCCL_EVENTS=100000)
    checked events yes
}

plugin_alone() {
    settings=(NCCL_PROFILER_PLUGIN="$library")
    checked plugin_alone yes
}

traffic() {
    settings+=(RANKSCOPE_NCCL_TRAFFIC=1)
    checked traffic yes && "$python" - "$out/traffic/session.json" <<'PYTHON'
import json, sys
traffic = json.load(open(sys.argv[1]))["traffic"]
print(traffic)
sys.exit(not any(one["sent_bytes"] > 0 for one in traffic))
PYTHON
}

ddp() {
    part ddp 2 train.py --steps 20
}

fsdp() {
    part fsdp 2 train.py --steps 10 --fsdp
}

graphs() {
    part graphs 2 graphs.py
}

hang() {
    # Ended by us: what must be there afterwards is who waits for whom.
    ranks 2 "$work/hang" "$here/programs/hang.py" &
    local ours=$!
    sleep 30
    pkill -KILL -f "$here/programs/hang.py"
    wait "$ours"
    keep hang "$work/hang"
    # Rank 1 never called it: the instance is incomplete, and says so.
    "$python" - "$out/hang/session.json" <<'PYTHON'
import json, sys
matching = json.load(open(sys.argv[1]))["matching"]
waited_for = [one["missing_members"] for one in matching["listed"] if one["kind"] == "incomplete"]
print(waited_for)
sys.exit([1] not in waited_for)
PYTHON
}

kill_9() {
    ranks 2 "$work/kill" "$here/programs/train.py" --steps 100000 &
    local ours=$!
    sleep 25
    pkill -KILL -f "$here/programs/train.py --steps 100000"
    wait "$ours"
    keep kill "$work/kill"
    "$python" - "$out/kill/session.json" <<'PYTHON'
import json, sys
session = json.load(open(sys.argv[1]))
operations = [rank["operations"] for rank in session["ranks"]]
print(operations, session["totals"]["lost"])
sys.exit(len(operations) != 2 or min(operations) < 100)
PYTHON
}

# measured NAME RANKS
measured() {
    part "$1" "$2" overhead.py "$out/$1.json"
    local status=$?
    rm -f "$out/$1"/*.rslog
    return "$status"
}

overhead_calls() {
    settings+=(NCCL_PROFILER_PLUGIN=none)
    measured overhead_calls 1
}

overhead_events() {
    settings+=(NCCL_PROFILER_PLUGIN=none RANKSCOPE_NCCL_EVENTS=100000)
    measured overhead_events 2
}

overhead_plugin() {
    measured overhead_plugin 2
}

wanted=("$@")
[ ${#wanted[@]} -gt 0 ] && parts+=("${more[@]}")
for entry in "${parts[@]}"; do
    read -r name limit what <<<"$entry"
    if [ ${#wanted[@]} -gt 0 ] && ! printf '%s\n' "${wanted[@]}" | grep -qx "$name"; then
        continue
    fi
    start=$(date +%s)
    function=$name
    [ "$name" = kill ] && function=kill_9
    # In a process group of its own, which goes as a whole when the time is up.
    ( set -m; ( "$function" ) & pid=$!; ( sleep "$limit"; kill -KILL -- -"$pid" ) 2>/dev/null & watch=$!
      wait "$pid"; status=$?; kill "$watch" 2>/dev/null; exit "$status" )
    status=$?
    echo "$name: $([ $status -eq 0 ] && echo passed || echo "failed ($status)") after $(($(date +%s) - start)) s: $what" \
        | tee -a "$out/results.txt"
done
du -sk "$out" | awk '$1 > 16384 { print "results are too large: " $1 " KiB" }' | tee -a "$out/results.txt"
! grep -q failed "$out/results.txt"
