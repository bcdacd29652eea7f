"""Recomputes comparisons with scipy and statsmodels from the same run summaries, and compares the results.

    compare_reference.py CASES.jsonl

Each line is an object: `base`, `new` (lists of run summaries), `noise` (list of such lists), `gates`, `alpha`,
`margin`, and `comparison`, which is rankscope's result. Prints each difference. The exit status is 1 if there is one.
Nothing here is taken from rankscope's own code: the rules are those of the documentation (docs: "How a comparison
decides").
"""

import json
import math
import sys

import numpy as np
from scipy import stats
from statsmodels.stats.multitest import multipletests

HOUR_NS = 3_600_000_000_000
PASS_ALPHA, FALSE_DISCOVERIES, TAIL = 0.05, 0.01, 0.005


def batches(runs):
    """Returns the positions of runs, by batch. A new batch starts after an hour without any run."""
    out, ended = [], None
    for at in sorted(range(len(runs)), key=lambda at: (runs[at]["run"]["started_unix_ns"], at)):
        start = runs[at]["run"]["started_unix_ns"]
        if ended is not None and start - ended <= HOUR_NS:
            out[-1].append(at)
        else:
            out.append([at])
        end = start + runs[at]["run"]["duration_ns"]
        ended = end if ended is None else max(ended, end)
    return out


def layout(base, new, noise):
    b, n = batches(base), batches(new)
    joint = [
        ([at for at in batch if at < len(base)], [at - len(base) for at in batch if at >= len(base)])
        for batch in batches(base + new)
    ]
    base_alone = any(x and not y for x, y in joint)
    new_alone = any(y and not x for x, y in joint)
    apart = (base_alone and new_alone) or not any(x and y for x, y in joint)
    many = max(len(b), len(n)) >= 3
    flat = lambda side: [at for batch in side for at in batch]
    if not apart:
        strata = [(x, y) for x, y in joint if x and y]
    elif many:
        strata = [(flat(b), flat(n))]
    else:
        strata = [(b[-1], n[-1])]
    repeats = any(len(x) > 1 or len(y) > 1 for x, y in strata) or any(len(batch) > 1 for batch in b + n)
    if apart and many:
        unit = "batches"
    elif repeats:
        unit = "runs"
    elif any(len(group) > 1 for group in noise):
        unit = "blocks"
    else:
        unit = "none"
    weights = np.array([len(x) * len(y) / (len(x) + len(y)) for x, y in strata])
    return dict(unit=unit, strata=strata, weights=weights / weights.sum(), base=b, new=n)


def value(run, key, steps):
    for measured in run["metrics"]:
        if (measured["metric"], measured.get("subject")) == key:
            found = measured["value"]["value"]
            return None if found is None else found[steps]
    return None


def pooled(groups):
    groups = [np.array(group) for group in groups if len(group) > 1]
    degrees = sum(len(group) - 1 for group in groups)
    if degrees == 0:
        return None
    return sum(np.var(group, ddof=1) * (len(group) - 1) for group in groups) / degrees, degrees


def estimate(case, plan, key, steps):
    """Returns the means of both sides, their variances and degrees of freedom. Variances are None if no noise is
    known."""
    base, new = case["base"], case["new"]
    mean = lambda runs, at: value(runs[at], key, steps)["mean"]
    known = lambda runs, ats: [mean(runs, at) for at in ats if value(runs[at], key, steps) is not None]
    groups = [known(base, batch) for batch in plan["base"]] + [known(new, batch) for batch in plan["new"]]
    groups += [[value(run, key, steps)["mean"] for run in group if value(run, key, steps)] for group in case["noise"]]
    inside = pooled(groups)
    if plan["unit"] == "batches":
        of_base = [np.mean(known(base, batch)) for batch in plan["base"]]
        of_new = [np.mean(known(new, batch)) for batch in plan["new"]]
        between, degrees = pooled([of_base, of_new])
        within, within_degrees = inside if inside else (0.0, math.inf)
        one = (between / len(of_base), between / len(of_new))
        spread = lambda batches: sum(1 / len(batch) for batch in batches) / len(batches) ** 2
        other = (within * spread(plan["base"]), within * spread(plan["new"]))
        if sum(one) >= sum(other):
            return np.mean(of_base), np.mean(of_new), *one, degrees
        return np.mean(of_base), np.mean(of_new), *other, min(degrees, within_degrees)
    sums, variances, blocks = [0.0, 0.0], [0.0, 0.0], []
    for (of_base, of_new), weight in zip(plan["strata"], plan["weights"]):
        for side, (runs, ats) in enumerate([(base, of_base), (new, of_new)]):
            sums[side] += weight * np.mean(known(runs, ats))
            spread = inside[0] if inside else 0.0
            first = value(runs[ats[0]], key, steps)
            if plan["unit"] == "blocks" and first["variance"] is not None:
                blocks.append((first["variance"], first["blocks"] - 1))
                spread += first["variance"]
            elif len(ats) == 1 and first["variance"] is not None:
                spread = max(spread, first["variance"])
            variances[side] += weight**2 * spread / len(ats)
    if inside is None or plan["unit"] == "none":
        return *sums, None, None, None
    degrees = inside[1]
    if blocks:
        parts = blocks + [(2 * inside[0], inside[1])]
        degrees = sum(v for v, _ in parts) ** 2 / sum(v**2 / d for v, d in parts)
    return *sums, *variances, degrees


def near(one, other, scale=1.0):
    if one is None or other is None:
        return one is other
    return abs(one - other) <= 1e-6 * max(abs(one), abs(other), scale * 1e-6, 1e-12)


