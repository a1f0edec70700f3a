"""Trains six small runs with a loop of its own in PyTorch, fp64, ranks as Gloo processes, for reference_loop_process_test.cpp
to compare with: which bytes of the corpus come in which order, warm-up and decay of the learning rate, the mean over uneven
batches, clipping, optimizers. What it knows of Tessera is what the documents say.

  loop.py FOLDER

FOLDER/corpus.txt                  the text
FOLDER/<case>/model.safetensors    weights to start from, fp32
FOLDER/<case>/keys                 the keys of the run for Tessera, and how many processes it takes
FOLDER/<case>/steps                a line a step: loss, gradient norm, learning rate
"""
import math
import os
import sys

import plain
import torch
import torch._dynamo  # which every optimizer imports: here once, before ranks are forked
import torch.distributed as dist
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

LAYERS, HIDDEN, HEADS, KV_HEADS, FFN, VOCAB, SEQUENCE = 2, 32, 4, 2, 48, 256, 16
USUAL = dict(family="llama", tied=False, ranks=1, batch=6, seed=1, steps=12, optimizer="adamw", rate=1e-2, least=1e-4, warmup=4,
             decay="cosine", clip=0.5, weight_decay=0.1, momentum=0.9, document_end="", keys=[], procs=1)
CASES = {  # what differs from the usual; `keys` and `procs` are Tessera's layout, `ranks` are the processes of this loop
    "alone": dict(keys=["layout.micro_batch=4"]),
    "linear": dict(ranks=2, tied=True, decay="linear", seed=7, keys=["layout.micro_batch=2", "layout.dp_replicate=2"], procs=2),
    # 61 samples an epoch: the order of a second one; seven samples on three ranks
    "wsd": dict(ranks=3, batch=7, decay="wsd", keys=["layout.micro_batch=1", "layout.dp_shard=3", "layout.zero=3"], procs=3),
    "sgd": dict(family="gpt2", ranks=2, optimizer="sgd", decay="constant", rate=0.1,
                keys=["layout.micro_batch=3", "layout.pp=2", "layout.schedule=zb-h1"], procs=2),
    "documents": dict(ranks=2, document_end="e", batch=8, keys=["layout.micro_batch=2", "layout.cp=2"], procs=2),
    "gpt2": dict(family="gpt2", ranks=4, tied=True, batch=9, warmup=0,
                 keys=["layout.micro_batch=1", "layout.tp=2", "layout.dp_shard=2", "layout.zero=1"], procs=4),
}
MASK = 0xFFFFFFFF


def philox(counter, key):  # Salmon et al. 2011, ten rounds
    c, k = list(counter), list(key)
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 & MASK, (p0 >> 32) ^ c[3] ^ k[1], p0 & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return c


def random_bits(seed, stream, index):
    c = philox((index & MASK, index >> 32, stream & MASK, stream >> 32), (seed & MASK, seed >> 32))
    return c[0] << 32 | c[1]


def permuted(index, size, seed, epoch):  # a Feistel network of six rounds, walked until it lands inside
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    while True:
        left, right = index >> half, index & mask
        for turn in range(6):
            left, right = right, left ^ (random_bits(seed, epoch ^ turn << 56, right) & mask)
        index = left << half | right
        if index < size:
            return index


