"""Measures the cost of recording a real DDP training on Gloo: python overhead.py [--pairs 300] [--runs 5] [--steps 600]

1. Inside one run: recording is switched in blocks of steps on all ranks. The result is the mean of the paired log
   ratios of block times, with its 95 % interval. Equivalence holds if the interval is inside +-1 %.
2. Between runs: with and without preload, in interleaved pairs of runs. The result is the ratio of median step times
   with its interval.
3. For comparison: torch.profiler on the same job, in the same interleaving.
4. Bytes on disk per operation, and bytes of the Kineto JSON for the same steps.

Needs a python with torch (this one) and target/release/librankscope.so. Prints one JSON object.
"""

import argparse
import glob
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LIBRARY = HERE.parents[1] / "target" / "release" / "librankscope.so"
RANKS = 2
# Two-sided 95 % quantile of Student's t by degrees of freedom.
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262, 10: 2.228}


def run(mode, count, out, preload=None, profiler=None):
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "RANKSCOPE_DIR", "PROFILER")}
    environment["OMP_NUM_THREADS"] = "1"
    if preload:
        environment.update(LD_PRELOAD=str(LIBRARY), RANKSCOPE_DIR=preload)
    if profiler:
        environment["PROFILER"] = profiler
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(RANKS)]
    command += [str(HERE / "overhead_job.py"), mode, str(count), out]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    with open(out) as file:
        return json.load(file)


def interval(logs):
    """Returns the mean of log ratios as a change in percent, with its 95 % interval."""
    n = len(logs)
    mean = statistics.fmean(logs)
    half = T95.get(n - 1, 1.96) * statistics.stdev(logs) / math.sqrt(n)
    return {
        "change_percent": round(100 * (math.exp(mean) - 1), 3),
        "low_percent": round(100 * (math.exp(mean - half) - 1), 3),
        "high_percent": round(100 * (math.exp(mean + half) - 1), 3),
        "pairs": n,
    }


def trimmed(logs, share=0.1):
    """Returns the same without the most extreme tenth on each side: a burst of other load is not the recorder's cost.

    The standard error is that of Tukey and McLaughlin (1963). It uses the winsorised variance, which counts the values
    that were cut.
    """
    n, cut = len(logs), int(len(logs) * share)
    ordered = sorted(logs)
    kept = ordered[cut : n - cut]
    mean = statistics.fmean(kept)
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    error = statistics.stdev(winsorised) / ((1 - 2 * cut / n) * math.sqrt(n))
    half = T95.get(len(kept) - 1, 1.96) * error
    return {
        "change_percent": round(100 * (math.exp(mean) - 1), 3),
        "low_percent": round(100 * (math.exp(mean - half) - 1), 3),
        "high_percent": round(100 * (math.exp(mean + half) - 1), 3),
        "pairs_kept": len(kept),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=600)
    arguments = parser.parse_args()
    result = {}
    with tempfile.TemporaryDirectory() as work:
        out = os.path.join(work, "out.json")
        print(f"inside one run: {arguments.pairs} pairs of blocks", file=sys.stderr)
        pairs = run("blocks", arguments.pairs, out, preload=os.path.join(work, "blocks"))
        logs = [math.log(on / off) for on, off in pairs]
        result["blocks"] = interval(logs)
        result["blocks_trimmed"] = trimmed(logs)
        result["block_ms"] = round(statistics.median(off for _, off in pairs) / 1e6, 2)

        plain, preloaded, profiled = [], [], []
        for number in range(arguments.runs):
            print(f"between runs: {number + 1} of {arguments.runs}", file=sys.stderr)
            directory = os.path.join(work, f"run{number}")
            profiler = os.path.join(work, f"profiler{number}")
            os.mkdir(profiler)
            jobs = [
                (plain, {}),
                (preloaded, {"preload": directory}),
                (profiled, {"profiler": profiler}),
            ]
            # The order rotates by one each time, so that no kind always comes first.
            for times, options in jobs[number % 3 :] + jobs[: number % 3]:
                times.append(statistics.median(run("steps", arguments.steps, out, **options)))
            sizes = sorted(os.path.getsize(path) for path in glob.glob(os.path.join(directory, "*.rslog")))
            kineto = sorted(os.path.getsize(path) for path in glob.glob(os.path.join(profiler, "*.json")))
            result["rank_log_bytes"], result["kineto_bytes"] = sizes, kineto
        result["preload_between_runs"] = interval([math.log(a / b) for a, b in zip(preloaded, plain)])
        result["torch_profiler_between_runs"] = interval([math.log(a / b) for a, b in zip(profiled, plain)])
        result["step_ms"] = round(statistics.median(plain) / 1e6, 3)
        result["steps"] = arguments.steps
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
