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
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from model import SIZES, Config, Llama, initialize, named  # noqa: E402
from training import ROOT, Answering, Tessera, add_options, parsed  # noqa: E402

RANKS, WARM_UP = 2, 2
MOST_LOSS_APART = 1e-5  # of the loss
# Heads must divide among two ranks: four of 80 channels instead of five of 64.
ROWS = {"10M": SIZES["10M"] | {"heads": 4, "kv_heads": 4}, "44M": SIZES["44M"]}


def write_weights(sizes, folder):
    """A folder as `transformers` saves it, which both systems read."""
    folder.mkdir()
    c = Config(**sizes)
    save_file({name: tensor.clone() for name, tensor in named(initialize(Llama(c), c)).items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": c.hidden, "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads, "num_key_value_heads": c.kv_heads, "intermediate_size": c.ffn, "vocab_size": c.vocab,
        "max_position_embeddings": c.sequence, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
        "tie_word_embeddings": False, "torch_dtype": "float32"}))
    return folder


def write_text(sizes, path):
    """One passage again and again: every sample is the same, in whatever order they are taken."""
    with open(ROOT / "corpus/kjv.txt", "rb") as corpus:
        passage = corpus.read(sizes["sequence"])
    path.write_bytes(passage * 64)
    return path


def systems(binary, size, folder):
    sizes = ROWS[size]
    weights, text = write_weights(sizes, folder / "weights"), write_text(sizes, folder / "text.txt")
    # Two micro-batches of half the size, of which one travels while the other is computed; PyTorch is fastest with one.
    keys = {"tp": RANKS, "sequence_parallel": "true", "opened": "true", "micro_batch": sizes["micro_batch"] // 2}
    ours = Tessera(binary, sizes, keys, folder, WARM_UP, text=text, weights=weights)
    options = {"sizes": sizes, "weights": str(weights / "model.safetensors"), "text": str(text)}
    return ours, Answering([sys.executable, ROOT / "bench/peers/torch_tensor.py", json.dumps(options)], RANKS, WARM_UP)


def check_equal(size, ours, theirs):
    apart = max(abs(a / b - 1) for a, b in zip(ours.losses, theirs.losses))
    if ours.parameters != theirs.parameters or apart > MOST_LOSS_APART:
        sys.exit(f"{size}: not the same computation: {ours.parameters} and {theirs.parameters} parameters, losses\n"
                 f"{ours.losses}\n{theirs.losses[:len(ours.losses)]}")
    return apart


def measure(options, size, folder):
    pair = systems(options.binary, size, folder)
    found, apart = ([], []), 0.0
    for number in range(options.rounds):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            found[which].append(pair[which].run(options.steps))
        apart = max(apart, check_equal(size, *pair))
    for system in pair:
        system.close()
    tokens = ROWS[size]["batch"] * ROWS[size]["sequence"]
    medians = [[statistics.median(r["seconds"]) for r in rounds] for rounds in found]
    out = {"size": size, "sequence": ROWS[size]["sequence"], "most_loss_apart": apart,
           "times_faster": statistics.median(theirs / ours for ours, theirs in zip(*medians))}
    for name, rounds in zip(("tessera", "torch"), found):
        seconds = [s for r in rounds for s in r["seconds"]]
        out[name] = {"tokens_per_second": tokens / statistics.median(seconds), "seconds": seconds,
                     "peak_bytes": max(statistics.median(r["peak_bytes"][rank] for r in rounds) for rank in range(RANKS))}
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", action="append", choices=list(ROWS))
    add_options(parser)
    options = parsed(parser)
    torch.set_num_threads(1)
    reports = []
    for size in options.size or ROWS:
        with tempfile.TemporaryDirectory() as folder:
            reports.append(measure(options, size, pathlib.Path(folder)))
    if options.json:
        print(json.dumps({"rows": reports}))
        return
    print(f"{'':16}{'tokens/s':>17}{'':8}{'peak MiB of a rank':>20}{'losses':>10}")
    print(f"{'model':8}{'tokens':>8}{'ours':>8}{'theirs':>9}{'faster':>8}{'ours':>11}{'theirs':>9}{'apart':>10}")
    for r in reports:
        mib = [r[name]["peak_bytes"] / 2**20 for name in ("tessera", "torch")]
        print(f"{r['size']:8}{r['sequence']:8}{r['tessera']['tokens_per_second']:8.0f}{r['torch']['tokens_per_second']:9.0f}"
              f"{r['times_faster']:8.2f}{mib[0]:11.0f}{mib[1]:9.0f}{r['most_loss_apart']:10.1e}")


if __name__ == "__main__":
    main()
