#!/usr/bin/env python3
"""How much faster is a step when the next one begins before it has ended, and when reductions come by priority?

usage, as root: tests/hosts/with-two-hosts .venv/bin/python bench/across_steps.py [--binary build/release/tessera] [--rounds 3]
                    [--models 10m,44m] [--mbits 200,1000] [--zero 0,1] [--clip 0,1] [--ddp] [--lossy]

Two ranks, each in a network namespace of its own, with a token bucket at either end of the cable between them. Each case is
run with steps one after the other, overlapping in the order of arrival, and overlapping by priority, interleaved; printed are
medians of the step and what `tessera simulate` predicts at the speed of one rank alone and the cable's. With --lossy also compressed
traffic and local steps, of which a step is the mean from exchange to exchange. About 20 s a run.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

MODELS = {
    "10m": ["model.layers=8", "model.hidden=320", "model.heads=5", "model.kv_heads=5", "model.ffn=864", "model.vocab=256", "model.sequence=256"],
    "44m": ["model.layers=12", "model.hidden=512", "model.heads=8", "model.kv_heads=4", "model.ffn=1408", "model.vocab=8192", "model.sequence=512"],
}
SAMPLES = {"10m": 8, "44m": 4}  # of both ranks
CASES = {
    "one after the other": [],
    "overlapping, arrival": ["layout.overlap_steps=true"],
    "overlapping, priority": ["layout.overlap_steps=true", "layout.communication=priority"],
    "priority, slices of 2 MiB": ["layout.overlap_steps=true", "layout.communication=priority", "layout.slice_kib=2048"],
    "slices, credit of 6 MiB": ["layout.overlap_steps=true", "layout.communication=priority", "layout.slice_kib=2048", "layout.credit_kib=6144"],
}
LOCAL_STEPS = 5
LOSSY = {
    "gradients in bf16": ["layout.compress_gradients=bf16"],
    "gradients in int8": ["layout.compress_gradients=int8"],
    "gradients by PowerSGD": ["layout.compress_gradients=powersgd", "layout.compress_rank=4"],
    "weights and gradients in int8": ["layout.compress_gradients=int8", "layout.compress_weights=int8"],
    "5 local steps": ["training.local_steps=5"],
    "5 local steps, 2 of delay": ["training.local_steps=5", "training.outer_delay=2"],
}


def lossy(zero):
    """Those that mean something with that ZeRO."""
    return {name: keys for name, keys in LOSSY.items() if ("weights" in name) <= (zero != "0") and ("local" in name) <= (zero == "0")}


def shape(mbits):
    for host in ("HOST_A", "HOST_B"):
        prefix = os.environ[host].split()
        subprocess.run([*prefix, "tc", "qdisc", "replace", "dev", "cable", "root", "tbf", "rate", f"{mbits}mbit", "burst", "256kb", "latency", "200ms"], check=True)


def start(binary, run, keys, rank, folder, port):
    environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", GROUP_WORLD_SIZE="2", MASTER_ADDR="a", MASTER_PORT="1",
                       TORCHELASTIC_RUN_ID=f"job{port}", OMP_NUM_THREADS="1")
    prefix = os.environ["HOST_A" if rank == 0 else "HOST_B"].split()
    command = [*prefix, "taskset", "-c", str(rank), binary, "train", run, *keys, f"cluster.store={os.environ['ADDRESS_A']}:{port}", f"cluster.key_file={folder}/key",
               "cluster.pin=false", "--json", "--out", f"{folder}/out", "--from", "none"]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


PORT = [29400]


def train(binary, run, keys, folder):
    PORT[0] += 1
    ranks = [start(binary, run, keys, rank, folder, PORT[0]) for rank in (0, 1)]
    told = [rank.communicate() for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{keys}: {told[0][1][-2000:]} {told[1][1][-2000:]}")
    with open(f"{folder}/out/metrics.jsonl") as file:
        steps = [json.loads(line) for line in file]
    times = [step["step_seconds"] for step in steps if "step_seconds" in step][3:]
    exchanges = any("local_steps" in key for key in keys)
    seconds = statistics.mean(times[:len(times) // LOCAL_STEPS * LOCAL_STEPS]) if exchanges else statistics.median(times)
    return seconds, [step["loss"] for step in steps if "loss" in step]


def ddp(model, clip, steps):
    """Seconds of a step of PyTorch's DistributedDataParallel between the same hosts."""
    PORT[0] += 1
    ranks = []
    for rank, host in enumerate(("HOST_A", "HOST_B")):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR=os.environ["ADDRESS_A"], MASTER_PORT=str(PORT[0]), GLOO_SOCKET_IFNAME="cable", OMP_NUM_THREADS="1")
        command = [*os.environ[host].split(), "taskset", "-c", str(rank), sys.executable, "bench/peers/ddp_steps.py", model.upper(), str(SAMPLES[model] // 2), str(steps), clip]
        ranks.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    told = [rank.communicate()[0] for rank in ranks]
    return float(told[0])


def predicted(binary, run, keys, rates):
    told = subprocess.run([binary, "simulate", run, *keys, "--rates", ",".join(map(str, rates)), "--json"], check=True, capture_output=True, text=True)
    return json.loads(told.stdout)["step_seconds"]


def rates_of(binary, run, keys, folder, mbits):
    """TFLOP/s and GB/s of memory by which one rank alone is simulated to take as long as it does; the link as it is shaped, less TCP's headers."""
    keys = [key for key in keys if not key.startswith(("layout.dp", "training.global_batch", "layout.zero"))]
    keys.append("training.global_batch=" + next(key for key in keys if key.startswith("layout.micro_batch")).split("=")[1])
    command = ["taskset", "-c", "0", binary, "train", run, *keys, "--procs", "1", "--json", "--out", f"{folder}/alone", "--from", "none", "cluster.pin=false"]
    told = subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ, OMP_NUM_THREADS="1")).stdout
    seconds = json.loads(told[told.index("{"):])["step_seconds"]
    slower = seconds / predicted(binary, run, keys, (0.05, 10, 1, 0))
    return 0.05 / slower, 10 / slower, mbits * 1448 / 1538 / 8000, 100


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default="build/release/tessera")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=13)
    parser.add_argument("--models", default="10m,44m")
    parser.add_argument("--mbits", default="200,1000")
    parser.add_argument("--zero", default="0,1")
    parser.add_argument("--clip", default="0,1")
    parser.add_argument("--lossy", action="store_true", help="also what changes the numbers: compressed traffic, local steps")
    parser.add_argument("--ddp", action="store_true", help="beside PyTorch's DistributedDataParallel, for zero 0")
    args = parser.parse_args()
    if "HOST_A" not in os.environ:
        sys.exit("run it within tests/hosts/with-two-hosts")
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run.toml"
        with open(f"{folder}/key", "wb", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write(os.urandom(32))
        with open(run, "w") as file:
            file.write('[data]\npath = "corpus/kjv.txt"\n[checkpoint]\nevery_minutes = 0\n')
        for model in args.models.split(","):
            for mbits in map(int, args.mbits.split(",")):
                shape(mbits)
                for zero in args.zero.split(","):
                    for clip in args.clip.split(","):
                        base = [*MODELS[model], f"training.steps={args.steps}", f"training.global_batch={SAMPLES[model]}", f"layout.micro_batch={SAMPLES[model] // 2}",
                                "layout.dp=2", f"layout.zero={zero}", f"training.clip_norm={clip}", f"cluster.link_mbits={mbits}", "cluster.peak_tflops=0.06"]
                        cases = CASES | (lossy(zero) if args.lossy else {})
                        taken = {name: [] for name in cases}
                        losses = {}
                        for turn in range(args.rounds):
                            for name, keys in cases.items():
                                seconds, losses[name] = train(args.binary, run, base + keys, folder)
                                taken[name].append(seconds)
                        rates = rates_of(args.binary, run, base, folder, mbits)
                        first = statistics.median(taken["one after the other"])
                        print(f"{model}, {mbits} Mbit/s, zero {zero}, clip {clip}", flush=True)
                        for name, keys in cases.items():
                            median = statistics.median(taken[name])
                            foreseen = predicted(args.binary, run, base + keys, rates)
                            same = losses[name] == losses["one after the other"]
                            print(f"  {name:28} {median:7.3f} s  {first / median:5.2f} times  spread {max(taken[name]) / min(taken[name]):.2f}"
                                  f"  predicted {foreseen:7.3f} s  losses {'equal' if same else 'others, as they may be' if name in LOSSY else 'DIFFER'}", flush=True)
                        if args.ddp and zero == "0":
                            seconds = ddp(model, clip, args.steps)
                            print(f"  {'PyTorch DDP':28} {seconds:7.3f} s  {first / seconds:5.2f} times", flush=True)


if __name__ == "__main__":
    main()
