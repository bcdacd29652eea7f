#!/usr/bin/env bash
# Runs everything that needs a GPU, on a machine with one, with CUDA 13 and PyTorch and without Rust:
#
#   tests/gpu/pack.sh                       here: builds everything needed into tests/gpu/carry (not committed)
#   OUT=DIRECTORY tests/gpu/run.sh [PART…]  there: runs all parts, or the named ones; `devices` names those of CUPTI
#
# The table below lists the parts, each with its time limit in seconds. All together take less than 10 minutes, and so
# do those of `devices`. Small results are in $OUT from the first second on. $OUT/results.txt reports the end of each
# part. $OUT/results.jsonl has a line for each comparison or measurement of devices. With PACK=FILE all of $OUT is
# packed into this .tar.gz after each part, for machines from which only few files can be copied. README.md says what
# each part proves.
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
# Copied files may have lost their mode.
chmod +x "$rankscope" 2>/dev/null || { cp "$rankscope" "$work/rankscope"; chmod +x "$work/rankscope"; rankscope=$work/rankscope; }

# name, limit in seconds, description
parts=(
    "machine 15 versions and the device"
    "single 30 one rank, eager training, preloaded"
    "selftest 150 rankscope selftest: NCCL by calls, plugin and events, kernels of known times, kills, another profiler"
    "plugin_alone 35 two ranks on the one GPU, every collective with a known size, by the plugin alone"
    "traffic 35 the same with what proxies move"
    "ddp 45 two ranks, DDP training"
    "fsdp 45 two ranks, FSDP training"
    "graphs 35 one rank, communication inside CUDA graphs"
    "hang 45 two ranks, of which one never comes"
    "kill 40 kill -9 in mid-run"
    "overhead_calls 50 step time with calls recorded and not, one rank, in interleaved blocks"
    "overhead_plugin 55 step time with calls and plugin and without either, two ranks, in interleaved blocks"
)

# Run only if they are named, because all together would take too long.
more=(
    "ddp_kernels 60 two ranks, DDP training, with kernels"
    "fsdp_kernels 60 two ranks, FSDP training, with kernels"
    "doctor 40 rankscope doctor of a machine with a GPU"
    "counters 60 rankscope run --kernels=all with a sampled GPU, as a user starts it"
    "bench 60 rankscope bench of NCCL on one GPU"
    "overhead_events 55 step time with launches timed by events and not, two ranks, in interleaved blocks"
    "torch_profiler 90 torch.profiler before, beside and after our recording: its records and ours"
    "overlap_known 50 compute and communication that overlap by a known amount, within 2 %"
    "questions 110 what only a real CUPTI answers"
    "overhead_kernels 235 step time and launches with nothing, calls, kernels, torch.profiler, in interleaved blocks"
)

# Parts that `devices` selects: 485 s at most.
devices=(torch_profiler overlap_known questions overhead_kernels)

# Runs ranks of a program on the one GPU. NCCL takes each for a rank on a different host (research: NCCL_HOSTID per
# process passes its check for duplicate devices; the transport is a socket).
# ranks NUMBER DIRECTORY PROGRAM [ARGUMENTS…]
# `settings` has the variables of their environment, which control the recording. `runner` runs the program.
settings=(LD_PRELOAD="$library")
runner=("$python")
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
            "${runner[@]}" "$@" >"$directory/rank$rank.out" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || status=$?
    done
    return "$status"
}

# Keeps the session of a run directory, and its logs if they are small enough for fixtures.
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

# Runs a part that consists of ranks of one program. It is merged and kept whatever its exit status.
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

selftest() {
    RANKSCOPE_LIBRARY=$library LD_LIBRARY_PATH="$(dirname "$(wheel_library libcupti.so.13)")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" \
        "$rankscope" selftest -o "$work/selftest" --library "${NCCL:-$(wheel_library libnccl.so.2)}" \
        --bundle "$out/selftest.tar.gz"
}

# Runs every collective once, recorded in one way: checked NAME HAS_DEVICE_TIMES
checked() {
    part "$1" 2 collectives.py "$out/$1.truth" && "$python" "$here/programs/check.py" "$out/$1.truth" \
        "$out/$1/session.json" "$2" >"$out/$1/check.txt" 2>&1
}

doctor() {
    "$rankscope" doctor --json -- "$python" "$here/programs/train.py" >"$out/doctor.json" 2>"$out/doctor.err"
    "$rankscope" doctor -- "$python" "$here/programs/train.py" >"$out/doctor.txt" 2>&1
}

