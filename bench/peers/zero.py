"""Sharded data parallelism on two ranks: Tessera's ZeRO 1, 2, 3 beside DeepSpeed's and PyTorch's FSDP2, in turns.

  .venv/bin/python bench/peers/zero.py [--row zero-3] [--precision fp32] [--rounds 5] [--steps 3] [--sequence 256] [--json]

The same 44M-parameter Llama, a batch of 4 samples as 2 micro-batches a rank, AdamW and clipping, two processes over Gloo, one
thread and one core each; one system runs at a time. A round is a few steps of all systems of a row; the table shows medians of
the steps, and the median over rounds of the peer's step / Tessera's: above 1 Tessera is faster. Peak memory is VmHWM of a rank
over the measured steps, the larger of the two ranks; "model" is that less what the same system holds for a tiny model. All
start from weights drawn alike; if parameters or losses are not alike, the run fails.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import most_load, spread_text, take_turns, times_faster  # noqa: E402
from model import SIZES  # noqa: E402
from training import ROOT, TEXT, Answering, Tessera, add_options, parsed  # noqa: E402

RANKS, BATCH, WARM_UP = 2, 4, 2
MOST_LOSS_APART = 0.12  # of the loss: other weights and samples, drawn alike, and few tokens a step
MOST_PEERS_APART = 1e-3  # the same weights and samples, in fp32
PEERS = {"zero-1": [("deepspeed", 1)], "zero-2": [("deepspeed", 2), ("fsdp2", 2)], "zero-3": [("deepspeed", 3), ("fsdp2", 3)]}


def peer(system, stage, precision, sizes):
    options = {"system": system, "stage": stage, "precision": precision, "sizes": sizes, "text": TEXT}
    return Answering([sys.executable, ROOT / "bench/peers/zero_rank.py", json.dumps(options)], RANKS, WARM_UP)


def systems_of(row, options, sizes, folder):
    """By name, Tessera first."""
    place = pathlib.Path(folder, row)
    place.mkdir(exist_ok=True)
    layout = {"zero": row[-1], "dp_shard": RANKS, "precision": options.precision}
    ours = Tessera(options.binary, sizes, layout, place, WARM_UP)
    return {"tessera": ours} | {system: peer(system, stage, options.precision, sizes) for system, stage in PEERS[row]}


def check_alike(row, systems, precision):
    names = list(systems)
    for one, other in ((a, b) for a in names for b in names if names.index(a) < names.index(b)):
        a, b = systems[one], systems[other]
        apart = max(abs(x / y - 1) for x, y in zip(a.losses, b.losses))
        allowed = MOST_LOSS_APART if one == "tessera" or precision != "fp32" else MOST_PEERS_APART
        if a.parameters != b.parameters or apart > allowed:
            sys.exit(f"{row}: not the same computation: {one} has {a.parameters} parameters and losses {a.losses}, "
                     f"{other} {b.parameters} and {b.losses}")


def measure(row, options, sizes, folder):
    """The results of the rounds of each system."""
    systems = systems_of(row, options, sizes, folder)
    rounds = take_turns(list(systems.values()), options.rounds, lambda system: system.run(options.steps), options.patience)
    found = dict(zip(systems, rounds))
    for system in systems.values():
        system.close()
    if sizes["layers"] > SIZES["tiny"]["layers"]:
        check_alike(row, systems, options.precision)
    return found


def report(row, found, nothing, tokens):
    out = []
    for name, rounds in found.items():
        seconds = statistics.median(s for r in rounds for s in r["seconds"])
        peak = max(statistics.median(r["peak_bytes"][rank] for r in rounds) for rank in range(RANKS))
        out.append({"row": row, "system": name, "step_seconds": seconds, "tokens_per_second": tokens / seconds,
                    "tessera_times_faster": times_faster(found["tessera"], rounds), "load": most_load(found["tessera"], rounds),
                    "peak_bytes": peak, "peak_bytes_of_model": peak - max(nothing[name][-1]["peak_bytes"])})
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", choices=list(PEERS))
    parser.add_argument("--precision", default="fp32", choices=["fp32", "bf16"])
    add_options(parser)
    options = parsed(parser)
    of_batch = {"batch": BATCH, "micro_batch": 1}
    small, large = SIZES["tiny"] | {"vocab": 256} | of_batch, SIZES["44M"] | {"sequence": options.sequence} | of_batch
    once = argparse.Namespace(**vars(options) | {"rounds": 1, "patience": 0})  # for its memory alone
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for row in options.row or PEERS:
            nothing = measure(row, once, small, folder)
            rows += report(row, measure(row, options, large, folder), nothing, BATCH * options.sequence)
    if options.json:
        print(json.dumps({"precision": options.precision, "rows": rows}))
        return
    print(f"{'stage':9}{'system':12}{'tokens/s':>9}{'Tessera faster':>22}{'peak MiB':>10}{'of it the model':>17}{'load':>6}")
    for r in rows:
        print(f"{r['row']:9}{r['system']:12}{r['tokens_per_second']:9.0f}{spread_text(r['tessera_times_faster']):>22}"
              f"{r['peak_bytes'] / 2**20:10.0f}{r['peak_bytes_of_model'] / 2**20:17.0f}{r['load']:6.2f}")


if __name__ == "__main__":
    main()
