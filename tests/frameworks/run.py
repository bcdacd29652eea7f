#!/usr/bin/env python3
"""Trains with the frameworks that people use, alone and under `rankscope run`, and compares.

Each job runs on the CPU with Gloo, with a small model and synthetic data. It runs once alone, and once recorded with a rank that
sleeps in each step. The losses must be the same, every rank seen, the steps found, and the slow rank named. Versions are those of
requirements/; they are installed into ${XDG_CACHE_HOME:-~/.cache}/rankscope/frameworks.

    run.py [--python PATH] [--json FILE] [--keep DIRECTORY] [--install] [NAME...]
"""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "rankscope"
PROGRAM = os.environ.get("RANKSCOPE", str(ROOT / "target/release/rankscope"))
STEPS = 40
SLOW_RANK = 1
SLOW_MS = 40
LIMIT_S = 300
# Equal data in another order of additions.
TOLERANCE = 1e-6
# What PyTorch 2.15 prints if one of its threads lives longer than its object. It happens in some runs, also without rankscope.
ABORT = "terminate called without an active exception"
MAX_ABORTS = 3
# Of two bandwidths of one operation. A quantile of a session is exact to 0.8 %.
MAX_DIFFERENCE = 0.02
PHASES = ("DeepSpeedEngine.forward", "DeepSpeedEngine.backward", "DeepSpeedEngine.step")
TORCHRUN = ["PYTHON", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@dataclasses.dataclass
class Job:
    """A training, and what must be found."""

    name: str
    requirements: str
    command: list
    #: Steps that communicate.
    steps: int = STEPS
    #: How many groups of two ranks there are: roles side by side, or starts of which the earlier ones end in the middle.
    worlds: int = 1
    #: How often all ranks are started.
    attempts: int = 1
    #: The library that hides its communication. Then nothing is recorded.
    hidden_by: str | None = None
    #: What doctor says before the job.
    doctor: str | None = None
    #: The finding that names the slow rank; None if the ranks do not train together.
    finding: str | None = "late-rank"
    #: True if the program does not train, but measures bandwidths, which must be those of the report.
    is_sweep: bool = False
    #: True if the program writes a timeline of Ray, which is imported.
    has_timeline: bool = False
    #: Names of spans that the trace must have.
    spans: tuple = ()
    environment: dict = dataclasses.field(default_factory=dict)


JOBS = [
    # Every fourth step only accumulates.
    Job("ddp", "torch", [*TORCHRUN, "with_pytorch.py", "ddp"], steps=STEPS * 3 // 4),
    Job("sweep", "torch", [*TORCHRUN, "with_sweep.py"], finding=None, is_sweep=True),
    Job("hook", "torch", [*TORCHRUN, "with_pytorch.py", "hook"]),
    Job("fsdp", "torch", [*TORCHRUN, "with_pytorch.py", "fsdp"]),
    Job("fsdp1", "torch", [*TORCHRUN, "with_pytorch.py", "fsdp1"]),
    Job("tensor", "torch", [*TORCHRUN, "with_pytorch.py", "tensor"]),
    Job("compile", "torch", [*TORCHRUN, "with_pytorch.py", "compile"]),
    Job("inductor", "torch", [*TORCHRUN, "with_pytorch.py", "inductor"]),
    # The second start fails with a store that both starts share: its addresses are those of the first (PyTorch 2.15).
    Job("elastic", "torch", [*TORCHRUN, "--max-restarts", "1", "with_pytorch.py", "elastic"], worlds=2, attempts=2, steps=STEPS * 3 // 2,
        environment={"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}),
    Job("checkpoint", "torch", [*TORCHRUN, "with_pytorch.py", "checkpoint"]),
    Job("pipeline", "torch", [*TORCHRUN, "with_pytorch.py", "pipeline"], finding="pipeline-imbalance"),
    *[Job(f"deepspeed-zero{stage}", "deepspeed", ["BIN/deepspeed", "--num_gpus", "2", "with_deepspeed.py", str(stage)],
          spans=PHASES, environment={"DS_ACCELERATOR": "cpu"}) for stage in (1, 2, 3)],
    *[Job(f"deepspeed-offload{stage}", "deepspeed", ["BIN/deepspeed", "--num_gpus", "2", "with_deepspeed.py", str(stage), "offload"],
          spans=PHASES, environment={"DS_ACCELERATOR": "cpu"}) for stage in (2, 3)],
    Job("deepspeed-torchrun", "deepspeed", [*TORCHRUN, "with_deepspeed.py", "1"], spans=PHASES,
        environment={"DS_ACCELERATOR": "cpu"}),
    Job("lightning", "lightning", ["PYTHON", "with_lightning.py"]),
    Job("accelerate", "accelerate", [*TORCHRUN, "with_accelerate.py"]),
    Job("transformers", "transformers", [*TORCHRUN, "with_transformers.py"]),
    Job("ray-train", "ray", ["PYTHON", "with_ray_train.py"]),
    Job("ray-actors", "ray", ["PYTHON", "with_ray_actors.py"], has_timeline=True),
    Job("ray-cluster", "ray", ["./on_ray_cluster.sh", "BIN", "PORT", "with_ray_actors.py"], has_timeline=True),
    Job("verl", "verl", ["PYTHON", "with_verl.py", "separate"], worlds=2, steps=2 * STEPS),
    Job("verl-colocated", "verl", ["PYTHON", "with_verl.py", "colocated"], steps=2 * STEPS),
    Job("ludwig", "ludwig", [*TORCHRUN, "with_ludwig.py", "ddp"]),
    Job("ludwig-ray", "ludwig", ["PYTHON", "with_ludwig.py", "ray"], finding=None),
    Job("horovod", "horovod", ["BIN/horovodrun", "-np", "2", "--gloo", "PYTHON", "with_horovod.py"], hidden_by="Horovod",
        doctor="Gloo calls of Horovod: not recorded"),
    Job("jax", "jax", ["sh", "-c", "PYTHON with_jax.py 0 PORT & PYTHON with_jax.py 1 PORT; wait"], hidden_by="jaxlib"),
]


def environment_of(requirements, torch):
    """Makes an environment with the packages of a file of requirements, on top of an installed PyTorch."""
    wanted = (HERE / "requirements" / f"{requirements}.txt").read_text()
    # What pip alone cannot do.
    script = HERE / "requirements" / f"{requirements}.sh"
    if script.exists():
        wanted += script.read_text()
    folder = CACHE / "frameworks" / requirements
    python = folder / "bin/python"
    mark = folder / "installed"
    if mark.exists() and mark.read_text() == wanted:
        return python
    print(f"installing the requirements of {requirements} into {folder}", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([torch, "-m", "venv", folder], check=True)
    site = subprocess.run([torch, "-c", "import torch, pathlib; print(pathlib.Path(torch.__file__).parents[1])"], check=True,
                          capture_output=True, text=True).stdout.strip()
    own = next((folder / "lib").glob("python*/site-packages"))
    (own / "torch.pth").write_text(site + "\n")
    (folder / "constraints").write_text(versions(python, ["torch"]).replace(" ", "==") + "\n")
    if wanted.strip():
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-compile", "-c", folder / "constraints", "-r",
                        HERE / "requirements" / f"{requirements}.txt"], check=True)
    if script.exists():
        subprocess.run([script, python], check=True)
    mark.write_text(wanted)
    return python


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def words_of(job, python):
    port = str(free_port())
    return [word.replace("PYTHON", str(python)).replace("BIN", str(python.parent)).replace("PORT", port) for word in job.command]


def run_until_end(job, python, truth, prefix, slow, aborts):
    """Repeats a run in which PyTorch aborted by itself, as it does alone, too. Their number is in the table."""
    while True:
        status, losses = run(job, python, truth, prefix, slow)
        if status == 0 or ABORT not in (truth / "output").read_text():
            return status, losses
        aborts.append("recorded" if prefix else "alone")
        if len(aborts) >= MAX_ABORTS:
            return status, losses
        # `rankscope run` refuses a directory with a recording.
        for folder in [truth, truth.parent / "run"]:
            shutil.rmtree(folder, ignore_errors=True)


def run(job, python, truth, prefix, slow):
    truth.mkdir(exist_ok=True)
    words = words_of(job, python)
    environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "RANKSCOPE_DIR")}
    environment.update(job.environment)
    environment.update(
        OMP_NUM_THREADS="1", TRUTH_DIR=str(truth), SLOW_MS=str(SLOW_MS if slow else 0), PYTHONDONTWRITEBYTECODE="1",
        PATH=f"{python.parent}:{environment['PATH']}", PYTHONPATH=f"{HERE / 'programs'}:{ROOT / 'layer/python'}")
    with open(truth / "output", "w") as output:
        process = subprocess.Popen([*prefix, *words], cwd=HERE / "programs", env=environment, stdout=output, stderr=output,
                                   start_new_session=True)
        try:
            status = process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            status = f"no end within {LIMIT_S} s"
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    if status != 0:
        print((truth / "output").read_text()[-3000:], file=sys.stderr)
    losses = {int(file.stem): json.loads(file.read_text()) for file in truth.glob("[0-9]*.json")}
    return status, losses


def differences(one, other):
    """The largest difference between the losses of two runs; None if steps or ranks differ."""
    if not one or {rank: len(losses) for rank, losses in one.items()} != {rank: len(losses) for rank, losses in other.items()}:
        return None
    return max(abs(a - b) for rank in one for a, b in zip(one[rank], other[rank]))


def judge(job, python, work):
    """Runs a job twice. Returns a row of the table, and what is wrong."""
    wrong = []
    aborts = []
    status, plain = run_until_end(job, python, work / "plain", [], False, aborts)
    if status != 0:
        return None, [f"alone it ends with {status}"]
    recording = work / "run"
    prefix = [PROGRAM, "run", "-o", str(recording), "--"]
    status, recorded = run_until_end(job, python, work / "recorded", prefix, True, aborts)
    if status != 0:
        wrong.append(f"recorded it ends with {status}")
    difference = differences(plain, recorded)
    if not job.is_sweep and (difference is None or difference > TOLERANCE):
        wrong.append(f"its losses differ by {difference}")
    row = {"job": job.name, "losses": difference, "ranks": 0, "steps": 0, "slow": []}
    if aborts:
        row["aborts"] = aborts
    session = recording / "session/session.json"
    if not session.exists():
        if job.hidden_by is None:
            wrong.append("there is no session")
        elif "nothing was recorded" not in (output := (work / "recorded/output").read_text()) or job.hidden_by not in output:
            wrong.append("the run does not say that nothing was recorded, and why")
        if job.doctor and job.doctor not in (said := doctor(job, python)):
            wrong.append(f"doctor does not say {job.doctor}: {said}")
        return row, wrong
    found = json.loads(session.read_text())
    ranks = [rank["number"]["value"] for rank in found["ranks"] if rank["operations"]]
    if job.hidden_by is not None:
        wrong.append("a session without communication")
    row["ranks"] = len(ranks)
    row["steps"] = (found["steps"]["count"] or 0) * (found["steps"].get("steps_per_entry") or 1)
    row["operations"] = found["totals"]["operations"]
    row["lost"] = found["totals"]["lost"]
    row["findings"] = [finding["title"] for finding in found["findings"]]
    numbers = {rank["index"]: rank["number"]["value"] for rank in found["ranks"]}
    slow = [finding for finding in found["findings"] if finding["kind"] in ("late-rank", "pipeline-imbalance")]
    row["slow"] = [[finding["kind"], [numbers[rank] for rank in finding["ranks"]]] for finding in slow]
    if sorted(rank for rank in ranks if rank is not None) != sorted([0, 1] * job.worlds):
        wrong.append(f"ranks {ranks} were seen")
    if job.finding is not None:
        if not job.steps * 0.8 <= row["steps"] <= job.steps + 1:
            wrong.append(f"{row['steps']} steps were found, not {job.steps}")
        expected = {rank["index"] for rank in found["ranks"] if rank["operations"] and rank["number"]["value"] == SLOW_RANK}
        if {rank for finding in slow for rank in finding["ranks"]} != expected or {finding["kind"] for finding in slow} != {job.finding}:
            wrong.append(f"the slow ranks are {row['slow']}")
    if len(found["attempts"]) != job.attempts:
        wrong.append(f"it has {len(found['attempts'])} attempts")
    if aborts.count("recorded") > aborts.count("alone") + 1:
        wrong.append(f"it aborts more often when recorded: {aborts}")
    if job.is_sweep:
        row["bandwidths"] = compare_bandwidths(found, json.loads((work / "recorded/table.json").read_text()), wrong)
        if row["steps"]:
            wrong.append("a sweep has no steps")
    if job.has_timeline:
        row["tasks"] = import_timeline(recording, work / "recorded/timeline.json", wrong)
    if job.spans:
        row["spans"] = spans_in_trace(recording, job.spans, wrong)
    if row["lost"]:
        wrong.append(f"{row['lost']} records were lost")
    return row, wrong


def compare_bandwidths(session, table, wrong):
    """Returns the medians of bus bandwidths in the session as shares of those that the program measured."""
    shares = {}
    for row in table:
        of_class = [one["bus_bytes_per_s"]["value"] for one in session["operations"]
                    if one["operation"] == row["operation"] and one["size_from_bytes"] <= row["bytes"] < one["size_below_bytes"]]
        if len(of_class) != 1 or of_class[0] is None:
            wrong.append(f"the session has no bandwidth of {row}")
            continue
        share = of_class[0]["p50"] / row["bus_bytes_per_s"]
        shares[f"{row['operation']} of {row['bytes'] >> 20} MiB"] = round(share, 3)
        if abs(share - 1) > MAX_DIFFERENCE:
            wrong.append(f"its bandwidth is {share:.3f} of {row}")
    return shares


def doctor(job, python):
    environment = {**os.environ, "PATH": f"{python.parent}:{os.environ['PATH']}"}
    command = [PROGRAM, "doctor", "--", *words_of(job, python)]
    return subprocess.run(command, cwd=HERE / "programs", env=environment, capture_output=True, text=True).stdout


def import_timeline(recording, timeline, wrong):
    """Adds a timeline of Ray to a recording. Returns how many tasks of ranks it has, by their names."""
    done = subprocess.run([PROGRAM, "import", "ray", timeline, "--into", recording], capture_output=True, text=True)
    if done.returncode != 0:
        wrong.append(f"its timeline is not imported: {done.stderr}")
        return None
    if "Ray: added the tasks of 2 of " not in done.stdout:
        wrong.append(f"its timeline lacks the worker of a rank: {done.stdout[-300:]}")
    trace = recording.parent / "trace.pftrace"
    subprocess.run([PROGRAM, "export", recording, "--perfetto", "-o", trace], check=True, capture_output=True)
    names = trace.read_bytes()
    found = [name for name in ("Worker.train", "task:execute") if name.encode() in names]
    if len(found) != 2:
        wrong.append(f"the trace has only the tasks {found}")
    return found


def spans_in_trace(recording, names, wrong):
    """Returns those of the names that are in the trace."""
    trace = recording.parent / "spans.pftrace"
    subprocess.run([PROGRAM, "export", recording, "--perfetto", "-o", trace], check=True, capture_output=True)
    bytes_of_trace = trace.read_bytes()
    found = [name for name in names if name.encode() in bytes_of_trace]
    if len(found) != len(names):
        wrong.append(f"of its spans, the trace has only {found}")
    return found


def packages(requirements):
    lines = (HERE / "requirements" / f"{requirements}.txt").read_text().split()
    return ["torch"] + [line.split("==")[0].split("[")[0] for line in lines] + (["horovod"] if requirements == "horovod" else [])


def versions(python, names):
    code = "import importlib.metadata as m, sys; print(' '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    return subprocess.run([python, "-c", code, *names], check=True, capture_output=True, text=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="a Python with PyTorch (tests/setup/python.sh wheel)")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="keep the runs here")
    parser.add_argument("--install", action="store_true", help="only install what the jobs need")
    parser.add_argument("names", nargs="*", metavar="NAME", choices=[job.name for job in JOBS] + [[]])
    arguments = parser.parse_args()
    torch = arguments.python or subprocess.run([ROOT / "tests/setup/python.sh", "wheel"], check=True, capture_output=True,
                                               text=True).stdout.strip()
    rows, failed = [], 0
    for job in JOBS:
        if arguments.names and job.name not in arguments.names:
            continue
        try:
            python = environment_of(job.requirements, torch)
        except subprocess.CalledProcessError as error:
            print(f"✗ {job.name}: its packages cannot be installed ({error})", flush=True)
            failed += 1
            shutil.rmtree(CACHE / "frameworks" / job.requirements, ignore_errors=True)
            continue
        if arguments.install:
            continue
        with tempfile.TemporaryDirectory() as folder:
            work = pathlib.Path(folder)
            row, wrong = judge(job, python, work)
            if arguments.keep:
                shutil.copytree(work, arguments.keep / job.name, dirs_exist_ok=True)
        row = row or {"job": job.name}
        row.update(versions=versions(python, packages(job.requirements)), date=str(datetime.date.today()), wrong=wrong)
        rows.append(row)
        failed += bool(wrong)
        print(f"{'✗' if wrong else '✓'} {json.dumps(row, ensure_ascii=False)}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
