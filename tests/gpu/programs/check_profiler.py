"""Compares the records of torch.profiler with and without rankscope, and checks the records of rankscope:

    python check_profiler.py PLAIN_OUTPUT PLAIN_TRACES OUTPUT TRACES REPORT SESSION

Prints a line of JSON for each of torch.profiler's traces and one for rankscope. The status says whether all checks
pass."""

import collections
import json
import re
import sys

plain_output, plain_traces, output, traces, report, directory = sys.argv[1:7]
# Tolerance for the conversion between two clocks, in microseconds. A wrong clock is off by much more.
CLOCK_US = 50.0
has_failed = False


def output_of(path):
    lines = [line for line in open(path) if line.startswith('{"phases"')]
    if not lines:
        print(
            json.dumps(
                {"part": "torch_profiler", "ok": False, "failures": [f"{path}: the program did not come to its end"]}
            )
        )
        sys.exit(1)
    return json.loads(lines[-1])


def finish(result, failures):
    global has_failed
    has_failed |= bool(failures)
    print(json.dumps({"part": "torch_profiler", **result, "ok": not failures, "failures": failures}))


def is_of(function, name):
    return re.search(rf"(?<![A-Za-z0-9_]){function}_kernel_cuda", name) is not None


def look_at(path, function):
    """Returns a trace's number of kernels by name, and how far they are outside their launch and the wait for them."""
    events = [event for event in json.load(open(path))["traceEvents"] if event.get("ph") == "X"]
    kernels = [event for event in events if event.get("cat") == "kernel"]
    calls = [event for event in events if event.get("cat") in ("cuda_runtime", "cuda_driver")]
    launches = {
        event["args"]["correlation"]: event
        for event in calls
        if re.match("(cuda|cu)Launch(Cooperative)?Kernel", event["name"]) and "correlation" in event["args"]
    }
    waits = sorted(
        (event["ts"], event["ts"] + event["dur"]) for event in calls if event["name"] == "cudaDeviceSynchronize"
    )
    early, late, without_launch, without_wait = [], [], 0, 0
    for kernel in kernels:
        launch = launches.get(kernel["args"].get("correlation"))
        if launch is None:
            without_launch += 1
            continue
        early.append(launch["ts"] - kernel["ts"])
        wait = next((end for start, end in waits if start >= launch["ts"]), None)
        if wait is None:
            without_wait += 1
        else:
            late.append(kernel["ts"] + kernel["dur"] - wait)
    names = collections.Counter(kernel["name"] for kernel in kernels)
    return {
        "kernels": len(kernels),
        "of_the_phase": sum(count for name, count in names.items() if is_of(function, name)),
        "without_launch": without_launch,
        "without_wait": without_wait,
        "begins_before_its_launch_us": max(early, default=None),
        "ends_after_the_wait_us": max(late, default=None),
        "lasts_us": sum(kernel["dur"] for kernel in kernels) / max(len(kernels), 1),
    }, names


plain, ours = output_of(plain_output), output_of(output)
for one, other in zip(plain["phases"], ours["phases"]):
    for plain_trace, trace in zip(one.get("traces", []), other.get("traces", [])):
        failures = []
        try:
            alone, alone_names = look_at(f"{plain_traces}/{plain_trace}", one["function"])
            beside, names = look_at(f"{traces}/{trace}", other["function"])
        except (OSError, KeyError, ValueError) as error:
            finish({"case": trace}, [f"a trace cannot be read: {error!r}"])
            continue
        if beside["of_the_phase"] != other["of_each"]:
            failures.append(f"{beside['of_the_phase']} kernels of {other['of_each']}")
        if names != alone_names:
            failures.append(f"other kernels than without us: {dict(names)}, {dict(alone_names)}")
        if beside["without_launch"] > alone["without_launch"]:
            failures.append(f"{beside['without_launch']} kernels without a launch")
        for edge in ("begins_before_its_launch_us", "ends_after_the_wait_us"):
            if beside[edge] is None or beside[edge] > max(CLOCK_US, 2 * (alone[edge] or 0)):
                failures.append(f"{edge}: {beside[edge]}, without us {alone[edge]}")
        finish({"case": trace, "launched": other["of_each"], "beside_us": beside, "without_us": alone}, failures)
    if len(one.get("traces", [])) != len(other.get("traces", [])):
        finish({"case": other["phase"]}, [f"{len(other['traces'])} traces, without us {len(one['traces'])}"])

failures = []
try:
    session = json.load(open(report))
except (OSError, ValueError) as error:
    session = {"activity": []}
if not session["activity"]:
    finish({"case": "rankscope"}, ["nothing was recorded"])
    sys.exit(1)
activity = session["activity"][0]
losses = {one["cause"]: one["count"] for one in session["losses"] if one["kind"] == "activity"}
result = {
    "case": "rankscope",
    "cupti": activity["cupti"],
    "reason": activity["reason"],
    "profiled_s": ours["profiled_while_s"],
    "yielded_s": activity["yielded_ns"] / 1e9,
    "covered_s": activity["covered_ns"] / 1e9,
    "losses": losses,
    "phases": {},
}
from pyarrow import parquet


def table(name):
    return parquet.read_table(f"{directory}/{name}/rank=0.parquet", partitioning=None).to_pylist()


kernels = {row["number"]: row["name"] for row in table("names")}
counted = collections.Counter(kernels.get(row["name"], "") for row in table("works") if row["kind"] == "kernel")
for phase in ours["phases"]:
    found = sum(count for name, count in counted.items() if is_of(phase["function"], name))
    result["phases"][phase["phase"]] = {"launched": phase["launched"], "recorded_by_us": found}
    if phase.get("recorded") and found != phase["launched"]:
        failures.append(f"{phase['phase']}: {found} kernels of {phase['launched']} were recorded")
    # In these phases rankscope must not record.
    if phase["phase"] in ("before", "off", "after") and found:
        failures.append(f"{phase['phase']}: {found} kernels were recorded")
if activity["reason"] is not None:
    failures.append(f"ended: {activity['reason']}")
if activity["yielded_ns"] < ours["profiled_while_s"] * 0.9e9:
    failures.append(f"yielded for {activity['yielded_ns']} ns of {ours['profiled_while_s']} s")
if "foreign-clock" in losses:
    failures.append(f"stamped by another clock: {losses['foreign-clock']}")
finish(result, failures)
sys.exit(has_failed)
