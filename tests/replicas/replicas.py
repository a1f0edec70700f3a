"""Do replicas that make local steps go on without one that is killed, and does it come back?

  replicas.py BINARY PRELOAD [--runs 20] [--seed 1]

Trains three replicas as processes, every third run with two pipeline stages in each. Random replicas but the first are killed at random
instants, one to three times a run, or stopped until the launcher ends them; half of the runs start them again. Each run must end well with
all of its steps, with everybody who was lost told, and those who came back; another run that is stopped by SIGTERM afterwards must be
saved, and go on. About 8 s a run. In one more run a replica never gets its data (PRELOAD, tests/faults): it must be named and done without.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from job_processes import ranks_of, send  # noqa: E402

REPLICAS, STEPS = 3, 120


def steps_in(metrics):
    return metrics.read_text().count('"loss"') if metrics.exists() else 0


def command(binary, out, *keys):
    return [binary, "train", "examples/tiny.toml", "model.layers=2", "model.sequence=32", f"layout.dp_replicate={REPLICAS}", "layout.micro_batch=2", "training.global_batch=6",
            f"training.steps={STEPS}", "training.local_steps=4", "cluster.timeout_seconds=6", "--out", str(out), *keys]


def disturb(job, metrics, draw, pp, strikes):
    """Kills or stops a replica each time; returns whom."""
    struck = []
    for at in sorted(draw.randrange(2, STEPS - 30) for _ in range(strikes)):
        while job.poll() is None and steps_in(metrics) < at:
            time.sleep(0.002)
        replica, stage = draw.randrange(1, REPLICAS), draw.randrange(pp)
        process = ranks_of(job.pid).get(stage * REPLICAS + replica)
        if process and job.poll() is None:
            struck.append(replica)
            send(process, signal.SIGSTOP if draw.random() < 0.2 else signal.SIGKILL)
    return struck


def hangs_over_its_data(binary, preload):
    """What is wrong with a run whose replica 1 waits for its data for ever; empty: nothing."""
    with tempfile.TemporaryDirectory() as folder:
        data, out = pathlib.Path(folder, "data", "text"), pathlib.Path(folder, "out")
        data.parent.mkdir()
        data.write_text("x" * 100_000)
        environment = dict(os.environ, LD_PRELOAD=str(pathlib.Path(preload).resolve()), TESSERA_FAULT_FOLDER=str(data.parent), TESSERA_FAULT_FROM="text", TESSERA_FAULT_AT="1",
                           TESSERA_FAULT_DOES="hang", TESSERA_FAULT_WHERE="TESSERA_RANK=1")
        job = subprocess.run(command(binary, out, f"data.path={data}", "training.steps=12", "cluster.timeout_seconds=2"), env=environment, capture_output=True, text=True, timeout=120)
        words = ["the other replicas wait for replica 1", "reading the data", "The others continue without it.", "replica 1 is lost; 2 of 3 take part"]
        missing = [word for word in words if word not in job.stdout + job.stderr]
        return "" if job.returncode == 0 and not missing else f"exit code {job.returncode}, not told: {missing}; {(job.stdout + job.stderr)[-2000:]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("preload")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    wrong = 0
    for number in range(arguments.runs):
        pp, restarts, delay = (2 if number % 3 == 2 else 1), (4 if number % 2 else 0), draw.randrange(3)
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "out")
            metrics = out / "metrics.jsonl"
            keys = [f"cluster.restarts={restarts}", f"training.outer_delay={delay}", f"layout.pp={pp}", *(["training.outer_optimizer=nesterov"] if number % 4 > 1 else [])]
            job = subprocess.Popen(command(arguments.binary, out, *keys), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            told = []
            reader = threading.Thread(target=lambda: told.extend(job.communicate()))
            reader.start()
            struck = disturb(job, metrics, draw, pp, draw.randint(1, 3))
            # It may take the launcher the time-out to give a stopped one up; the job must not hang.
            reader.join(120)
            hangs = reader.is_alive()
            if hangs:
                job.kill()
                reader.join()
            text = "".join(told)
            lines = [json.loads(line) for line in metrics.read_text().splitlines() if '"loss"' in line]
            lost, back = text.count(" is lost; "), text.count(" is back; ")
            good = (not hangs and job.returncode == 0 and len(lines) == STEPS and 1 <= text.count("The others continue without it.") <= len(struck)
                    and lost <= len(struck) and back <= text.count("started again") and (restarts > 0 or back == 0))
            # Whoever was started again some steps before the end has come back.
            saved = subprocess.run(command(arguments.binary, out, *keys, f"training.steps={STEPS + 4}"), capture_output=True, text=True)
            good = good and saved.returncode == 0
            wrong += not good
            print(f"pp {pp}, delay {delay}, restarts {restarts}: struck {struck}, lost {lost}, back {back}, loss {lines[0]['loss']:.3f} -> {lines[-1]['loss']:.3f}"
                  f"{'' if good else ' WRONG'}", flush=True)
            if not good:
                print(f"hangs {hangs}, exit code {job.returncode}, {len(lines)} steps", text[-3000:], saved.stderr[-1000:])
    complaint = hangs_over_its_data(arguments.binary, arguments.preload)
    print(f"a replica that hangs over its data: {complaint or 'done without'}")
    wrong += bool(complaint)
    print(f"{arguments.runs} runs with replicas that are killed: {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
