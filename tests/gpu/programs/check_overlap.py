"""Compares the device's activity, as examples/overlap reports it, with the recording:

    python check_overlap.py CASE OUTPUT REPORT

Prints one line of JSON. The status says whether all checks pass."""

import json
import sys

case, output, report = sys.argv[1:4]
PARTS = ("compute_only_ns", "overlapped_ns", "exposed_communication_ns", "idle_ns")
failures = []
measurements = [json.loads(line) for line in open(output) if line.startswith('{"rounds"')]
try:
    session = json.load(open(report))
except (OSError, ValueError) as error:
    session = {"activity": []}
    failures.append(f"there is no report: {error}")
result = {"part": "overlap_known", "case": case}
if not measurements or not session["activity"]:
    failures.append("nothing was recorded" if measurements else "the program did not come to its end")
else:
    truth, planned, ours = measurements[-1]["truth"], measurements[-1]["planned"], session["activity"][0]
    result.update(
        truth=truth, planned=planned, ours={name: ours[name] for name in (*PARTS, "window_ns", "window", "lost")}
    )
    result["off"] = {}
    communication = truth["overlapped_ns"] + truth["exposed_communication_ns"]
    for name in (*PARTS, "window_ns"):
        off = ours[name] - truth[name]
        result["off"][name] = off / truth[name] if truth[name] else None
        # A part that is zero or nearly zero is measured against the whole communication.
        if abs(off) > 0.02 * max(truth[name], communication):
            failures.append(f"{name}: {ours[name]}, in truth {truth[name]}")
    share = ours["overlap"]["value"]
    if share:
        result["overlap"] = share["numerator"] / share["denominator"]
        result["true_overlap"] = truth["overlapped_ns"] / communication
    else:
        failures.append(f"no overlap: {ours['overlap']['reason']}")
    for name, count in (
        ("kernels", truth["compute_kernels"]),
        ("communication_kernels", truth["communication_kernels"]),
    ):
        if ours[name] != count:
            failures.append(f"{ours[name]} {name} of {count}")
    # The truth must be near the plan. Otherwise another process used the device.
    if abs(truth["overlapped_ns"] - planned["overlapped_ns"]) > 0.05 * communication:
        failures.append(f"not what was planned: {truth} {planned}")
    if ours["copies"] or ours["sets"] or ours["lost"] or not ours["adds_up"] or ours["window"] != "run":
        failures.append(
            f"more than the kernels: {ours['copies']} {ours['sets']} {ours['lost']} {ours['adds_up']} {ours['window']}"
        )
result.update(ok=not failures, failures=failures)
print(json.dumps(result))
sys.exit(bool(failures))
