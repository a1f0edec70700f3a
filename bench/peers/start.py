"""How long from the command to the first finished training step, on two ranks? `tessera train` and torchrun with DDP, in turns.

  .venv/bin/python bench/peers/start.py [--run examples/tiny.toml] [--rounds 7] [--json]

Both train the model of the run file on the same bytes with AdamW over Gloo, one thread per rank. The clock starts with the
process and stops when the line of step 1 arrives. Medians over rounds; the ratio is the median of each round's own. The parts
are the programs' own account: Tessera's is the field start_parts of `tessera train --json`.
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import add_options, most_load, spread_text, take_turns, times_faster  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def tessera(options, folder):
    return [ROOT / options.build / "tessera", "train", options.run, "training.steps=1", "checkpoint.every_minutes=0", "--procs", "2", "--out", folder]


def torchrun(options):
    # A fixed port: torchrun's other ways of meeting take longer.
    return [pathlib.Path(sys.executable).parent / "torchrun", "--nproc-per-node", "2", "--master-addr", "127.0.0.1",
            "--master-port", str(free_port()), ROOT / "bench/peers/ddp_start.py", options.run]


def seconds_to_first_step(command):
    """Seconds until a line with step 1 came, and all that was printed."""
    begin = time.time()
    process = subprocess.Popen(command, cwd=ROOT, env=ENVIRONMENT | {"STARTED_AT": str(begin)}, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lines, seconds = [], None
    for line in process.stdout:
        if seconds is None and "step 1" in line:
            seconds = time.time() - begin
        lines.append(line)
    errors = process.stderr.read()
    if process.wait() or seconds is None:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{''.join(lines)}{errors}")
    return seconds, lines


def own_account(command):
    done = subprocess.run([*command, "--json"], cwd=ROOT, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, check=True)
    return {part["name"]: part["seconds"] for part in json.loads(done.stdout)["start_parts"]}


def medians(rounds):
    return {name: statistics.median(parts[name] for parts in rounds) for name in rounds[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", default="examples/tiny.toml", help="the run file")
    add_options(parser, rounds=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        def of_tessera():
            seconds = seconds_to_first_step(tessera(options, folder))[0]
            return {"seconds": [seconds], "parts": own_account(tessera(options, folder))}

        def of_torchrun():
            seconds, lines = seconds_to_first_step(torchrun(options))
            return {"seconds": [seconds], "parts": json.loads(lines[-1])["parts"]}

        # The first round brings the files into memory.
        ours, theirs = (rounds[1:] for rounds in take_turns([of_tessera, of_torchrun], options.rounds + 1,
                                                            lambda system: system(), options.patience))
    result = {"run": options.run, "rounds": options.rounds,
              "tessera_seconds": statistics.median(r["seconds"][0] for r in ours),
              "torchrun_ddp_seconds": statistics.median(r["seconds"][0] for r in theirs),
              "times_faster": times_faster(ours, theirs), "load": most_load(ours, theirs),
              "tessera_parts": medians([r["parts"] for r in ours]), "torchrun_ddp_parts": medians([r["parts"] for r in theirs])}
    if options.json:
        print(json.dumps(result))
        return
    print(f"{options.run}, two ranks, from the command to the end of step 1 (median of {options.rounds} interleaved rounds)")
    for name, seconds, parts in (("Tessera", result["tessera_seconds"], result["tessera_parts"]),
                                 ("torchrun, DDP", result["torchrun_ddp_seconds"], result["torchrun_ddp_parts"])):
        print(f"  {name:14} {seconds:6.2f} s    " + ", ".join(f"{part} {value:.2f}" for part, value in parts.items()))
    print(f"  Tessera is {spread_text(result['times_faster'], 1)} times faster; load of others at most {result['load']:.2f}")


if __name__ == "__main__":
    main()
