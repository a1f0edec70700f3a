"""Do jobs whose ranks are killed finish by themselves under `cluster.restarts`, with the weights of an undisturbed run?

  restarts.py BINARY [--kills 200] [--kills-of-a-job 5] [--seed 1] [--short]

Trains four ranks in four layouts. A random rank is killed at a random instant, a few times in each job: while ranks start, compute or save. Every
job must finish without help, with exit code 0, every step once in metrics.jsonl with the loss of the undisturbed run, the same final checkpoint bit by
bit, a summary that counts the restarts, and nothing left: no process, no file in the folder for temporary files or in shared memory, no unfinished
save. Prints the seconds from a death to the next finished step. A kill that the job does not outlive counts as wrong.
"""
import argparse
import json
import math
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from job_processes import ranks_of, send  # noqa: E402

STEPS, TOKENS_OF_A_STEP = 40, 16 * 64
LAYOUTS = {  # of four ranks
    "pp 2, dp 2": ["layout.pp=2", "layout.dp_replicate=2"],
    "tp 2, dp 2, zero 3": ["layout.tp=2", "layout.dp_shard=2", "layout.zero=3"],
    "pp 4, zb-v": ["layout.pp=4", "layout.schedule=zb-v", "model.layers=8"],
    "dp 4, zero 2, saves next to steps": ["layout.dp_shard=4", "layout.zero=2", "checkpoint.every=3"],
}
SHORT = {"dp 2, zero 1": ["layout.dp_shard=2", "layout.zero=1"]}  # starts in half of the time


def command(binary, out, keys):
    return [binary, "train", "examples/tiny.toml", "model.sequence=64", "model.hidden=64", "model.ffn=96", "layout.micro_batch=2", "cluster.timeout_seconds=30", "cluster.peak_tflops=1",
            "checkpoint.every=5", f"training.steps={STEPS}", "--out", str(out), *keys]


def records(path):
    """What metrics.jsonl, or the file of lines that a later start has superseded, holds."""
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


def num_steps(metrics):
    return metrics.read_text().count('"loss"') if metrics.exists() else 0


def files_below(folder):
    return {str(path) for path in pathlib.Path(folder).rglob("*")}


