"""Tessera and its peers in turns, on the same weights and samples: if losses are not equal step by step, the run fails."""
import json
import statistics
import sys

from safetensors.torch import save_file

from harness import most_load, spread_text, take_turns, times_faster
from training import ROOT


def write_weights(folder, c, tensors, **kind):
    """A folder as `transformers` saves it, which all systems read."""
    folder.mkdir()
    save_file({name: tensor.clone() for name, tensor in tensors.items()}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({
        "hidden_size": c.hidden, "num_hidden_layers": c.layers, "num_attention_heads": c.heads, "num_key_value_heads": c.kv_heads,
        "intermediate_size": c.ffn, "vocab_size": c.vocab, "max_position_embeddings": c.sequence, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False, "torch_dtype": "float32"} | kind))
    return folder


def first_words(sequence):
    with open(ROOT / "corpus/kjv.txt", "rb") as corpus:
        return corpus.read(sequence)


def write_text(passage, path):
    """One passage again and again: if it is as long as a sample, all are the same, in whatever order they are taken."""
    path.write_bytes(passage * 64)
    return path


def loss_apart(name, ours, theirs, most):
    """How far losses are apart, as a share of the loss."""
    apart = max(abs(a / b - 1) for a, b in zip(ours.losses, theirs.losses))
    if ours.parameters != theirs.parameters or apart > most:
        sys.exit(f"{name}: not the same computation: {ours.parameters} and {theirs.parameters} parameters, losses\n"
                 f"{ours.losses}\n{theirs.losses[:len(ours.losses)]}")
    return apart


def compared(name, ours, peers, options, tokens):
    """Rounds of Tessera and of peers (by name the system, and how far its losses may be apart), `tokens` a step. A row for each
    peer: speed and memory of both, and the median over rounds of theirs / ours."""
    apart = {peer: 0.0 for peer in peers}

    def check():
        for peer, (theirs, most) in peers.items():
            apart[peer] = max(apart[peer], loss_apart(f"{name}, {peer}", ours, theirs, most))

    systems = [ours] + [theirs for theirs, _ in peers.values()]
    found = take_turns(systems, options.rounds, lambda system: system.run(options.steps), options.patience, check)
    for system in systems:
        system.close()
    return [{"peer": peer, "tessera": facts(found[0], tokens), "theirs": facts(rounds, tokens), "most_loss_apart": apart[peer],
             "times_faster": times_faster(found[0], rounds), "load": most_load(found[0], rounds)}
            for peer, rounds in zip(peers, found[1:])]


def facts(rounds, tokens):
    seconds = [s for r in rounds for s in r["seconds"]]
    return {"tokens_per_second": tokens / statistics.median(seconds), "seconds": seconds,
            "peak_bytes": max(statistics.median(peaks) for peaks in zip(*(r["peak_bytes"] for r in rounds)))}


def print_table(rows, keys):
    """These keys of each row, then what `compared` found."""
    def line(cells):
        return "".join(f"{cell:<11}" for cell in cells)

    print(f"{line([''] * len(keys))}{'tokens/s':>17}{'':22}{'peak MiB of a rank':>20}{'losses':>10}")
    print(f"{line(keys)}{'ours':>8}{'theirs':>9}{'faster':>22}{'ours':>11}{'theirs':>9}{'apart':>10}{'load':>6}")
    for r in rows:
        ours, theirs = r["tessera"], r["theirs"]
        print(f"{line([r[key] for key in keys])}{ours['tokens_per_second']:8.0f}{theirs['tokens_per_second']:9.0f}"
              f"{spread_text(r['times_faster']):>22}{ours['peak_bytes'] / 2**20:11.0f}{theirs['peak_bytes'] / 2**20:9.0f}"
              f"{r['most_loss_apart']:10.1e}{r['load']:6.2f}")
