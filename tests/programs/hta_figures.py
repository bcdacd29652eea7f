"""Prints the figures of Holistic Trace Analysis for traces, in the form of tests/fixtures/hta/expected.json:
hta_figures.py RANK=FILE…

With --time ROUNDS it prints instead the duration of loading and of the three analyses, in seconds per round.
"""

import json
import logging
import math
import os
import sys
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
from hta.trace_analysis import TraceAnalysis


def figures(files):
    analysis = TraceAnalysis(trace_files=files, trace_dir="/")
    overlap = analysis.get_comm_comp_overlap(visualize=False)
    temporal = analysis.get_temporal_breakdown(visualize=False)
    idle = [analysis.get_idle_time_breakdown(ranks=[rank], visualize=False)[0] for rank in files]
    return overlap, temporal, idle


def rows(frame):
    plain = lambda value: None if isinstance(value, float) and math.isnan(value) else value
    return [{key: plain(value) for key, value in row.items()} for row in frame.to_dict("records")]


def main(arguments):
    rounds = int(arguments[1]) if arguments[0] == "--time" else 0
    named = arguments[2:] if rounds else arguments
    files = {int(rank): os.path.abspath(path) for rank, path in (one.split("=", 1) for one in named)}
    if rounds:
        times = []
        for _ in range(rounds):
            begin = time.perf_counter()
            figures(files)
            times.append(time.perf_counter() - begin)
        print(json.dumps(times))
        return
    overlap, temporal, idle = figures(files)
    everything = {"overlap": rows(overlap), "temporal": rows(temporal), "idle": [row for one in idle for row in rows(one)]}
    print(json.dumps(everything, default=float))


main(sys.argv[1:])
