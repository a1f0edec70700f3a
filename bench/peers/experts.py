"""Experts shared by two ranks: Tessera beside the same model in PyTorch, in turns. Or experts beside a dense feed-forward part.

  .venv/bin/python bench/peers/experts.py [--precision fp32] [--deepspeed] [--rounds 5] [--steps 5] [--json]
  .venv/bin/python bench/peers/experts.py --layer [--precision fp32] [--rounds 5] [--steps 5] [--json]

The first: a Mixtral of 59.2M parameters (6 layers of 384 channels, 8 experts of 1,024 of which a token takes 2, so that it meets
16.7M), 8 samples of 256 tokens, AdamW and clipping, no loss for balance; two processes over Gloo, one thread and one core
each; attention is data parallel, and each rank has four of the experts. torch_experts.py says how PyTorch computes it, eagerly
and with what can be compiled; deepspeed_experts.py has DeepSpeed's layer. All start from one file of weights and read a text
whose samples are all equal, so their losses must be equal step by step, or the run fails. One system runs at a time. A round is a
few steps of each, the same ones in every round, since loads move as routers learn; the table shows medians of the steps, and the
median over rounds of the peer's step / Tessera's: above 1 Tessera is faster. Loads are nearly even (mixtral.py says why):
load_of_busiest in the JSON, 1.05, is what the rank with most rows has over the mean.

In bf16 systems that round in different places are further apart than in fp32: autocast adds up the branches of blocks in fp32,
Tessera in bf16, and a token whose experts score nearly alike may go to another. So losses may differ by 2e-3 there, not 1e-5.

--layer: Tessera alone on one rank and 4,096 tokens, experts (8 of 1,024, 2 of a token) beside a dense part of 2,048, which has
as many FLOPs. What a feed-forward part takes is the time of a block's forward and backward, which a trace has, less that of a
block with next to none (a width of 8), all three in turns; medians over blocks, steps and rounds. So it counts the router, the
sorting of tokens, the products and all gradients, and not the optimizer, whose work grows with the experts and not with the
tokens; the step, which the table has too, counts all.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torch  # noqa: E402

from harness import most_load, spread, spread_text, take_turns  # noqa: E402
from mixtral import all_bytes, draw  # noqa: E402
from model import Config  # noqa: E402
from training import ROOT, Answering, Tessera, add_options, parsed, steps_of  # noqa: E402
from turns import compared, print_table, write_text, write_weights  # noqa: E402

RANKS, WARM_UP = 2, 2
MOST_LOSS_APART = {"fp32": 1e-5, "bf16": 2e-3}  # of the loss
MOST_APART_FROM_DEEPSPEED = 1e-3  # deepspeed_experts.py says why
SIZES = dict(layers=6, hidden=384, heads=6, kv_heads=2, ffn=1024, vocab=256, sequence=256, batch=8, micro_batch=4)
EXPERTS = dict(experts=8, experts_per_token=2)
OF_LAYER = SIZES | dict(layers=3, batch=16, micro_batch=16)


def peers_of(options, precision, told):
    def peer(script, **more):
        command = [sys.executable, ROOT / "bench/peers" / script, json.dumps(told | more)]
        return Answering(command, RANKS, WARM_UP, restarts=True)

    most = MOST_LOSS_APART[precision]
    out = {name: (peer("torch_experts.py", compile=name == "compiled"), most) for name in ("eager", "compiled")}
    if options.deepspeed and precision == "fp32":
        out["DeepSpeed"] = peer("deepspeed_experts.py"), MOST_APART_FROM_DEEPSPEED
    return out


def write_mixtral(sizes, folder):
    c, (count, chosen) = Config(**sizes), EXPERTS.values()
    return write_weights(folder, c, draw(c, count), architectures=["MixtralForCausalLM"], model_type="mixtral",
                         num_local_experts=count, num_experts_per_tok=chosen)


def load_of_busiest(folder):
    """The rows of the rank that has most of them over the mean of all ranks: of each layer of each measured step, their mean."""
    loads = [layer["tokens"] for step in steps_of(folder)[WARM_UP:] for layer in step["experts"]]
    held = EXPERTS["experts"] // RANKS
    return statistics.mean(max(sum(load[first:first + held]) for first in range(0, len(load), held)) * RANKS / sum(load)
                           for load in loads)


def shared(options, precision, folder):
    weights, text = write_mixtral(SIZES, folder / "weights"), write_text(all_bytes(SIZES["sequence"]), folder / "text")
    sizes = SIZES | EXPERTS
    ours = Tessera(options.binary, sizes, {"dp": RANKS, "ep": RANKS, "precision": precision}, folder, WARM_UP, text, weights)
    told = {"sizes": sizes, "precision": precision, "weights": str(weights / "model.safetensors"), "text": str(text)}
    rows = compared(precision, ours, peers_of(options, precision, told), options, sizes["batch"] * sizes["sequence"])
    facts = {"precision": precision, "parameters": ours.parameters, "load_of_busiest": load_of_busiest(folder)}
    return [facts | row for row in rows]


def blocks_of(trace):
    """The seconds of each block of each step after the warm-up, forward and backward together."""
    seconds = {}
    for event in json.loads(trace.read_text())["traceEvents"]:
        if event["ph"] == "X" and event["args"].get("what") in ("forward", "backward") and " block." in event["name"]:
            block = event["args"]["step"], event["args"]["segment"]
            seconds[block] = seconds.get(block, 0) + event["dur"] / 1e6
    return [s for (step, _), s in seconds.items() if step > WARM_UP]


def of_a_layer(options, precision, folder):
    kinds = {"experts": OF_LAYER | EXPERTS, "dense": OF_LAYER | {"ffn": EXPERTS["experts_per_token"] * OF_LAYER["ffn"]},
             "next to none": OF_LAYER | {"ffn": 8}}
    weights, text = write_mixtral(OF_LAYER, folder / "weights"), write_text(all_bytes(OF_LAYER["sequence"]), folder / "text")
    systems = []
    for kind, sizes in kinds.items():
        (folder / kind).mkdir()
        systems.append(Tessera(options.binary, sizes, {"precision": precision}, folder / kind, WARM_UP, text,
                               weights if kind == "experts" else None))

    def run(system):
        trace = pathlib.Path(system.folder, "trace.json")
        return system.run(options.steps, ["--trace", trace]) | {"blocks": blocks_of(trace)}

    found = dict(zip(kinds, take_turns(systems, options.rounds, run, options.patience)))
    blocks = {kind: [statistics.median(r["blocks"]) for r in rounds] for kind, rounds in found.items()}
    parts = {kind: [a - b for a, b in zip(blocks[kind], blocks["next to none"])] for kind in ("experts", "dense")}
    steps = {kind: [statistics.median(r["seconds"]) for r in rounds] for kind, rounds in found.items()}
    return [{"precision": precision, "tokens": OF_LAYER["batch"] * OF_LAYER["sequence"],
             "parameters": {kind: system.parameters for kind, system in zip(kinds, systems)},
             "block_seconds": blocks, "feed_forward_seconds": parts, "step_seconds": steps,
             "experts_to_dense": spread(a / b for a, b in zip(parts["experts"], parts["dense"])),
             "load": most_load(*found.values())}]


def print_layers(rows):
    print(f"{'precision':11}{'feed-forward':14}{'parameters':>11}{'step ms':>9}{'block ms':>10}{'of it feed-forward':>20}"
          f"{'to dense':>22}{'load':>6}")
    for r in rows:
        for kind in r["block_seconds"]:
            step, block, part = (f"{1e3 * statistics.median(r[what][kind]):.0f}" if kind in r[what] else ""
                                 for what in ("step_seconds", "block_seconds", "feed_forward_seconds"))
            ratio = f"{spread_text(r['experts_to_dense']):>22}{r['load']:6.2f}" if kind == "experts" else ""
            print(f"{r['precision']:11}{kind:14}{r['parameters'][kind] / 1e6:10.1f}M{step:>9}{block:>10}{part:>20}{ratio}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layer", action="store_true", help="experts beside a dense part instead")
    parser.add_argument("--deepspeed", action="store_true", help="beside DeepSpeed too, in fp32")
    parser.add_argument("--precision", action="append", choices=list(MOST_LOSS_APART))
    add_options(parser)
    options = parsed(parser)
    torch.set_num_threads(1)
    rows = []
    for precision in options.precision or MOST_LOSS_APART:
        with tempfile.TemporaryDirectory() as folder:
            rows += (of_a_layer if options.layer else shared)(options, precision, pathlib.Path(folder))
    if options.json:
        print(json.dumps({"rows": rows}))
    elif options.layer:
        print_layers(rows)
    else:
        print_table(rows, ["precision", "peer"])


if __name__ == "__main__":
    main()
