"""How long do the steps of `tessera train` or of a peer's ranks take, and how much memory do they hold? Measured from outside,
so that one yardstick (VmHWM, reset after the warm-up) is laid on all.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import harness  # noqa: E402
from start import free_port  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
POLL_SECONDS = 0.1
TEXT = "corpus/kjv.txt"


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
               f"training.steps={warm_up + steps}", "checkpoint.every_minutes=0", "--json", "--out", folder, *more]
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


class Tessera:
    """The binary with these keys of [layout], started anew each round."""

    def __init__(self, binary, sizes, layout, folder, warm_up=2, text=TEXT, weights=None):
        self.binary, self.folder, self.warm_up = binary, folder, warm_up
        self.losses, self.parameters = [], 0
        self.run_file = pathlib.Path(folder, "given.toml")  # run.toml is what train makes of it
        shape = "".join(f"{key} = {value}\n" for key, value in sizes.items() if key not in ("batch", "micro_batch"))
        self.run_file.write_text(
            f'[model]\nfamily = "llama"\n{shape}[data]\npath = "{text}"\n'
            f'[training]\nglobal_batch = {sizes["batch"]}\nlearning_rate = 3e-4\nwarmup_steps = 0\ndecay = "constant"\n'
            f'[layout]\nmicro_batch = {sizes["micro_batch"]}\n')
        self.keys = {f"layout.{key}": value for key, value in layout.items()}
        if weights:
            self.keys["model.weights"] = weights

    def run(self, steps, more=()):
        answer = train(self.binary, self.run_file, self.keys, self.folder, steps, self.warm_up, more)
        self.losses, self.parameters = answer["losses"], answer["parameters"]
        return answer

    def close(self):
        pass


def add_options(parser):
    """The options of every comparison of trainings."""
    harness.add_options(parser, rounds=5)
    parser.add_argument("--steps", type=int, default=3, help="steps of each system in a round, after the warm-up")
    parser.add_argument("--sequence", type=int, default=256, help="tokens of a sample")


def parsed(parser):
    options = parser.parse_args()
    options.binary = ROOT / options.build / "tessera"
    return options


class Answering:
    """Ranks of a peer that answer "step N" with a JSON line; they stay between rounds, for their first step takes ten seconds
    and more. If they restart, each round takes the same steps, as Tessera's do."""

    def __init__(self, command, num_ranks, warm_up=2, restarts=False):
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(num_ranks)}
        self.ranks = [subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT | place | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
                                       text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) for rank in range(num_ranks)]
        self.parameters = sum(answer["parameters"] for answer in self.answers())
        self.losses, self.warm_up, self.restarts = [], warm_up, restarts
        self.timed(warm_up)

    def answers(self):
        lines = [rank.stdout.readline() for rank in self.ranks]
        if not all(lines):
            self.close()
            sys.exit(f"{' '.join(map(str, self.ranks[0].args))}: a rank ended without an answer")
        return [json.loads(line) for line in lines]

    def asked(self, what):
        for rank in self.ranks:
            rank.stdin.write(what + "\n")
            rank.stdin.flush()
        return self.answers()

    def run(self, steps):
        if self.restarts:
            self.asked("restart")
            self.losses = []
            self.timed(self.warm_up)
        return self.timed(steps)

    def timed(self, steps):
        """Of these steps the seconds of the slower rank and each rank's peak; the losses of all steps are kept."""
        for rank in self.ranks:
            forget_peak(rank.pid)
        answers = self.asked(f"step {steps}")
        told = [answer["losses"] for answer in answers if answer["losses"][0] is not None]
        self.losses += [sum(losses) / len(told) for losses in zip(*told)]
        return {"seconds": [max(pair) for pair in zip(*(answer["seconds"] for answer in answers))],
                "peak_bytes": [peak_bytes(rank.pid) for rank in self.ranks]}

    def close(self):
        for rank in self.ranks:
            rank.stdin.close()
        for rank in self.ranks:
            rank.wait()
