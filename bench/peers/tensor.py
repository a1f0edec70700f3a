"""Tensor parallelism on two ranks: Tessera beside PyTorch's DTensor, both with sequence parallelism, in turns.

  .venv/bin/python bench/peers/tensor.py [--size 10M] [--rounds 5] [--steps 5] [--json]

The same Llama in fp32 (10M parameters at 256 tokens, 44M at 512), AdamW and clipping, two processes over Gloo, one thread and
one core each; one system runs at a time. Tessera's blocks are opened. Both start from one file of weights and read a text whose
samples are all equal, so their losses must be equal step by step, or the run fails. A round is a few steps of both; the table
shows medians of the steps, and the median over rounds of PyTorch's step / Tessera's: above 1 Tessera is faster.
"""
import argparse
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torch  # noqa: E402

from model import SIZES, Config, Llama, initialize, named  # noqa: E402
from training import ROOT, Answering, Tessera, add_options, parsed  # noqa: E402
from turns import compared, first_words, print_table, write_text, write_weights  # noqa: E402

RANKS, WARM_UP = 2, 2
MOST_LOSS_APART = 1e-5  # of the loss
# Heads must divide among two ranks: four of 80 channels instead of five of 64.
ROWS = {"10M": SIZES["10M"] | {"heads": 4, "kv_heads": 4}, "44M": SIZES["44M"]}


def systems(binary, size, folder):
    sizes = ROWS[size]
    c = Config(**sizes)
    weights = write_weights(folder / "weights", c, named(initialize(Llama(c), c)), architectures=["LlamaForCausalLM"],
                            model_type="llama")
    text = write_text(first_words(c.sequence), folder / "text.txt")
    # Two micro-batches of half the size, of which one travels while the other is computed; PyTorch is fastest with one.
    keys = {"tp": RANKS, "sequence_parallel": "true", "opened": "true", "micro_batch": sizes["micro_batch"] // 2}
    ours = Tessera(binary, sizes, keys, folder, WARM_UP, text=text, weights=weights)
    options = {"sizes": sizes, "weights": str(weights / "model.safetensors"), "text": str(text)}
    theirs = Answering([sys.executable, ROOT / "bench/peers/torch_tensor.py", json.dumps(options)], RANKS, WARM_UP)
    return ours, {"DTensor": (theirs, MOST_LOSS_APART)}


def measure(options, size, folder):
    sizes = ROWS[size]
    rows = compared(size, *systems(options.binary, size, folder), options, sizes["batch"] * sizes["sequence"])
    return [{"size": size, "sequence": sizes["sequence"]} | row for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", action="append", choices=list(ROWS))
    add_options(parser)
    options = parsed(parser)
    torch.set_num_threads(1)
    rows = []
    for size in options.size or ROWS:
        with tempfile.TemporaryDirectory() as folder:
            rows += measure(options, size, pathlib.Path(folder))
    if options.json:
        print(json.dumps({"rows": rows}))
        return
    print_table(rows, ["size", "sequence"])


if __name__ == "__main__":
    main()