counters() {
    local directory=$work/counters status
    mkdir -p "$out/counters"
    # The command finds CUPTI and NVML itself.
    RANKSCOPE_LIBRARY=$library \
        "$rankscope" run --kernels=all -o "$directory" -- "$python" "$here/programs/load.py" 15 \
        >"$out/counters/run.txt" 2>&1
    status=$?
    cp "$directory"/gpus-*.jsonl "$out/counters/" 2>/dev/null
    keep counters "$directory"
    "$rankscope" report --json "$directory" >"$out/counters/report.json" 2>"$out/counters/report.txt"
    results "$python" "$here/programs/check_counters.py" "$out/counters/report.json" 15 && return "$status"
}

bench() {
    RANKSCOPE_LIBRARY=$library "$rankscope" bench -o "$work/bench" --backend nccl --max 64M --factor 8 \
        >"$out/bench.txt" 2>&1
    local status=$?
    cp "$work"/bench/bench.json "$out/" 2>/dev/null
    return "$status"
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

# Two ranks on one GPU hang in a graph with communication, also without rankscope.
graphs() {
    part graphs 1 graphs.py
}

# Two ranks with NCCL's calls, the plugin and the kernels of both.
ddp_kernels() {
    record_devices
    settings+=(RANKSCOPE_KERNELS=all)
    part ddp_kernels 2 train.py --steps 40
}

fsdp_kernels() {
    record_devices
    settings+=(RANKSCOPE_KERNELS=all)
    part fsdp_kernels 2 train.py --steps 20 --fsdp
}

hang() {
    # This script ends the job. Afterwards the session must say which rank waits for which.
    ranks 2 "$work/hang" "$here/programs/hang.py" &
    local ours=$!
    sleep 30
    pkill -KILL -f "$here/programs/hang.py"
    wait "$ours"
    keep hang "$work/hang"
    # Rank 1 never called it: the instance is incomplete, and the session says so.
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

# ---- device activity from CUPTI --------------------------------------------------------------------------------------

# Finds a library of the PyTorch wheels by its name, without importing PyTorch.
wheel_library() {
    "$python" - "$1" <<'PYTHON'
import glob, importlib.util, sys
found = importlib.util.find_spec("nvidia")
places = list(found.submodule_search_locations) if found else []
paths = [path for place in places for path in sorted(glob.glob(f"{place}/**/{sys.argv[1]}", recursive=True))]
print(paths[0] if paths else sys.argv[1])
PYTHON
}

# Finds a copied program, which may have lost its mode.
carried() {
    if [ -x "$carry/$1" ]; then
        echo "$carry/$1"
    else
        cp "$carry/$1" "$work/$1" && chmod +x "$work/$1" && echo "$work/$1"
    fi
}

# Sets up the recording of device work, switched off at first (a program says when it is ready). It has the same
# capacity as with `rankscope run --kernels`. It also names the library to load in a program without PyTorch.
record_devices() {
    settings=(LD_PRELOAD="$library" RANKSCOPE_KERNELS=off RANKSCOPE_LIVE_MIB=32
        RANKSCOPE_CUPTI="${CUPTI:-$(wheel_library libcupti.so.13)}")
}

# Also saves records as CUPTI writes them.
# save_records DIRECTORY
save_records() {
    mkdir -p "$1.dump"
    settings+=(RANKSCOPE_CUPTI_DUMP="$1.dump")
}

# Runs a comparison whose lines of JSON are results, and shows the start of each line. Its status is that of the part.
# results COMMAND…
results() {
    "$@" | tee -a "$out/results.jsonl" | cut -c 1-300
    return "${PIPESTATUS[0]}"
}

# Writes `rankscope report --json` of a merged directory to OUT/PART/report.json, and CUPTI's original records to
# OUT/fixtures.
# reported PART DIRECTORY
reported() {
    local part=$1 directory=$2
    keep "$part" "$directory"
    rm -f "$out/$part"/*.rslog
    "$rankscope" report --json "$directory" >"$out/$part/report.json" 2>"$out/$part/report.txt"
    [ ! -d "$directory.dump" ] || results "$python" "$here/programs/dumps.py" "$part" "$directory.dump" "$out/fixtures"
}

torch_profiler() {
    local plain=$work/torch_profiler.plain directory=$work/torch_profiler status=0
    settings=()
    ranks 1 "$plain" "$here/programs/torch_profiler.py" "$plain/traces" || echo "without us it ended with $?"
    mkdir -p "$out/torch_profiler"
    tail -c 20000 "$plain/rank0.out" >"$out/torch_profiler/without.txt"
    record_devices
    save_records "$directory"
    settings+=(RANKSCOPE_KERNELS=all)
    ranks 1 "$directory" "$here/programs/torch_profiler.py" "$directory/traces" "'$rankscope' ctl '$directory'" ||
        echo "beside us it ended with $?"
    reported torch_profiler "$directory" || status=1
    results "$python" "$here/programs/check_profiler.py" "$plain/rank0.out" "$plain/traces" "$directory/rank0.out" \
        "$directory/traces" "$out/torch_profiler/report.json" "$directory/session" || status=1
    return "$status"
}

overlap_known() {
    local status=0 overlap compiler
    # NVRTC is in the same directory as the library that it loads itself.
    compiler=$(dirname "$(wheel_library libnvrtc.so.13)")
    for overlap in 0 40 100; do
        local directory=$work/overlap_known-$overlap
        record_devices
        settings+=(LD_LIBRARY_PATH="$compiler${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
        runner=()
        ranks 1 "$directory" "$(carried overlap)" --overlap-percent "$overlap" --rounds 300 --wait-ms 2500 \
            --nccl "${NCCL:-$(wheel_library libnccl.so.2)}" --ready "'$rankscope' ctl '$directory' --kernels=all"
        echo "overlap of $overlap % ended with $?"
        reported "overlap_known-$overlap" "$directory"
        results "$python" "$here/programs/check_overlap.py" "$overlap" "$directory/rank0.out" \
            "$out/overlap_known-$overlap/report.json" || status=1
    done
    return "$status"
}

questions() {
    # Only the program itself may use CUPTI here.
    results env -u LD_PRELOAD "$(carried questions)" --cupti "${CUPTI:-$(wheel_library libcupti.so.13)}" \
        --cudart "${CUDART:-$(wheel_library libcudart.so.13)}" \
        --nccl "${NCCL:-$(wheel_library libnccl.so.2)}" 2>"$out/questions.txt"
}

overhead_kernels() {
    local directory=$work/overhead_kernels
    record_devices
    ranks 1 "$directory" "$here/programs/overhead_kernels.py" "$directory.jsonl" "'$rankscope' ctl '$directory'"
    local status=$?
    reported overhead_kernels "$directory"
    [ "$status" -eq 0 ] || return "$status"
    # The recording has exactly the requested content.
    results "$python" - "$directory.jsonl" "$out/overhead_kernels/report.json" <<'PYTHON'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
activity = (json.load(open(sys.argv[2]))["activity"] or [None])[0]
seconds = next(line["seconds_in_it"] for line in lines if line["case"] == "kernels")
covered = activity["covered_ns"] / 1e9 if activity else 0
switched = 2.2 * 61
failures = [] if seconds * 0.98 <= covered <= seconds + switched else [f"recorded for {covered} s instead of {seconds}"]
if activity and (activity["lost"] or activity["reason"]):
    failures.append(f"lost {activity['lost']}, {activity['reason']}")
recorded = activity["kernels"] if activity else 0
lines.append({"part": "overhead_kernels", "case": "recorded", "seconds": seconds, "covered_s": covered, "kernels": recorded,
              "ok": not failures, "failures": failures})
print("\n".join(json.dumps(line) for line in lines))
sys.exit(bool(failures))
PYTHON
}

# Packs all results into one file, which is always complete.
pack() {
    [ -n "${PACK:-}" ] || return 0
    tar -C "$out" -czf "$PACK.new" . && mv "$PACK.new" "$PACK"
}

wanted=()
for name in "$@"; do
    if [ "$name" = devices ]; then
        wanted+=("${devices[@]}")
    else
        wanted+=("$name")
    fi
done
[ ${#wanted[@]} -gt 0 ] && parts+=("${more[@]}")
for entry in "${parts[@]}"; do
    read -r name limit what <<<"$entry"
    if [ ${#wanted[@]} -gt 0 ] && ! printf '%s\n' "${wanted[@]}" | grep -qx "$name"; then
        continue
    fi
    start=$(date +%s)
    function=$name
    [ "$name" = kill ] && function=kill_9
    # The part has its own process group, which is killed as a whole at the time limit. The waiting watchdog must not
    # outlive the part either, because a reader of this output would wait for it too.
    ( set -m; ( "$function" ) & pid=$!; ( sleep "$limit"; kill -KILL -- -"$pid" ) >/dev/null 2>&1 & watch=$!
      wait "$pid"; status=$?; kill -- -"$watch" 2>/dev/null; exit "$status" )
    status=$?
    echo "$name: $([ $status -eq 0 ] && echo passed || echo "failed ($status)") after $(($(date +%s) - start)) s: $what" \
        | tee -a "$out/results.txt"
    pack
done
du -sk "$out" | awk '$1 > 16384 { print "results are too large: " $1 " KiB" }' | tee -a "$out/results.txt"
pack
! grep -q failed "$out/results.txt"
