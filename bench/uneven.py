#!/usr/bin/env python3
"""One of two cores is made slow by another process; how long is a step with an even split, and with the one that is planned?

usage: .venv/bin/python bench/uneven.py [--binary build/release/tessera] [--rounds 3]

Two ranks of data parallelism, then two stages. The ideal is all work over the sum of both cores' measured speeds: the speed of
each is that of one rank with all of the work, alone on its core. Prints each over the ideal. About three minutes.
"""
import argparse
import json
import statistics
import subprocess
import tempfile

RUN = """{first}[model]
layers = 12
hidden = 128
heads = 4
kv_heads = 4
ffn = 344
sequence = 128
[data]
path = "corpus/kjv.txt"
[training]
global_batch = 24
steps = 8
[checkpoint]
every_minutes = 0
"""


def step_seconds(binary, run, ranks, keys, folder, core=None):
    command = [binary, "train", run, *keys, "--procs", str(ranks), "--json", "--out", f"{folder}/out", "--from", "none"]
    if core is not None:
        command = ["taskset", "-c", str(core), *command, "cluster.pin=false"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    text = done.stdout
    return json.loads(text[text.index("{"):])["step_seconds"], done.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/tessera")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run.toml"
        with open(run, "w") as file:
            file.write(RUN.format(first=""))
        busy = subprocess.Popen(["taskset", "-c", "1", "python3", "-c", "while True: pass"])
        try:
            told = subprocess.run([args.binary, "plan", run, "--machine", "2", "--answers", "8", "--json"], check=True, capture_output=True, text=True).stdout
            plans = [answer["keys"] for answer in json.loads(told)["answers"]]
            by_rank = next((k for k in plans if any("micro_batches_by_rank" in key for key in k)), None)
            by_stage = next((k for k in plans if any("layout.stages" in key for key in k)), None)
            print("planned:", " ".join(by_rank or ["no split by rank"]), "|", " ".join(by_stage or ["no split by stage"]))
            cases = {"alone on the free core": (1, ["layout.micro_batch=1"], 0), "alone on the busy core": (1, ["layout.micro_batch=1"], 1),
                     "even, dp 2": (2, ["layout.dp=2"], None), "planned, dp 2": (2, by_rank, None),
                     "even, pp 2": (2, ["layout.pp=2", "layout.stages=7,7"], None), "planned, pp 2": (2, by_stage, None)}
            taken = {name: [] for name in cases}
            for _ in range(args.rounds):
                for name, (ranks, keys, core) in cases.items():
                    if keys:
                        taken[name].append(step_seconds(args.binary, run, ranks, keys, folder, core)[0])
        finally:
            busy.kill()
    median = {name: statistics.median(times) for name, times in taken.items() if times}
    ideal = 1 / (1 / median["alone on the free core"] + 1 / median["alone on the busy core"])
    for name, seconds in median.items():
        print(f"{name:24s} {seconds:.3f} s, {seconds / ideal:.2f} of the ideal; rounds {max(taken[name]) / min(taken[name]):.2f} apart")
    print(f"ideal {ideal:.3f} s")


if __name__ == "__main__":
    main()
