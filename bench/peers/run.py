"""One training step of the same model in PyTorch eager, torch.compile, the bare C++ loop and Tessera, interleaved.

  .venv/bin/python bench/peers/run.py [--size 10M --size 44M] [--precision fp32 --precision bf16] [--rounds 8] [--json]

Same model, batch, dtype and optimizer, one thread each; one system runs at a time. A round is a few steps of
each system; the table shows the median step and the median over rounds of (eager's step / this step): above 1 is faster.
The losses of PyTorch and the bare loop must agree, or the run fails; Tessera draws weights and tokens of its own (that its
numbers are PyTorch's is what train/reference_process_test.cpp shows) and is run on wall time only, as
  tessera bench step run.toml --json       (a JSON object with "seconds", a list of step times)
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import add_options, most_load, spread, spread_text, take_turns  # noqa: E402
from model import SIZES  # noqa: E402

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Server:
    """A process that answers "step N" with one JSON line."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        self.parameters = self.answer()["parameters"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{' '.join(map(str, self.process.args))} ended without an answer")
        return json.loads(line)

    def run(self, steps):
        self.process.stdin.write(f"step {steps}\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Tessera:
    """The binary, started anew each round; it warms up by itself."""

    def __init__(self, binary, size, precision, folder):
        c = SIZES[size]
        sizes = "".join(f"{k} = {c[k]}\n" for k in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "sequence"))
        self.toml = folder / f"{size}-{precision}.toml"
        self.toml.write_text(
            f'[model]\nfamily = "llama"\n{sizes}'
            f'[training]\nglobal_batch = {c["batch"]}\nlearning_rate = 3e-4\nwarmup_steps = 0\ndecay = "constant"\n'
            f'[layout]\nmicro_batch = {c["micro_batch"]}\nprecision = "{precision}"\n')
        self.command = [binary, "bench", "step", self.toml, "--json", "--rounds"]

    def run(self, steps):
        done = subprocess.run([*self.command, str(max(3, steps))], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    def close(self):
        pass


def systems_of(options, size, precision, folder):
    build = ROOT / options.build
    sizes = [f"{key}={value}" for key, value in SIZES[size].items()]
    python = [sys.executable, ROOT / "bench/peers/torch_step.py"]
    systems = {"PyTorch eager": Server([*python, "eager", size, precision])}
    if options.compile:
        systems["torch.compile"] = Server([*python, "compile", size, precision])
    systems["bare C++ loop"] = Server([build / "bare_step_main", *sizes, f"precision={precision}"])
    if (build / "tessera").exists() and options.clock == "wall":
        systems["Tessera"] = Tessera(build / "tessera", size, precision, folder)
    return systems


def measure(options, size, precision, folder):
    systems = systems_of(options, size, precision, folder)
    servers = {name: s for name, s in systems.items() if isinstance(s, Server)}
    clock = "cpu_seconds" if options.clock == "cpu" else "seconds"
    losses = {name: server.run(2)["loss"] for name, server in servers.items()}  # warm-up; compile compiles here
    apart = max(losses.values()) - min(losses.values())
    if apart > (1e-4 if precision == "fp32" else 1e-2):
        sys.exit(f"not the same computation: losses after two steps are {losses}")
    found = take_turns(list(systems.values()), options.rounds, lambda system: system.run(options.steps), options.patience)
    rounds = {name: [statistics.median(answer.get(clock, answer["seconds"])) for answer in answers]
              for name, answers in zip(systems, found)}
    for system in systems.values():
        system.close()
    parameters = next(iter(servers.values())).parameters
    tokens = SIZES[size]["batch"] * SIZES[size]["sequence"]
    eager = rounds["PyTorch eager"]
    for name, seconds in rounds.items():
        median = statistics.median(seconds)
        yield {"size": size, "precision": precision, "system": name, "parameters": parameters, "step_seconds": median,
               "tokens_per_second": tokens / median, "rounds": seconds, "load": most_load(*found),
               "speed_over_eager": spread(e / s for e, s in zip(eager, seconds))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", action="append", choices=list(SIZES))
    parser.add_argument("--precision", action="append", choices=["fp32", "bf16"])
    add_options(parser, rounds=8)
    parser.add_argument("--steps", type=int, default=3, help="steps of each system in a round")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: when others use the machine")
    parser.add_argument("--no-compile", dest="compile", action="store_false", help="leave out torch.compile")
    options = parser.parse_args()
    if not options.json:
        print(f"{'size':5} {'dtype':5} {'system':14} {'s/step':>8} {'tokens/s':>9} {'x eager':>22} {'load':>5}")
    with tempfile.TemporaryDirectory() as folder:
        for size in options.size or ["10M", "44M"]:
            for precision in options.precision or ["fp32", "bf16"]:
                for row in measure(options, size, precision, pathlib.Path(folder)):
                    if options.json:
                        print(json.dumps(row), flush=True)
                    else:
                        print(f"{row['size']:5} {row['precision']:5} {row['system']:14} {row['step_seconds']:8.4f} "
                              f"{row['tokens_per_second']:9.0f} {spread_text(row['speed_over_eager'], 3):>22} {row['load']:5.2f}", flush=True)


if __name__ == "__main__":
    main()
