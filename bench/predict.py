"""How well is the time of a step predicted? Op costs from short traced runs, a simulation of each layout, then the layouts measured.

  .venv/bin/python bench/predict.py [--rounds 3] [--steps 3] [--layout "1f1b, 2"] [--json]

A 10M-parameter Llama in fp32, 16 samples a step, on one or two ranks (processes, Gloo, one core each). The profile is taken with as
many ranks as the layout has, for two busy cores slow each other: data-parallel runs for whole ops, zb-h1 for the halves of the
backward and for transfers. No run of the profile is one of the layouts; it prices their ops, and `tessera simulate --costs-from`
plays their programs. As the machine's speed drifts, each round takes a part of the profile and then measures every layout once;
noise is how far equal runs of different rounds lie apart.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent / "peers"))
from training import ENVIRONMENT, ROOT, train  # noqa: E402

RUN_FILE = ROOT / "examples/kjv-small.toml"


def pipeline(schedule, micro, virtual=1, stages=""):
    keys = {"layout.pp": 2, "layout.schedule": schedule, "layout.micro_batch": micro, "layout.virtual_stages": virtual}
    return keys | ({"layout.stages": stages} if stages else {})


def replicas(count, micro):
    return {"layout.dp_replicate": count, "layout.micro_batch": micro}


# Name: schedule or replicas, samples of a micro-batch, virtual stages, units of the stages (embedding, 8 blocks, head).
LAYOUTS = {
    "one rank, 2": replicas(1, 2), "one rank, 8": replicas(1, 8),
    "gpipe, 2": pipeline("gpipe", 2), "gpipe, 8": pipeline("gpipe", 8),
    "1f1b, 1": pipeline("1f1b", 1), "1f1b, 2": pipeline("1f1b", 2), "1f1b, 4": pipeline("1f1b", 4),
    "1f1b, 2, 3+7 units": pipeline("1f1b", 2, 1, "3,7"), "1f1b, 2, 8+2 units": pipeline("1f1b", 2, 1, "8,2"),
    "interleaved, 2, v 2": pipeline("interleaved", 2, 2), "interleaved, 2, v 4": pipeline("interleaved", 2, 4),
    "interleaved, 4, v 2": pipeline("interleaved", 4, 2), "bfs, 2, v 2": pipeline("bfs", 2, 2),
    "zb-h1, 1": pipeline("zb-h1", 1), "zb-h1, 4": pipeline("zb-h1", 4), "zb-v, 2": pipeline("zb-v", 2, 2),
}
PROFILES = {
    1: [replicas(1, 1), replicas(1, 4)],
    2: [replicas(2, 1), replicas(2, 2), replicas(2, 4), replicas(2, 8), pipeline("zb-h1", 2)],
}


def ranks_of(keys):
    return keys.get("layout.pp", 1) * keys.get("layout.dp_replicate", 1)


def profiled(binary, folder, steps, number):
    """For one and for two ranks: traces of short runs."""
    traces = {}
    for ranks, runs in PROFILES.items():
        traces[ranks] = [pathlib.Path(folder, f"{ranks}-{number}-{i}.json") for i in range(len(runs))]
        for keys, trace in zip(runs, traces[ranks]):
            train(binary, RUN_FILE, keys, folder, steps, warm_up=1, more=["--trace", trace])
    return traces


def predicted(binary, keys, traces):
    command = [binary, "simulate", RUN_FILE, *(f"{key}={value}" for key, value in keys.items()), "--json",
               *(word for trace in traces for word in ("--costs-from", trace))]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)["step_seconds"]


def rounds_of(binary, layouts, folder, rounds, steps):
    """Traces by number of ranks, and by layout the median step of each round."""
    traces, found = {ranks: [] for ranks in PROFILES}, {name: [] for name in layouts}
    for number in range(rounds):
        for ranks, more in profiled(binary, folder, steps, number).items():
            traces[ranks] += more
        for name, keys in layouts.items():
            found[name].append(statistics.median(train(binary, RUN_FILE, keys, folder, steps, warm_up=1)["seconds"]))
    return traces, found


def ranks_in(values):
    order = sorted(range(len(values)), key=values.__getitem__)
    return [order.index(i) for i in range(len(values))]


def spearman(a, b):
    """Of values without ties."""
    n = len(a)
    return 1 - 6 * sum((x - y) ** 2 for x, y in zip(ranks_in(a), ranks_in(b))) / (n * (n * n - 1)) if n > 1 else 1.0


def apart(rounds):
    """How far equal runs lie apart, of their median."""
    return (max(rounds) - min(rounds)) / statistics.median(rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3, help="steps of a run, after one to warm up")
    parser.add_argument("--layout", action="append", choices=list(LAYOUTS))
    parser.add_argument("--build", default="build/release", help="folder of tessera")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    binary = ROOT / options.build / "tessera"
    layouts = {name: LAYOUTS[name] for name in options.layout or LAYOUTS}
    with tempfile.TemporaryDirectory() as folder:
        traces, found = rounds_of(binary, layouts, folder, options.rounds, options.steps)
        predictions = {name: predicted(binary, keys, traces[ranks_of(keys)]) for name, keys in layouts.items()}
    rows = [{"layout": name, "predicted_seconds": predictions[name], "measured_seconds": statistics.median(found[name]),
             "rounds": found[name], "error": predictions[name] / statistics.median(found[name]) - 1} for name in layouts]
    both = [[row[key] for row in rows] for key in ("predicted_seconds", "measured_seconds")]
    result = {"rows": rows, "median_error": statistics.median(abs(row["error"]) for row in rows), "spearman": spearman(*both),
              "slowest_over_fastest": max(both[1]) / min(both[1]), "noise": statistics.median(map(apart, found.values()))}
    if options.json:
        print(json.dumps(result))
        return
    print(f"{'layout, samples of a micro-batch':34}{'predicted s':>12}{'measured s':>12}{'error':>8}{'equal runs apart':>18}")
    for row in rows:
        print(f"{row['layout']:34}{row['predicted_seconds']:12.3f}{row['measured_seconds']:12.3f}{row['error']:8.1%}"
              f"{apart(row['rounds']):18.1%}")
    print(f"median error {result['median_error']:.1%}, Spearman {result['spearman']:.2f}, slowest / fastest "
          f"{result['slowest_over_fastest']:.2f}, equal runs {result['noise']:.1%} apart (median)")


if __name__ == "__main__":
    main()
