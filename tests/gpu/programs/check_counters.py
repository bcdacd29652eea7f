"""Checks the samples of the GPU in a report: python check_counters.py REPORT SECONDS. Prints one line of JSON."""
import json
import sys

failures = []
session = json.load(open(sys.argv[1]))
gpus = session.get("gpus", [])
result = {"part": "counters", "gpus": gpus}
counters = {one["name"]: one for one in session.get("counters", []) if one["rank"] in (0, None)}
result["counters"] = sorted(counters)
if len(gpus) != 1 or gpus[0]["rank"] != 0:
    failures.append("the GPU is not that of rank 0")
elif gpus[0]["busy_samples"] < 0.6 * float(sys.argv[2]):
    failures.append(f"{gpus[0]['busy_samples']} busy samples in {sys.argv[2]} s of load")
elif not gpus[0]["busy_sm_clock_mhz"]["value"]:
    failures.append("no clock")
result.update(ok=not failures, failures=failures)
print(json.dumps(result))
sys.exit(bool(failures))
