"""Compares the report of collectives.py with the counts of a session: python check.py TRUTH SESSION
HAS_DEVICE_TIMES."""
import json
import sys

truth, session = (json.load(open(path)) for path in sys.argv[1:3])
failures = []
for expected in truth["operations"]:
    classes = [
        one
        for one in session["operations"]
        if one["library"] == "nccl"
        and one["operation"] == expected["operation"]
        and one["size_from_bytes"] is not None
        and one["size_from_bytes"] <= expected["bytes"] < one["size_below_bytes"]
    ]
    if not classes:
        failures.append(f"{expected} is in no class")
if session["matching"]["incomplete"] or session["matching"]["mismatched"]:
    failures.append(f"matching: {session['matching']}")
if sys.argv[3] == "yes":
    if session["totals"]["enqueued"] or not session["devices"]:
        failures.append(f"device times are missing: {session['totals']} {session['devices']}")
    for one in session["operations"]:
        # A send and a receive of one group share a launch, whose time is not that of either.
        is_shared = one["shared"] == one["operations"]
        if one["library"] == "nccl" and one["instances"] and not is_shared and not one["transfer_ns"]["value"]:
            failures.append(f"no transfer: {one}")
print("\n".join(failures) or f"all {len(truth['operations'])} operations are there, and matched")
sys.exit(bool(failures))
