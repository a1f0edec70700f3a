"""The same Llama decoder in plain PyTorch, one nn.Linear per matrix, as a user would write it.

Starts from the same weights and tokens as tessera/bare, so that equal losses prove that the same thing is measured.
"""
import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    sequence: int
    batch: int
    micro_batch: int
    precision: str = "fp32"


SIZES = {
    "10M": dict(layers=8, hidden=320, heads=5, kv_heads=5, ffn=864, vocab=256, sequence=256, batch=8, micro_batch=8),
    "44M": dict(layers=12, hidden=512, heads=8, kv_heads=4, ffn=1408, vocab=8192, sequence=512, batch=2, micro_batch=2),
    "tiny": dict(layers=2, hidden=64, heads=4, kv_heads=2, ffn=176, vocab=64, sequence=32, batch=3, micro_batch=2),
}


def rope_tables(c):
    dim = c.hidden // c.heads
    frequency = 10000.0 ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    angle = torch.outer(torch.arange(c.sequence, dtype=torch.float32), frequency)
    both = torch.cat((angle, angle), -1)
    return both.cos(), both.sin()


def rotated(x, cos, sin):  # x [batch, heads, sequence, head dim]
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.dim = c, c.hidden // c.heads
        self.q = nn.Linear(c.hidden, c.heads * self.dim, bias=False)
        self.k = nn.Linear(c.hidden, c.kv_heads * self.dim, bias=False)
        self.v = nn.Linear(c.hidden, c.kv_heads * self.dim, bias=False)
        self.out = nn.Linear(c.hidden, c.hidden, bias=False)

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        q, k, v = (w(x).view(b, s, -1, self.dim).transpose(1, 2) for w in (self.q, self.k, self.v))
        q, k = rotated(q, cos, sin), rotated(k, cos, sin)
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.c.heads != self.c.kv_heads)
        return self.out(o.transpose(1, 2).reshape(b, s, -1))


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate = nn.Linear(c.hidden, c.ffn, bias=False)
        self.up = nn.Linear(c.hidden, c.ffn, bias=False)
        self.down = nn.Linear(c.ffn, c.hidden, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm1, self.attention = nn.RMSNorm(c.hidden, eps=1e-5), Attention(c)
        self.norm2, self.feed_forward = nn.RMSNorm(c.hidden, eps=1e-5), FeedForward(c)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        return x + self.feed_forward(self.norm2(x))


class Llama(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embedding = nn.Embedding(c.vocab, c.hidden)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = nn.RMSNorm(c.hidden, eps=1e-5)
        self.head = nn.Linear(c.hidden, c.vocab, bias=False)
        for name, table in zip(("cos", "sin"), rope_tables(c)):
            self.register_buffer(name, table, persistent=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        cos, sin = self.cos, self.sin
        if torch.is_autocast_enabled("cpu"):  # or rope would lift q and k to fp32
            cos, sin = cos.bfloat16(), sin.bfloat16()
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


@torch.no_grad()
def initialize(model, c):
    """The numbers of tessera/bare/bare_step_torch.cpp: its tensors, fused ones included, in its order."""
    fused = [([model.embedding], 0.02)]
    residual = 0.02 / math.sqrt(2 * c.layers)
    for b in model.blocks:
        a, f = b.attention, b.feed_forward
        fused += [([b.norm1], None), ([a.q, a.k, a.v], 0.02), ([a.out], residual)]
        fused += [([b.norm2], None), ([f.gate], 0.02), ([f.up], 0.02), ([f.down], residual)]
    fused += [([model.norm], None), ([model.head], 0.02)]
    for index, (modules, deviation) in enumerate(fused):
        if deviation is None:
            continue  # norms start at one
        size = sum(m.weight.numel() for m in modules)
        i = torch.arange(size, dtype=torch.float64)
        values = (i * i * 0.7548776662466927 + index).sin().mul(deviation * math.sqrt(2.0)).float()
        for m, part in zip(modules, values.split([m.weight.numel() for m in modules])):
            m.weight.copy_(part.view_as(m.weight))
    return model


def named(model):
    """Its parameters under the names of `transformers`."""
    out = {"model.embed_tokens.weight": model.embedding.weight, "model.norm.weight": model.norm.weight,
           "lm_head.weight": model.head.weight}
    for i, b in enumerate(model.blocks):
        a, f = b.attention, b.feed_forward
        parts = {"input_layernorm": b.norm1, "post_attention_layernorm": b.norm2, "self_attn.q_proj": a.q, "self_attn.k_proj": a.k,
                 "self_attn.v_proj": a.v, "self_attn.o_proj": a.out, "mlp.gate_proj": f.gate, "mlp.up_proj": f.up,
                 "mlp.down_proj": f.down}
        out |= {f"model.layers.{i}.{name}.weight": part.weight for name, part in parts.items()}
    return {name: parameter.detach() for name, parameter in out.items()}


@torch.no_grad()
def load_named(model, tensors):
    for name, parameter in named(model).items():
        parameter.copy_(tensors[name])


def token_stream(size, vocab):
    x, out = 1, []
    for _ in range(size):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        out.append((x >> 33) % vocab)
    return torch.tensor(out)
