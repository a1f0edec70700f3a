"""How long do the steps of `tessera train` take, and how much memory do its ranks hold? Measured from outside, so that the
same yardstick (VmHWM, reset after the warm-up) can be laid on other programs.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
POLL_SECONDS = 0.1


def forget_peak(pid):
    """From here on peak_bytes counts anew."""
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")


def peak_bytes(pid):
    """The most that the process has held resident since forget_peak; None when it has ended."""
    try:
        with open(f"/proc/{pid}/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return None


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return [int(child) for child in file.read().split()]
    except OSError:
        return []


def steps_of(folder):
    """The whole lines of metrics.jsonl."""
    path = pathlib.Path(folder, "metrics.jsonl")
    text = path.read_text() if path.exists() else ""
    return [json.loads(line) for line in text.split("\n")[:-1]]


def train(binary, run_file, keys, folder, steps, warm_up=2, more=()):
    """Runs `steps` steps after the warm-up; their seconds, all losses, the parameters and each rank's peak in these steps."""
    command = [binary, "train", run_file, *(f"{key}={value}" for key, value in keys.items()),
               f"training.steps={warm_up + steps}", "--json", "--out", folder, *more]
    pathlib.Path(folder, "metrics.jsonl").unlink(missing_ok=True)
    # Into a file: a pipe that nobody reads would hold up a program that says much.
    with open(pathlib.Path(folder, "said"), "w+") as said:
        process = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=said, text=True)
        peaks, warm = {}, False
        while process.poll() is None:
            if not warm and len(steps_of(folder)) >= warm_up:
                ranks, warm = children(process.pid) or [process.pid], True
                for pid in ranks:
                    forget_peak(pid)
            if warm:
                for pid in ranks:
                    peaks[pid] = peak_bytes(pid) or peaks.get(pid, 0)
            time.sleep(POLL_SECONDS)
        if process.returncode:
            said.seek(0)
            sys.exit(f"{' '.join(map(str, command))} ended with {process.returncode}:\n{said.read()}")
        summary = json.loads(process.stdout.read())
    rows = steps_of(folder)
    return {"parameters": summary["parameters"], "losses": [row["loss"] for row in rows],
            "seconds": [row["step_seconds"] for row in rows[warm_up:]], "peak_bytes": [peaks[pid] for pid in sorted(peaks)]}
