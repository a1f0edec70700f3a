"""Llama and GPT-2 written out in plain PyTorch, in the dtype of their weights: w is a dict by the names of Hugging Face.

`seen` ([samples, positions, positions], True where a query sees a key, or a list of such by layer) takes the place of the causal mask.
`strength` multiplies cosines and sines. `routing`: with experts, how many a token goes to and whether their weights add up to 1.
"""
import torch
import torch.nn.functional as F


def frequencies(theta, d):
    return theta ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)


def rotated(x, frequency, strength=1.0):  # [b, heads, positions, d], halves against each other
    angle = torch.outer(torch.arange(x.shape[2], dtype=torch.float64), frequency)
    cos, sin = strength * angle.cos(), strength * angle.sin()
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def attended(q, k, v, seen):
    mask = None if seen is None else seen.unsqueeze(1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=seen is None).transpose(1, 2).flatten(2)


def heads_of(y, n):
    return y.unflatten(-1, (n, -1)).transpose(1, 2)


def experts(w, at, h, per_token, normalizes):
    """One expert after the other, each on the tokens that chose it."""
    scores = F.linear(h, w[at + "mlp.gate.weight"]).softmax(-1)
    weights, chosen = scores.topk(per_token, -1)
    if normalizes:
        weights = weights / weights.sum(-1, keepdim=True)
    out = torch.zeros_like(h)
    for e in range(scores.shape[-1]):
        share = (weights * (chosen == e)).sum(-1, keepdim=True)
        gate, up = F.linear(h, w[at + "mlp.experts.gate_up_proj"][e]).chunk(2, -1)
        out = out + share * F.linear(F.silu(gate) * up, w[at + "mlp.experts.down_proj"][e])
    return out


def llama_logits(w, ids, layers, heads, kv_heads, frequency, norm_epsilon=1e-5, seen=None, strength=1.0, routing=None):
    norm = lambda x, name: F.rms_norm(x, x.shape[-1:], w[name], norm_epsilon) if name in w else x
    x = F.embedding(ids, w["model.embed_tokens.weight"])
    for i in range(layers):
        at = f"model.layers.{i}."
        h = norm(x, at + "input_layernorm.weight")
        q, k, v = (heads_of(F.linear(h, w[f"{at}self_attn.{n}_proj.weight"], w.get(f"{at}self_attn.{n}_proj.bias")), c)
                   for n, c in (("q", heads), ("k", kv_heads), ("v", kv_heads)))
        q, k = (rotated(norm(t, f"{at}self_attn.{n}_norm.weight"), frequency, strength) for n, t in (("q", q), ("k", k)))
        k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
        seen_here = seen[i] if isinstance(seen, list) else seen
        x = x + F.linear(attended(q, k, v, seen_here), w[at + "self_attn.o_proj.weight"])
        h = norm(x, at + "post_attention_layernorm.weight")
        if routing:
            x = x + experts(w, at, h, *routing)
            continue
        gate, up = (F.linear(h, w[f"{at}mlp.{n}_proj.weight"]) for n in ("gate", "up"))
        x = x + F.linear(F.silu(gate) * up, w[at + "mlp.down_proj.weight"])
    return F.linear(norm(x, "model.norm.weight"), w.get("lm_head.weight", w["model.embed_tokens.weight"]))


