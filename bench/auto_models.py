#!/usr/bin/env python3
"""How much slower than the best is the layout that `layout = "auto"` chooses? Ten small models on two ranks of this machine.

usage: .venv/bin/python bench/auto_models.py [--binary build/release/tessera] [--steps 8]

For each model: what the planner chooses for two ranks as they are now (`plan --machine 2`, what auto asks at its start), and a list
of others, all measured by the median of their steps; then the choice and the fastest of the list once more in turns, three times.
The regret is the median over these rounds of the choice's step / that of the fastest, less 1. About eight minutes on two idle cores.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile

from uneven import step_seconds

# layers, hidden, heads, sequence, vocabulary, samples of a batch
MODELS = [(2, 64, 2, 64, 256, 32), (4, 128, 4, 128, 256, 16), (8, 128, 4, 128, 256, 16), (2, 256, 4, 128, 256, 16), (4, 256, 4, 256, 256, 8),
          (2, 128, 4, 512, 256, 8), (4, 64, 2, 256, 256, 16), (2, 128, 4, 128, 4096, 16), (6, 192, 6, 128, 256, 16), (2, 384, 6, 64, 256, 16)]
LAYOUTS = ["layout.dp=2 layout.micro_batch=1", "layout.dp=2 layout.micro_batch=2", "layout.dp=2 layout.micro_batch=4", "layout.dp=2 layout.zero=1 layout.micro_batch=4",
           "layout.dp=2 layout.zero=3 layout.micro_batch=4", "layout.pp=2 layout.micro_batch=1", "layout.pp=2 layout.micro_batch=2",
           "layout.pp=2 layout.micro_batch=2 layout.schedule=zb-h1", "layout.tp=2 layout.micro_batch=4", "layout.tp=2 layout.micro_batch=8", "layout.cp=2 layout.micro_batch=8"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/tessera")
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args()
    regrets = []
    with tempfile.TemporaryDirectory() as folder:
        for layers, hidden, heads, sequence, vocab, batch in MODELS:
            run = pathlib.Path(folder) / "run.toml"
            run.write_text(f"[model]\nlayers = {layers}\nhidden = {hidden}\nheads = {heads}\nkv_heads = {heads}\nffn = {hidden * 8 // 3 // 8 * 8}\n"
                           f"sequence = {sequence}\nvocab = {vocab}\n[data]\npath = \"{pathlib.Path('corpus/kjv.txt').resolve()}\"\n"
                           f"[training]\nglobal_batch = {batch}\n[layout]\nprecision = \"fp32\"\n")

            def seconds(keys):
                return step_seconds(args.binary, run, 2, [*keys.split(), f"training.steps={args.steps}", "training.warmup_steps=0", "checkpoint.every_minutes=0"], folder)[0]

            told = subprocess.run([args.binary, "plan", run, "--machine", "2", "--json"], check=True, capture_output=True, text=True).stdout
            chosen = " ".join(json.loads(told)["best"]["keys"])
            taken = {keys: seconds(keys) for keys in [chosen, *LAYOUTS]}
            best = min(LAYOUTS, key=taken.get)
            ratios = [seconds(chosen) / seconds(best) for _ in range(3)]
            regrets.append(statistics.median(ratios) - 1)
            print(f"{layers} layers of {hidden}, {sequence} tokens, batch {batch}: chose {chosen}; fastest of the list {best} ({taken[best]:.3f} s, slowest "
                  f"{max(taken.values()):.3f}); regret {100 * regrets[-1]:+.1f} % ({100 * (min(ratios) - 1):+.1f} to {100 * (max(ratios) - 1):+.1f})", flush=True)
    print(f"{len(regrets)} models: mean regret {100 * statistics.mean(max(r, 0) for r in regrets):.1f} %, worst {100 * max(regrets):.1f} %")


if __name__ == "__main__":
    main()
