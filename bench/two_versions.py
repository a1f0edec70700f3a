#!/usr/bin/env python3
"""How long does a pipeline idle, with 1f1b and with weights of two versions that let it go on into the next step?

usage: .venv/bin/python bench/two_versions.py [--binary build/release/tessera] [--rounds 3] [--steps 14]

Two stages on two processes of one core each, four micro-batches a step, the model of bench/step-10m.toml; 1f1b and both ways of pipedream-2bw in turns.
The bubble is the share of the time in which compute lanes idle, from where step 5 begins to where the last but one does, over both
ranks; from traces. Beside it what the simulator says at its default rates. About three minutes on two cores.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

FIRST = 5
RUN = ["bench/step-10m.toml", "data.path=corpus/kjv.txt", "layout.pp=2", "layout.micro_batch=2", "training.global_batch=8", "training.clip_norm=0", "cluster.peak_tflops=0.05"]
SCHEDULES = {"1f1b": ["layout.schedule=1f1b"], "pipedream-2bw": ["layout.schedule=pipedream-2bw"],
             "pipedream-2bw, overlapping": ["layout.schedule=pipedream-2bw", "layout.overlap_steps=true"]}


def bubble(trace, last):
    ops = [e for e in json.loads(pathlib.Path(trace).read_text())["traceEvents"]
           if e["ph"] == "X" and e["args"].get("what") in ("forward", "backward", "recompute")]
    begin, end = (min(e["ts"] for e in ops if e["args"]["step"] == step and e["pid"] == 0) for step in (FIRST, last))
    busy = sum(max(0, min(e["ts"] + e["dur"], end) - max(e["ts"], begin)) for e in ops)
    return 1 - busy / (2 * (end - begin)), (end - begin) / 1e6 / (last - FIRST)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/tessera")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=14)
    args = parser.parse_args()
    found = {name: [] for name in SCHEDULES}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(args.rounds):
            for name, keys in SCHEDULES.items():
                subprocess.run([args.binary, "train", *RUN, *keys, f"training.steps={args.steps}", "checkpoint.every_minutes=0", "--procs", "2", "--out", f"{folder}/out",
                                "--from", "none", "--trace", f"{folder}/trace.json"], check=True, capture_output=True)
                found[name].append(bubble(f"{folder}/trace.json", args.steps - 1))
    for name, measured in found.items():
        bubbles, seconds = zip(*measured)
        told = json.loads(subprocess.run([args.binary, "simulate", *RUN, *SCHEDULES[name], "--json"], check=True, capture_output=True, text=True).stdout)
        print(f"{name:28s} bubble {100 * statistics.median(bubbles):5.1f} % ({100 * min(bubbles):.1f} to {100 * max(bubbles):.1f}), step {statistics.median(seconds):.3f} s; "
              f"simulated {100 * told['bubble']:.1f} %")


if __name__ == "__main__":
    main()