def deepseek_choice(scores, bias, groups, kept, per_token):
    """Experts of the groups whose two best add up to most."""
    biased = scores + bias
    best = biased.unflatten(-1, (groups, -1)).topk(2, -1).values.sum(-1).topk(kept, -1).indices
    is_kept = torch.zeros_like(biased[..., :groups]).scatter(-1, best, 1.0).bool().repeat_interleave(scores.shape[-1] // groups, -1)
    return biased.masked_fill(~is_kept, float("-inf")).topk(per_token, -1).indices


def deepseek_logits(w, ids, layers, heads, frequency, sizes, norm_epsilon=1e-5):
    """Logits; of each layer with experts how many tokens chose each; and, if there is a block that predicts ahead, the logits of the token
    after the next. `sizes`: kept and turned channels of a head, of its values, groups, groups that are chosen from, experts of a token, scale
    of their weights. Latent channels are normed with 1e-6."""
    kept, turned, values, groups, groups_kept, per_token, scale = sizes
    norm = lambda x, name, epsilon=norm_epsilon: F.rms_norm(x, x.shape[-1:], w[name + ".weight"], epsilon)
    angle = torch.outer(torch.arange(ids.shape[1], dtype=torch.float64), frequency)

    def turn(x):  # pairs of neighbours
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    product = lambda x, name: F.linear(x, w[name + ".weight"])
    loads = {}

    def block(x, i):
        at, mlp = f"model.layers.{i}.self_attn.", f"model.layers.{i}.mlp."
        h = norm(x, f"model.layers.{i}.input_layernorm")
        q = heads_of(product(norm(product(h, at + "q_a_proj"), at + "q_a_layernorm", 1e-6), at + "q_b_proj"), heads)
        latent = product(h, at + "kv_a_proj_with_mqa")
        kv = heads_of(product(norm(latent[..., :-turned], at + "kv_a_layernorm", 1e-6), at + "kv_b_proj"), heads)
        q = torch.cat((q[..., :kept], turn(q[..., kept:])), -1)
        k = torch.cat((kv[..., :kept], turn(latent[..., -turned:].unsqueeze(1)).expand(-1, heads, -1, -1)), -1)
        x = x + product(attended(q, k, kv[..., kept:], None), at + "o_proj")
        h = norm(x, f"model.layers.{i}.post_attention_layernorm")
        dense = mlp if mlp + "gate_proj.weight" in w else mlp + "shared_experts."
        out = product(F.silu(product(h, dense + "gate_proj")) * product(h, dense + "up_proj"), dense + "down_proj")
        if dense != mlp:
            scores = product(h, mlp + "gate").sigmoid()
            chosen = deepseek_choice(scores.detach(), w[mlp + "gate.e_score_correction_bias"], groups, groups_kept, per_token)
            weights = scores.gather(-1, chosen)
            weights = scale * weights / (weights.sum(-1, keepdim=True) + 1e-20)
            loads[i] = torch.bincount(chosen.flatten(), minlength=scores.shape[-1]).double()
            for e in range(scores.shape[-1]):
                share = (weights * (chosen == e)).sum(-1, keepdim=True)
                gate, up = F.linear(h, w[mlp + "experts.gate_up_proj"][e]).chunk(2, -1)
                out = out + share * F.linear(F.silu(gate) * up, w[mlp + "experts.down_proj"][e])
        return x + out

    x = F.embedding(ids, w["model.embed_tokens.weight"])
    for i in range(layers):
        x = block(x, i)
    x, ahead = norm(x, "model.norm"), f"model.layers.{layers}."
    logits = F.linear(x, w["lm_head.weight"])
    if ahead + "eh_proj.weight" not in w:
        return logits, loads, None
    following = F.pad(ids[:, 1:], (0, 1))  # the last position's is not known, and its prediction counts nowhere
    embedded = norm(F.embedding(following, w["model.embed_tokens.weight"]), ahead + "enorm")
    y = block(product(torch.cat((embedded, norm(x, ahead + "hnorm")), -1), ahead + "eh_proj"), layers)
    return logits, loads, F.linear(norm(y, ahead + "shared_head.norm"), w["lm_head.weight"])


def olmo2_logits(w, ids, layers, heads, kv_heads, frequency, norm_epsilon=1e-5, seen=None):
    norm = lambda x, name: F.rms_norm(x, x.shape[-1:], w[name + ".weight"], norm_epsilon)
    x = F.embedding(ids, w["model.embed_tokens.weight"])
    for i in range(layers):
        at = f"model.layers.{i}."
        q, k, v = (F.linear(x, w[f"{at}self_attn.{n}_proj.weight"]) for n in "qkv")
        q, k = (norm(t, f"{at}self_attn.{n}_norm") for n, t in (("q", q), ("k", k)))
        q, k, v = heads_of(q, heads), heads_of(k, kv_heads), heads_of(v, kv_heads)
        q, k = (rotated(t, frequency) for t in (q, k))
        k, v = (t.repeat_interleave(heads // kv_heads, 1) for t in (k, v))
        x = x + norm(F.linear(attended(q, k, v, seen), w[at + "self_attn.o_proj.weight"]), at + "post_attention_layernorm")
        gate, up = (F.linear(x, w[f"{at}mlp.{n}_proj.weight"]) for n in ("gate", "up"))
        x = x + norm(F.linear(F.silu(gate) * up, w[at + "mlp.down_proj.weight"]), at + "post_feedforward_layernorm")
    return F.linear(norm(x, "model.norm"), w.get("lm_head.weight", w["model.embed_tokens.weight"]))


def gpt2_logits(w, ids, layers, heads, norm_epsilon=1e-5, seen=None):
    norm = lambda x, name: F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"], norm_epsilon)
    product = lambda x, name: x @ w[name + ".weight"] + w[name + ".bias"]  # [in, out], as GPT-2 keeps them
    x = F.embedding(ids, w["transformer.wte.weight"]) + w["transformer.wpe.weight"][: ids.shape[1]]
    for i in range(layers):
        at = f"transformer.h.{i}."
        q, k, v = (heads_of(t, heads) for t in product(norm(x, at + "ln_1"), at + "attn.c_attn").chunk(3, -1))
        x = x + product(attended(q, k, v, seen), at + "attn.c_proj")
        x = x + product(F.gelu(product(norm(x, at + "ln_2"), at + "mlp.c_fc"), approximate="tanh"), at + "mlp.c_proj")
    return F.linear(norm(x, "transformer.ln_f"), w.get("lm_head.weight", w["transformer.wte.weight"]))
