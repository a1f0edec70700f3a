#!/usr/bin/env python3
"""Step time of tensor parallelism in blocks beside 1d with sequence parallelism: 4 processes, 10M parameters, in turns.

    bench/tensor_blocks.py build/release/tessera [ROUNDS]

Prints the median step of each and its ratio to 1d, then the ratio that `tessera simulate` gives with rates of this machine: what one
process computes, shared by all that a core has, and a link whose speed makes the prediction of 1d what was measured. About 20 s a round.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODEL = ["model.heads=4", "model.kv_heads=4", "layout.micro_batch=8", f"data.path={ROOT}/corpus/kjv.txt"]
RANKS, STEPS, SKIPPED = 4, 8, 3
LAYOUTS = {
    "1d": ["layout.tp=4"],
    "2d": ["layout.tp=4", "layout.tp_kind=2d"],
    "2d, gathered": ["layout.tp=4", "layout.tp_kind=2d", "layout.tp_gather=true"],
}
MEMORY, MESSAGE = 5.0, 60  # GB/s of memory, microseconds of a message


def step_seconds(binary, layout, ranks):
    with tempfile.TemporaryDirectory() as folder:
        command = [binary, "train", str(ROOT / "bench/step-10m.toml"), "--out", f"{folder}/run", f"training.steps={STEPS}", "checkpoint.every_minutes=0",
                   "cluster.peak_tflops=1", *MODEL, *layout]
        subprocess.run(command, check=True, capture_output=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        lines = [json.loads(line) for line in open(f"{folder}/run/metrics.jsonl")]
    return [line["step_seconds"] for line in lines if "step_seconds" in line][SKIPPED:]


def simulated(binary, layout, rates):
    command = [binary, "simulate", str(ROOT / "bench/step-10m.toml"), *MODEL, *layout, "--json", "--rates", ",".join(map(str, rates))]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["step_seconds"]


# The rate that makes the prediction as long as `seconds`, by halving.
def fitted(seconds_at, seconds, low, high):
    for _ in range(40):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if seconds_at(middle) > seconds else (low, middle)
    return low


def main():
    binary = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    times = {name: [] for name in ("one rank", *LAYOUTS)}
    for i in range(rounds):
        times["one rank"] += step_seconds(binary, [], 1)
        for name, layout in LAYOUTS.items():
            times[name] += step_seconds(binary, layout, RANKS)
        print(f"round {i + 1} of {rounds}: " + ", ".join(f"{name} {1e3 * statistics.median(list_):.0f} ms" for name, list_ in times.items()), flush=True)
    medians = {name: statistics.median(list_) for name, list_ in times.items()}
    cores = min(os.cpu_count(), RANKS)
    alone = fitted(lambda f: simulated(binary, [], (f, MEMORY, 1, MESSAGE)), medians["one rank"], 1e-4, 10)
    shared = alone * cores / RANKS
    link = fitted(lambda l: simulated(binary, LAYOUTS["1d"], (shared, MEMORY, l, MESSAGE)), medians["1d"], 1e-3, 100)
    print(f"one rank computes {1e3 * alone:.1f} GFLOP/s, {RANKS} ranks on {cores} cores {1e3 * shared:.1f} each; a link of {link:.2f} GB/s makes 1d as measured\n")
    print("| layout | step, ms | over 1d | predicted over 1d | off |\n|---|--:|--:|--:|--:|")
    predicted_1d = simulated(binary, LAYOUTS["1d"], (shared, MEMORY, link, MESSAGE))
    for name, layout in LAYOUTS.items():
        ratio = medians[name] / medians["1d"]
        predicted = simulated(binary, layout, (shared, MEMORY, link, MESSAGE)) / predicted_1d
        spread = statistics.quantiles(times[name], n=4)
        print(f"| {name} | {1e3 * medians[name]:.0f} ({1e3 * spread[0]:.0f} to {1e3 * spread[2]:.0f}) | {ratio:.2f} | {predicted:.2f} | {100 * (predicted / ratio - 1):+.0f} % |")


if __name__ == "__main__":
    main()
