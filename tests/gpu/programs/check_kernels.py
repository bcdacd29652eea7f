"""Compares the launches of kernels.cc with the recording: python check_kernels.py CASE OUTPUT REPORT SESSION.

CASE is exit, _exit, kill or graphs. OUTPUT is the output of the program, REPORT that of `rankscope report --json`, and
SESSION the session directory. Prints one line of JSON. The status says whether all checks pass."""

import collections
import json
import os
import sys

case, output, report, directory = sys.argv[1:5]
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)


truth = {}
for line in open(output):
    if line.startswith('{"'):
        truth.update(json.loads(line))
try:
    session = json.load(open(report))
except (OSError, ValueError) as error:
    session = {"activity": []}
    check(False, f"there is no report: {error}")
result = {"part": "kernels_graphs" if case == "graphs" else "kernels", "case": case}
if not session["activity"] or "launched" not in truth:
    check(False, "nothing was recorded" if "launched" in truth else "the program did not come to its end")
else:
    ours = session["activity"][0]
    kinds = ("kernels", "copies", "sets")
    recorded = sum(ours[kind] for kind in kinds) + ours["communication_kernels"] + ours["graphs"]
    losses = {f"{one['kind']}, {one['cause']}": one["count"] for one in session["losses"] if one["kind"] == "activity"}
    result.update(
        cupti=ours["cupti"],
        launched=truth["launched"],
        recorded=recorded,
        lost=ours["lost"],
        losses=losses,
        undelivered=truth["launched"] - recorded - ours["lost"],
        with_launch=ours["with_launch"],
        launches_without_work=ours["launches_without_work"],
        covered_ns=ours["covered_ns"],
        delivered_until_ns=ours["delivered_until_ns"],
        shortest_launch_ns=ours["shortest_launch_ns"]["value"],
        shortest_wait_ns=ours["shortest_wait_ns"]["value"],
        ran_ms=truth["ran_ms"],
        communicator_ms=truth["communicator_ms"],
    )
    check(ours["reason"] is None, f"not recorded to the end: {ours['reason']}")
    check(ours["adds_up"], "the parts do not add up")
    check(ours["communication_kernels"] == ours["graphs"] == 0, "works that nobody launched")
    for kind in kinds:
        check(ours[kind] <= truth[kind], f"{kind}: {ours[kind]} recorded of {truth[kind]}")
    if case in ("exit", "graphs"):
        # The proof: recorded + lost = launched.
        check(
            recorded + ours["lost"] == truth["launched"],
            f"recorded {recorded} + lost {ours['lost']} is not {truth['launched']}",
        )
        if ours["lost"] == 0:
            for kind in kinds:
                check(ours[kind] == truth[kind], f"{kind}: {ours[kind]} recorded of {truth[kind]}")
            check(ours["with_launch"] == recorded, f"the launch of {recorded - ours['with_launch']} works is not known")
    else:
        # Only works that CUPTI had not delivered are lost.
        check(recorded + ours["lost"] <= truth["launched"], "more was recorded than launched")
        least = truth["launched_1500_ms_before_the_end"]
        check(recorded + ours["lost"] >= least, f"recorded {recorded}, but {least} were launched 1.5 s before the end")
        result["launched_1000_ms_before_the_end"] = truth["launched_1000_ms_before_the_end"]
        result["launched_1500_ms_before_the_end"] = least
    if "counted_on_device" in truth and not os.environ.get("ON_DOUBLES"):
        counted = truth["counted_on_device"]
        check(counted == truth["kernels"], f"the device counted {counted} kernels")

    if case == "graphs":
        from pyarrow import parquet

        def table(name):
            return parquet.read_table(f"{directory}/{name}/rank=0.parquet", partitioning=None).to_pylist()

        names = {row["number"]: row["name"] for row in table("names")}
        works = collections.defaultdict(list)
        for row in table("works"):
            works[names.get(row["name"], row["kind"])].append(row)
        result["works"] = {}
        for graph in truth["graphs"]:
            rows = works[graph["name"]]
            nodes = collections.Counter(row["graph_node"] for row in rows)
            per_node = sorted(nodes.values())
            result["works"][graph["name"]] = {
                "recorded": len(rows),
                "without_node": nodes.get(None, 0),
                "nodes": len(nodes),
                "runs_per_node": [per_node[0], per_node[-1]] if rows else None,
                "launches": len({row["correlation"] for row in rows}),
            }
            check(
                len(rows) == graph["kernels"] * graph["replays"], f"{graph['name']}: {len(rows)} kernels of the graph"
            )
            check(
                len({row["correlation"] for row in rows}) == graph["replays"],
                f"{graph['name']}: replays cannot be distinguished",
            )
            # For the graph that was created before the recording, only CUPTI's own records exist.
            if graph["name"] == "rankscope_late":
                check(None not in nodes, f"{nodes.get(None)} kernels have no node")
                check(per_node == [graph["replays"]] * graph["kernels"], f"runs of each node: {per_node}")
        for kind in ("copy", "set"):
            rows = works[kind]
            result["works"][kind] = {
                "recorded": len(rows),
                "without_node": sum(row["graph_node"] is None for row in rows),
            }
result.update(ok=not failures, failures=failures)
print(json.dumps(result))
sys.exit(bool(failures))