def window(text, sample, seed):  # the bytes of a sample and the one after them
    size = (len(text) - 1) // SEQUENCE
    at = permuted(sample % size, size, seed, sample // size) * SEQUENCE
    return torch.tensor(list(text[at:at + SEQUENCE + 1]))


def learning_rate(c, step):
    if step < c["warmup"]:
        return c["rate"] * (step + 1) / c["warmup"]
    done = (step - c["warmup"]) / (c["steps"] - c["warmup"])
    if c["decay"] == "linear":
        return c["rate"] + (c["least"] - c["rate"]) * done
    if c["decay"] == "cosine":
        return c["least"] + (c["rate"] - c["least"]) * (1 + math.cos(math.pi * done)) / 2
    if c["decay"] == "wsd":  # a last fifth
        tail = c["steps"] // 5
        return c["rate"] + (c["least"] - c["rate"]) * max(0, step - (c["steps"] - tail)) / tail
    return c["rate"]


def weights(c):
    torch.manual_seed(3)
    matrix = lambda *shape: 0.2 * torch.randn(*shape)
    vector = lambda size, mean=0.0: mean + 0.3 * torch.randn(size)
    w = {}
    if c["family"] == "llama":
        key = HIDDEN // HEADS * KV_HEADS
        w["model.embed_tokens.weight"] = matrix(VOCAB, HIDDEN)
        for i in range(LAYERS):
            at = f"model.layers.{i}."
            for n, size in (("q", HIDDEN), ("k", key), ("v", key), ("o", HIDDEN)):
                w[f"{at}self_attn.{n}_proj.weight"] = matrix(size, HIDDEN)
            w |= {at + "mlp.gate_proj.weight": matrix(FFN, HIDDEN), at + "mlp.up_proj.weight": matrix(FFN, HIDDEN),
                  at + "mlp.down_proj.weight": matrix(HIDDEN, FFN), at + "input_layernorm.weight": vector(HIDDEN, 1),
                  at + "post_attention_layernorm.weight": vector(HIDDEN, 1)}
        w["model.norm.weight"] = vector(HIDDEN, 1)
    else:
        w |= {"transformer.wte.weight": matrix(VOCAB, HIDDEN), "transformer.wpe.weight": matrix(SEQUENCE, HIDDEN)}
        for i in range(LAYERS):
            for n, size, out in (("attn.c_attn", HIDDEN, 3 * HIDDEN), ("attn.c_proj", HIDDEN, HIDDEN),
                                 ("mlp.c_fc", HIDDEN, FFN), ("mlp.c_proj", FFN, HIDDEN)):
                w |= {f"transformer.h.{i}.{n}.weight": matrix(size, out), f"transformer.h.{i}.{n}.bias": vector(out)}
        for n in [f"h.{i}.ln_{j}" for i in range(LAYERS) for j in (1, 2)] + ["ln_f"]:
            w |= {f"transformer.{n}.weight": vector(HIDDEN, 1), f"transformer.{n}.bias": vector(HIDDEN)}
    if not c["tied"]:
        w["lm_head.weight"] = matrix(VOCAB, HIDDEN)
    return w


def loss_sum(c, w, batch):  # of all targets that count, and how many they are
    ids, targets, seen = batch[:, :-1], batch[:, 1:].clone(), None
    if c["document_end"]:
        ends = ids == ord(c["document_end"])
        targets[ends] = -1
        document = ends.cumsum(1) - ends.long()
        seen = (document[:, :, None] == document[:, None, :]).tril()
    logits = (plain.llama_logits(w, ids, LAYERS, HEADS, KV_HEADS, plain.frequencies(10000.0, HIDDEN // HEADS), seen=seen)
              if c["family"] == "llama" else plain.gpt2_logits(w, ids, LAYERS, HEADS, seen=seen))
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum"), (targets >= 0).sum()


def optimizer_of(c, w):
    groups = [{"params": [p for p in w.values() if p.dim() > 1], "weight_decay": c["weight_decay"]},
              {"params": [p for p in w.values() if p.dim() == 1], "weight_decay": 0.0}]
    if c["optimizer"] == "sgd":
        return torch.optim.SGD(groups, lr=1, momentum=c["momentum"])
    return torch.optim.AdamW(groups, lr=1, betas=(0.9, 0.95), eps=1e-8)


def train(c, rank, folder, text):
    w = {n: p.double().requires_grad_() for n, p in load_file(f"{folder}/model.safetensors").items()}
    optimizer, lines = optimizer_of(c, w), []
    for step in range(c["steps"]):
        samples = range(step * c["batch"], (step + 1) * c["batch"])
        mine = [window(text, s, c["seed"]) for s in samples if s % c["ranks"] == rank]
        optimizer.zero_grad(set_to_none=False)
        total, tokens = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.int64)
        if mine:
            total, tokens = loss_sum(c, w, torch.stack(mine))
            total.backward()
        for p in w.values():
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        total = total.detach().clone()
        for t in (total, tokens, *(p.grad for p in w.values())):
            dist.all_reduce(t)
        for p in w.values():
            p.grad /= tokens
        norm = torch.nn.utils.clip_grad_norm_(w.values(), c["clip"])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(c, step)
        optimizer.step()
        lines.append(f"{(total / tokens).item()!r} {norm.item()!r} {learning_rate(c, step)!r}\n")
    if rank == 0:
        with open(f"{folder}/steps", "w") as out:
            out.writelines(lines)


def keys(c, folder, text):
    named = {"model.family": c["family"], "model.layers": LAYERS, "model.hidden": HIDDEN, "model.heads": HEADS,
             "model.kv_heads": KV_HEADS if c["family"] == "llama" else HEADS, "model.ffn": FFN, "model.vocab": VOCAB,
             "model.sequence": SEQUENCE, "model.tied_embeddings": str(c["tied"]).lower(),
             "model.weights": f"{folder}/model.safetensors", "data.path": text, "data.seed": c["seed"],
             "training.steps": c["steps"], "training.global_batch": c["batch"], "training.optimizer": c["optimizer"],
             "training.learning_rate": c["rate"], "training.min_learning_rate": c["least"], "training.decay": c["decay"],
             "training.warmup_steps": c["warmup"], "training.clip_norm": c["clip"],
             "training.weight_decay": c["weight_decay"], "layout.precision": "fp64"}
    if c["optimizer"] == "sgd":
        named["training.momentum"] = c["momentum"]
    if c["document_end"]:
        named["data.document_end"] = c["document_end"]
    return [f"{k}={v}" for k, v in named.items()] + c["keys"]


def run_rank(rank, ranks, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting-{ranks}", rank=rank, world_size=ranks)
    with open(f"{folder}/corpus.txt", "rb") as file:
        text = file.read()
    for name, special in CASES.items():
        if (USUAL | special)["ranks"] == ranks:
            train(USUAL | special, rank, f"{folder}/{name}", text)
    dist.destroy_process_group()


def main(folder):
    with open("corpus/kjv.txt", "rb") as source, open(f"{folder}/corpus.txt", "wb") as out:
        out.write(source.read(61 * SEQUENCE + 9))
    for name, special in CASES.items():
        c = USUAL | special
        os.mkdir(f"{folder}/{name}")
        save_file(weights(c), f"{folder}/{name}/model.safetensors")
        with open(f"{folder}/{name}/keys", "w") as out:
            out.write(" ".join(keys(c, f"{folder}/{name}", f"{folder}/corpus.txt")) + f"\n{c['procs']}\n")
    for ranks in sorted({(USUAL | special)["ranks"] for special in CASES.values()}):
        torch.multiprocessing.start_processes(run_rank, (ranks, folder), ranks, start_method="fork")


if __name__ == "__main__":
    main(sys.argv[1])