class Job:
    """A job under cluster.restarts; keeps what it says and when."""

    def __init__(self, binary, out, keys, temporary):
        self.metrics = out / "metrics.jsonl"
        self.process = subprocess.Popen([*command(binary, out, keys), "cluster.restarts=20", "--json"], env=dict(os.environ, TMPDIR=str(temporary)), text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.errors, self.out, self.first_steps = [], "", {}
        self.readers = [threading.Thread(target=work) for work in (self.read_errors, self.read_out, self.watch_steps)]
        for reader in self.readers:
            reader.start()

    def read_errors(self):
        for line in self.process.stderr:
            self.errors.append(line)

    def read_out(self):
        self.out = self.process.stdout.read()

    def watch_steps(self):
        """Notes when the first step of each start was there."""
        while not self.is_over():
            if self.metrics.exists():
                lines = self.metrics.read_bytes().splitlines()
                found = re.search(rb'"restarts": (\d+)', lines[-1]) if lines else None
                if found:
                    self.first_steps.setdefault(int(found[1]), time.monotonic())
            time.sleep(0.02)

    def restarts(self):
        return sum(line.startswith("tessera: restart ") for line in self.errors)

    def is_over(self):
        return self.process.poll() is not None

    def wait(self, seconds):
        """Whether it has ended by then; one that has not is ended."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return False
        finally:
            for reader in self.readers:
                reader.join()
        return True


def kill_one(job, draw, num_ranks):
    """Kills a rank at a random instant; returns the time and the number of the restart that follows, or nothing if the job ended before."""
    restarts = job.restarts()
    while not job.is_over() and len(ranks_of(job.process.pid)) < num_ranks:
        time.sleep(0.02)
    if draw.random() < 0.25:
        time.sleep(draw.uniform(0, 3))  # while the ranks start
    else:
        mark = f'"restarts": {restarts}.0' if restarts else '"loss"'  # of steps of this start
        while not job.is_over() and not (job.metrics.exists() and mark in job.metrics.read_text()):
            time.sleep(0.02)
        before, ahead = num_steps(job.metrics), draw.randrange(12)
        while not job.is_over() and num_steps(job.metrics) < min(before + ahead, STEPS - 1):
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 0.1))
    victim = ranks_of(job.process.pid).get(draw.randrange(num_ranks))
    if job.is_over() or victim is None:
        return None
    send(victim, signal.SIGKILL)
    killed = time.monotonic()
    while not job.is_over() and job.restarts() == restarts:
        time.sleep(0.02)
    return (killed, restarts + 1) if job.restarts() > restarts else None


def complaints(job, ended, out, reference, binary, temporary, shared_before):
    """What is wrong with a job that has ended."""
    wrong = [] if ended else ["it did not end"]
    if job.process.returncode != 0:
        wrong.append(f"exit code {job.process.returncode}")
        return wrong
    lines, expected = records(job.metrics), records(reference / "metrics.jsonl")
    if [line["step"] for line in lines] != list(range(1, STEPS + 1)):
        wrong.append(f"steps {[line['step'] for line in lines]}")
    if [line["loss"] for line in lines] != [line["loss"] for line in expected]:
        wrong.append("other losses")
    if [line["total_tokens"] for line in lines] != [step * TOKENS_OF_A_STEP for step in range(1, STEPS + 1)]:
        wrong.append("other numbers of tokens")
    if (times := [line["time"] for line in lines]) != sorted(times):
        wrong.append(f"times {times}")
    last = f"checkpoints/step-{STEPS:08}"
    diff = subprocess.run([binary, "checkpoint", "diff", str(reference / last), str(out / last)], capture_output=True, text=True)
    if diff.returncode != 0:
        wrong.append("other weights: " + diff.stdout + diff.stderr)
    summary = json.loads(job.out)
    if summary["restarts"] != job.restarts() or (job.restarts() > 0) != (summary["lost_seconds"] > 0):
        wrong.append(f"{job.restarts()} restarts, and the summary says {summary['restarts']}, {summary['lost_seconds']} s")
    left = files_below(temporary) | (files_below("/dev/shm") - shared_before) | {path for path in files_below(out) if re.search(r"\.saving|\.removing|metrics\.jsonl\.", path)}
    if left:
        wrong.append(f"left {left}")
    return wrong


def seconds_to_next_step(job, kills):
    """For each death, until the first step that a later start finished; nothing if none was left to compute."""
    out = []
    for killed, restart in kills:
        times = [seconds for number, seconds in job.first_steps.items() if number >= restart]
        out += [min(times) - killed] if times else []
    return out


def quantile(values, q):
    return sorted(values)[min(int(q * len(values)), len(values) - 1)] if values else math.nan


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--kills-of-a-job", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--short", action="store_true", help="one layout of two ranks instead")
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    layouts, num_ranks = (SHORT, 2) if arguments.short else (LAYOUTS, 4)
    wrong, all_seconds, shared_before, rows = 0, [], files_below("/dev/shm"), []
    for number, (layout, keys) in enumerate(layouts.items()):
        quota = arguments.kills * (number + 1) // len(layouts) - arguments.kills * number // len(layouts)
        kills, jobs, seconds, bad = 0, 0, [], 0
        with tempfile.TemporaryDirectory() as folder:
            reference = pathlib.Path(folder, "reference")
            subprocess.run(command(arguments.binary, reference, keys), check=True, capture_output=True)
            while kills < quota:
                with tempfile.TemporaryDirectory() as inner:
                    out, temporary = pathlib.Path(inner, "out"), pathlib.Path(inner, "temporary")
                    temporary.mkdir()
                    job = Job(arguments.binary, out, keys, temporary)
                    struck = []
                    while len(struck) < min(arguments.kills_of_a_job, quota - kills) and not job.is_over():
                        if kill := kill_one(job, draw, num_ranks):
                            struck.append(kill)
                    ended = job.wait(300)
                    found = complaints(job, ended, out, reference, arguments.binary, temporary, shared_before)
                    seconds += seconds_to_next_step(job, struck)
                    kills, jobs, bad = kills + max(len(struck), 1 if found else 0), jobs + 1, bad + bool(found)
                    if found:
                        print(f"WRONG: {layout}, after {len(struck)} kills: {'; '.join(found)}\n{''.join(job.errors)}", flush=True)
        wrong, all_seconds = wrong + bad, all_seconds + seconds
        rows.append((layout, kills, jobs, bad, seconds))
        print(f"{layout}: {kills} kills in {jobs} jobs, {bad} jobs wrong; from a death to the next finished step: median {quantile(seconds, 0.5):.2f} s, slowest {quantile(seconds, 1):.2f} s", flush=True)
    print(f"{sum(row[1] for row in rows)} kills, {wrong} jobs wrong; from a death to the next finished step: median {quantile(all_seconds, 0.5):.2f} s, "
          f"99 of 100 within {quantile(all_seconds, 0.99):.2f} s")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