def check(case):
    wrong = []
    comparison = case["comparison"]
    plan = layout(case["base"], case["new"], case["noise"])
    if plan["unit"] != comparison["method"]["unit"]:
        wrong.append(f"unit {comparison['method']['unit']}, here {plan['unit']}")
    results = {(m["metric"], m["subject"]): m for m in comparison["metrics"]}
    found = {
        key: {steps: estimate(case, plan, key, steps) for steps in ("all", "without_outliers")} for key in results
    }
    gates = case["gates"]
    gate_alpha = case["alpha"] / max(1, len(gates))
    declared = {(gate["metric"], gate.get("subject")) for gate in gates}

    def test(key, steps):
        before, after, vb, vn, degrees = found[key][steps]
        if vb is None:
            return None
        error = math.sqrt(vb + vn)
        if error == 0:
            return 1.0 if after == before else 0.0
        return 2 * stats.t.sf(abs(after - before) / error, degrees)

    others = [key for key in results if key not in declared and test(key, "all") is not None]
    rates = {}
    for steps in ("all", "without_outliers"):
        p_values = [test(key, steps) for key in others]
        adjusted = multipletests(p_values, method="fdr_bh")[1] if p_values else []
        rates[steps] = dict(zip(others, adjusted))

    def verdict(key, steps):
        before, after, vb, vn, degrees = found[key][steps]
        if vb is None:
            return "inconclusive"
        tail = gate_alpha if key in declared else TAIL
        half = stats.t.isf(tail, degrees) * math.sqrt(vb + vn)
        change = after - before
        changed = abs(change) > half if key in declared else rates[steps][key] <= FALSE_DISCOVERIES and change != 0
        if changed:
            worse = change > 0 if results[key]["better"] == "lower" else change < 0
            return "regressed" if worse else "improved"
        reach, smaller = abs(change) + half, min(abs(before), abs(after))
        return "unchanged" if reach == 0 or (smaller > 0 and reach <= case["margin"] * smaller) else "inconclusive"

    for key, result in results.items():
        before, after, vb, vn, degrees = found[key]["all"]
        for name, here in (("base", before), ("new", after), ("p_value", test(key, "all"))):
            if not near(result[name], here):
                wrong.append(f"{key} {name}: {result[name]}, here {here}")
        if vb is not None:
            tail = gate_alpha if key in declared else TAIL
            half = stats.t.isf(tail, degrees) * math.sqrt(vb + vn)
            for name, here in (("low", after - before - half), ("high", after - before + half)):
                if not near(result["interval"][name], here, abs(before)):
                    wrong.append(f"{key} interval {name}: {result['interval'][name]}, here {here}")
        both = verdict(key, "all"), verdict(key, "without_outliers")
        here = both[0] if both[0] == both[1] else "inconclusive"
        if result["verdict"] != here:
            wrong.append(f"{key}: {result['verdict']}, here {here}")

    step = found[("step_time", None)]["all"][0]
    decisions = []
    for gate, result, detectable in zip(gates, comparison["gates"], comparison["detectable"]):
        key = (gate["metric"], gate.get("subject"))
        worse = 1 if results[key]["better"] == "lower" else -1
        both, sizes, bounds = [], [], []
        for steps in ("all", "without_outliers"):
            before, after, vb, vn, degrees = found[key][steps]
            allowed = {"of_itself": abs(before), "of_step": step, "by": 1.0}[gate["kind"]] * gate["amount"]
            factor = 1 + worse * gate["amount"] if gate["kind"] == "of_itself" else 1.0
            if vb is None:
                both.append("inconclusive")
                continue
            error = math.sqrt(vn + factor**2 * vb)
            beyond = worse * (after - before) - allowed
            t_fail, t_pass = stats.t.isf(gate_alpha, degrees), stats.t.isf(PASS_ALPHA, degrees)
            both.append(
                "fail" if beyond - t_fail * error > 0 else "pass" if beyond + t_pass * error <= 0 else "inconclusive"
            )
            sizes.append(allowed + (t_fail + t_pass) * error)
            bounds.append(worse * (after - before) + t_pass * error)
        here = both[0] if both[0] == both[1] else "inconclusive"
        decisions.append(here)
        if result["verdict"] != here:
            wrong.append(f"{gate}: {result['verdict']}, here {here}")
        if sizes and not near(detectable["change"]["value"], worse * max(sizes)):
            wrong.append(f"{gate} detectable: {detectable['change']['value']}, here {worse * max(sizes)}")
        if bounds and not near(result["at_most"]["value"], max(bounds)):
            wrong.append(f"{gate} at most: {result['at_most']['value']}, here {max(bounds)}")
    if not any(difference["effect"] != "accepted" for difference in comparison["differences"]):
        status = 1 if "fail" in decisions else 3 if "inconclusive" in decisions else 0
        if comparison["exit_status"] != status:
            wrong.append(f"exit status {comparison['exit_status']}, here {status}")
    return wrong, decisions


def main():
    bad, seen = 0, {}
    with open(sys.argv[1]) as file:
        for number, line in enumerate(file, 1):
            case = json.loads(line)
            wrong, decisions = check(case)
            unit = case["comparison"]["method"]["unit"]
            for what in [unit, *decisions, *(m["verdict"] for m in case["comparison"]["metrics"])]:
                seen[what] = seen.get(what, 0) + 1
            for what in wrong:
                print(f"case {number}: {what}")
            bad += bool(wrong)
    print(json.dumps({"cases": number, "differ": bad, "seen": seen}))
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
