"""Weights of a Mixtral under the names of `transformers`: drawn, and read by a rank that has some of the experts.

Where nothing keeps loads even, they are as even as in a training that does so if tokens differ and are the most of what routers
see: the text is all bytes in some order, and the embedding is drawn wide.
"""
import random

import torch
from safetensors import safe_open

from model import Config, Llama, initialize, named


def all_bytes(sequence):
    """As many bytes, each as often as any other, in an order that is always the same."""
    out = [i % 256 for i in range(sequence)]
    random.Random(1).shuffle(out)
    return bytes(out)


def draw(c, experts):
    """As model.py draws, but for the experts and the width of the embedding."""
    out = {name: tensor for name, tensor in named(initialize(Llama(c), c)).items() if ".mlp." not in name}
    out["model.embed_tokens.weight"] *= 50
    torch.manual_seed(1)
    for layer in range(c.layers):
        part = f"model.layers.{layer}.block_sparse_moe."
        out[part + "gate.weight"] = 0.02 * torch.randn(experts, c.hidden)
        for e in range(experts):
            out |= {f"{part}experts.{e}.{name}.weight": 0.02 * torch.randn(c.ffn, c.hidden) for name in ("w1", "w3")}
            out[f"{part}experts.{e}.w2.weight"] = 0.02 / (2 * c.layers) ** 0.5 * torch.randn(c.hidden, c.ffn)
    return out


def decoder(sizes, feed_forward):
    """The decoder of model.py with feed_forward(config, experts, experts of a token) in each block, and its config."""
    sizes = dict(sizes)
    experts, chosen = sizes.pop("experts"), sizes.pop("experts_per_token")
    c = Config(**sizes)
    model = Llama(c)
    for block in model.blocks:
        block.feed_forward = feed_forward(c, experts, chosen)
    return model, c


@torch.no_grad()
def load(model, path, first, parts_of):
    """parts_of(feed-forward part): its router, and of each of its experts, the first of which has the number `first`, the gate,
    up and down matrices."""
    with safe_open(path, "pt") as file:
        def copy(parameter, name):
            parameter.copy_(file.get_tensor(name + ".weight"))

        copy(model.embedding.weight, "model.embed_tokens")
        copy(model.norm.weight, "model.norm")
        copy(model.head.weight, "lm_head")
        for i, block in enumerate(model.blocks):
            a, layer = block.attention, f"model.layers.{i}."
            copy(block.norm1.weight, layer + "input_layernorm")
            copy(block.norm2.weight, layer + "post_attention_layernorm")
            for part, name in ((a.q, "q"), (a.k, "k"), (a.v, "v"), (a.out, "o")):
                copy(part.weight, f"{layer}self_attn.{name}_proj")
            router, experts = parts_of(block.feed_forward)
            copy(router, layer + "block_sparse_moe.gate")
            for number, matrices in enumerate(experts, first):
                for matrix, name in zip(matrices, ("w1", "w3", "w2")):
                    copy(matrix, f"{layer}block_sparse_moe.experts.{number}.{name}")


def adamw(model):
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1]},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def samples(path, sequence, count):
    """Tokens and targets, each sample the same (turns.write_text)."""
    with open(path, "rb") as file:
        text = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    return [text[at:at + sequence].repeat(count, 1) for at in (0, 1)]
