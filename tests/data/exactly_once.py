"""Are the same samples read in the same order however often a job is killed and whatever its ranks?

  exactly_once.py BINARY [--kills 20] [--steps 300]

Trains on a blend of two tokenized sources with a learning rate of zero, so that the loss of a step tells which samples it read: first
in one go on one rank, then killed at random instants, with another number of ranks after every fourth kill. The losses of all steps must be equal to
1e-6, and those of two different steps must differ by more, or the test could not see a difference.
"""
import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

RUN = """
[model]
layers = 1
hidden = 16
heads = 2
kv_heads = 2
ffn = 16
vocab = 256
sequence = 48
init_std = 0.5
[data]
sources = "{folder}/a, {folder}/b"
weights = "0.7, 0.3"
packing = "best-fit"
[training]
steps = {steps}
global_batch = 12
learning_rate = 0
min_learning_rate = 0
warmup_steps = 0
weight_decay = 0
[checkpoint]
every = 3
"""


def losses(folder):
    out = {}
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        record = json.loads(line)
        out[record["step"]] = record["loss"]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        verses = pathlib.Path("corpus/kjv.txt").read_text().splitlines()
        for source, some in (("a", verses[:400]), ("b", verses[5000:5150])):
            (root / f"{source}.txt").write_text("\n".join(some) + "\n")
            subprocess.run([arguments.binary, "data", "tokenize", root / f"{source}.txt", "-o", root / source, "--tokenizer", "bytes"],
                           check=True, stdout=subprocess.DEVNULL)
        run = root / "run.toml"
        run.write_text(RUN.format(folder=root, steps=arguments.steps))

        def command(out, *more):
            return [arguments.binary, "train", str(run), "--out", str(root / out), "--json", *more]

        subprocess.run(command("straight"), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        expected = losses(root / "straight")
        assert len(expected) == arguments.steps and len(set(round(x, 6) for x in expected.values())) > arguments.steps * 0.95

        kills, ranks, used = 0, 1, [1]
        while True:
            more = [] if ranks == 1 else [f"layout.dp={ranks}"]
            job = subprocess.Popen(command("killed", *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)
            try:
                job.wait(None if kills >= arguments.kills else draw.uniform(0.3, 1.2))
            except subprocess.TimeoutExpired:
                job.send_signal(signal.SIGKILL)
                job.wait()
                time.sleep(0.3)  # its ranks notice and end
                kills += 1
                if kills % 4 == 0:
                    ranks = draw.choice([n for n in (1, 2, 3, 4) if n != ranks])
                    used.append(ranks)
                continue
            if job.returncode != 0:
                sys.exit(f"exit code {job.returncode} after {kills} kills")
            break
        if kills < arguments.kills:
            sys.exit(f"the job ended after {kills} kills; take more --steps")
        found = losses(root / "killed")
        assert set(found) == set(expected), sorted(set(expected) - set(found))
        worst = max(abs(found[step] - expected[step]) for step in expected)
        assert worst < 1e-6, (worst, [step for step in expected if abs(found[step] - expected[step]) >= 1e-6])
        print(f"{kills} kills, ranks {used}: the losses of {len(found)} steps differ by at most {worst:.1e}")


if __name__ == "__main__":
    main()
