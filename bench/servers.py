#!/usr/bin/env python3
"""What is won when workers of unequal speed don't wait for each other, and what does it cost in loss?

  .venv/bin/python bench/servers.py [--binary build/release/tessera] [--rounds 1] [--steps 60]

Four workers and a server, all on this machine. Each worker may use 36 % of a core, one of them a quarter of that: a pacer stops and goes on
with them (SIGSTOP, SIGCONT) 20 times a second, so that two cores suffice for all. Every mode is run in turns; samples a second are counted while all workers
are at work, losses are means over 40 updates' samples after the same number of samples. About a minute a run.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from job_processes import ranks_of  # noqa: E402

WORKERS, BATCH, PERIOD, SHARE = 4, 32, 0.05, 0.36
MODES = {
    "synchronous": ["layout.updates=synchronous"],
    "bounded, s = 0": ["layout.updates=bounded", "layout.staleness=0"],
    "bounded, s = 2": ["layout.updates=bounded", "layout.staleness=2"],
    "bounded, s = 8": ["layout.updates=bounded", "layout.staleness=8"],
    "asynchronous": ["layout.updates=asynchronous"],
}


def pace(process, share, phase, over):
    time.sleep(phase)
    try:
        while not over.is_set():
            os.kill(process, signal.SIGCONT)
            time.sleep(PERIOD * share)
            if over.is_set():
                break
            os.kill(process, signal.SIGSTOP)
            time.sleep(PERIOD * (1 - share))
        os.kill(process, signal.SIGCONT)
    except ProcessLookupError:
        pass


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def measure(binary, keys, steps, slow):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "out")
        job = subprocess.Popen([binary, "train", "examples/tiny.toml", f"layout.dp={WORKERS}", "layout.servers=1", *keys, "layout.micro_batch=4", f"training.global_batch={BATCH}",
                                f"training.steps={steps}", "checkpoint.every_minutes=0", "cluster.pin=false", "cluster.peak_tflops=0.05", "--json", "--out", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (out / "metrics.jsonl").exists() or not lines(out / "metrics.jsonl"):
            time.sleep(0.02)
        over = threading.Event()
        pacers = []
        for rank, process in sorted(ranks_of(job.pid).items()):
            if rank < WORKERS:
                share = SHARE / 4 if rank == 0 and slow else SHARE
                pacers.append(threading.Thread(target=pace, args=(process, share, rank * PERIOD / WORKERS, over)))
                pacers[-1].start()
        job.wait()
        over.set()
        for each in pacers:
            each.join()
        if job.returncode:
            raise SystemExit(f"{keys}: the run failed")
        log = [push for push in lines(out / "updates.jsonl") if "version" in push]
        if not log:  # synchronous
            told = lines(out / "metrics.jsonl")
            seconds = statistics.median(step["step_seconds"] for step in told[3:])
            return BATCH / seconds, [step["loss"] for step in told for _ in range(WORKERS)]
        done, end = [0] * WORKERS, len(log)
        for number, push in enumerate(log):
            done[push["worker"]] += 1
            if done[push["worker"]] == steps:
                end = number
                break
        begin = 12
        return (end - begin) * BATCH / WORKERS / (log[end]["seconds"] - log[begin]["seconds"]), [push["loss"] for push in log]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/tessera")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()
    for slow in (False, True):
        found = {mode: [] for mode in MODES}
        for _ in range(arguments.rounds):
            for mode, keys in MODES.items():
                found[mode].append(measure(arguments.binary, keys, arguments.steps, slow))
        print("one worker four times slower" if slow else "workers of equal speed")
        base = statistics.median(rate for rate, _ in found["synchronous"])
        for mode, runs in found.items():
            rate = statistics.median(rate for rate, _ in runs)
            at = [statistics.mean(losses[n * WORKERS - 40:n * WORKERS]) for n in (arguments.steps // 2, arguments.steps) for _, losses in runs[:1]]
            spread = f" ({min(r for r, _ in runs):.1f} to {max(r for r, _ in runs):.1f})" if len(runs) > 1 else ""
            print(f"  {mode:16} {rate:6.1f} samples/s{spread}  {rate / base:4.2f} of synchronous  loss after {arguments.steps // 2 * BATCH} samples {at[0]:.3f}, after {arguments.steps * BATCH} {at[1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
