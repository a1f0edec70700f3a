#!/usr/bin/env python3
"""Predicts the step of many layouts on one and two ranks of this machine from a profile of ten short runs, then measures them.

usage: .venv/bin/python bench/plan_machine.py [--binary build/release/tessera] [--run bench/plan-machine.toml] [--rounds 2]

Prints both times of every layout, the median error and the rank correlation. None of the layouts is one of the ten. About five
minutes on two idle cores.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from uneven import step_seconds

LAYOUTS = [
    (1, "layout.micro_batch=2"), (1, "layout.micro_batch=8"), (1, "layout.micro_batch=16"),
    (1, "layout.micro_batch=1 layout.recompute=full"), (1, "layout.micro_batch=8 layout.recompute=full"),
    (1, "layout.micro_batch=4 layout.recompute=selective"),
    (2, "layout.dp=2 layout.micro_batch=2"), (2, "layout.dp=2 layout.micro_batch=8"), (2, "layout.dp=2 layout.micro_batch=1 layout.zero=1"),
    (2, "layout.dp=2 layout.micro_batch=8 layout.zero=1"), (2, "layout.dp=2 layout.micro_batch=4 layout.zero=2 layout.reduce_every=0"),
    (2, "layout.dp=2 layout.micro_batch=8 layout.zero=3"), (2, "layout.dp=2 layout.micro_batch=4 layout.recompute=full"),
    (2, "layout.dp=2 layout.micro_batch=1 layout.recompute=full"), (2, "layout.tp=2 layout.micro_batch=1"), (2, "layout.tp=2 layout.micro_batch=4"),
    (2, "layout.tp=2 layout.micro_batch=8"), (2, "layout.tp=2 layout.micro_batch=2 layout.recompute=full"),
    (2, "layout.pp=2 layout.micro_batch=2"), (2, "layout.pp=2 layout.micro_batch=4"), (2, "layout.pp=2 layout.micro_batch=8"),
    (2, "layout.pp=2 layout.micro_batch=1 layout.schedule=zb-h1"), (2, "layout.pp=2 layout.micro_batch=2 layout.recompute=full"),
    (2, "layout.pp=2 layout.micro_batch=4 layout.schedule=gpipe"), (2, "layout.cp=2 layout.micro_batch=2"), (2, "layout.cp=2 layout.micro_batch=8"),
]


def ranks_of(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    out = [0] * len(values)
    for place, index in enumerate(order):
        out[index] = place
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/tessera")
    parser.add_argument("--run", default="bench/plan-machine.toml")
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        machine = pathlib.Path(folder) / "machine"
        subprocess.run([args.binary, "bench", "profile", args.run, "-o", machine], check=True)
        two = pathlib.Path(f"{machine}.toml")
        one = pathlib.Path(folder) / "one.toml"
        one.write_text(two.read_text().replace("count = 2", "count = 1"))
        predicted = []
        for ranks, keys in LAYOUTS:
            told = subprocess.run([args.binary, "plan", args.run, *keys.split(), "--as-it-is", "--cluster", one if ranks == 1 else two, "--stack",
                                   f"{machine}.json", "--json"], check=True, capture_output=True, text=True).stdout
            predicted.append(json.loads(told)["best"]["step_seconds"])
        measured = [[] for _ in LAYOUTS]
        for _ in range(args.rounds):
            for times, (ranks, keys) in zip(measured, LAYOUTS):
                times.append(step_seconds(args.binary, args.run, ranks, [*keys.split(), "training.steps=8", "checkpoint.every_minutes=0"], folder)[0])
    taken = [statistics.median(times) for times in measured]
    errors = []
    for (ranks, keys), guess, real, times in zip(LAYOUTS, predicted, taken, measured):
        errors.append(abs(guess / real - 1))
        print(f"{ranks}  {keys:62s} predicted {guess:7.3f}  measured {real:7.3f}  off {100 * (guess / real - 1):+6.1f} %  rounds {max(times) / min(times):.2f} apart")
    a, b, n = ranks_of(predicted), ranks_of(taken), len(taken)
    spearman = 1 - 6 * sum((x - y) ** 2 for x, y in zip(a, b)) / (n * (n * n - 1))
    print(f"{n} layouts, slowest over fastest {max(taken) / min(taken):.2f}: median error {100 * statistics.median(errors):.1f} %, "
          f"mean {100 * statistics.mean(errors):.1f} %, Spearman {spearman:.3f}")


if __name__ == "__main__":
    main()
