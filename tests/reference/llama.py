"""Writes what the rest of the world computes for a small model of the Llama family or one related to it, for
reference_process_test.cpp to compare with.

  llama.py FOLDER KIND...   of llama, llama3, linear, yarn, qwen2, qwen3, mistral, mixtral, qwen3_moe, deepseek_v3, deepseek_mtp, olmo2; each in FOLDER/KIND:

model.safetensors      a random model of the `transformers` package (grouped queries), fp32
reference.safetensors  tokens, its logits and all gradients (fp32); and, in fp64, the losses and parameters of 20 steps of
                       torch.optim.AdamW with clipping and decay groups on the same model written out in plain PyTorch
                       (transformers computes norms and rotary tables in fp32 whatever the model's dtype is)
"""
import math
import os
import sys

import plain
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import (DeepseekV3Config, DeepseekV3ForCausalLM, LlamaConfig, LlamaForCausalLM, MistralConfig, MistralForCausalLM, MixtralConfig, MixtralForCausalLM, Olmo2Config,
                          Olmo2ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig,
                          Qwen3MoeForCausalLM)

LAYERS, HIDDEN, HEADS, KV_HEADS, FFN, VOCAB, SEQUENCE, BATCH = 3, 64, 8, 2, 160, 97, 24, 4
DEEPSEEK = (12, 8, 10, 4, 2, 2, 2.5)  # as plain.deepseek_logits has them
BIAS, BIAS_RATE = "e_score_correction_bias", 0.001
STEPS, RATE, DECAY, CLIP, BETAS, EPSILON = 20, 1e-3, 0.1, 0.5, (0.9, 0.95), 1e-8
NORM_EPSILON, THETA = 1e-5, 10000.0
LLAMA3 = {"rope_type": "llama3", "rope_theta": THETA, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "rope_theta": THETA, "factor": 8.0, "original_max_position_embeddings": 64, "beta_fast": 8.0,
        "beta_slow": 0.5}
KINDS = {  # the classes, and what differs from Llama 2
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    "llama3": (LlamaConfig, LlamaForCausalLM, {"rope_parameters": LLAMA3, "max_position_embeddings": 512}),
    "linear": (LlamaConfig, LlamaForCausalLM, {"rope_parameters": {"rope_type": "linear", "rope_theta": THETA, "factor": 4.0}}),
    "yarn": (LlamaConfig, LlamaForCausalLM, {"rope_parameters": YARN, "max_position_embeddings": 512}),
    # The first layer sees all, the others a window.
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {"tie_word_embeddings": True, "use_sliding_window": True, "sliding_window": 7,
                                              "max_window_layers": 1}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 12}),
    "mistral": (MistralConfig, MistralForCausalLM, {"head_dim": 16, "sliding_window": 5}),
    "mixtral": (MixtralConfig, MixtralForCausalLM, {"num_local_experts": 5, "num_experts_per_tok": 2}),
    "qwen3_moe": (Qwen3MoeConfig, Qwen3MoeForCausalLM, {"head_dim": 12, "num_experts": 6, "num_experts_per_tok": 3,
                                                        "moe_intermediate_size": 40, "norm_topk_prob": False}),
    "deepseek_v3": (DeepseekV3Config, DeepseekV3ForCausalLM, {
        "num_key_value_heads": HEADS, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8,
        "v_head_dim": 10, "n_routed_experts": 8, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 2, "n_shared_experts": 1,
        "moe_intermediate_size": 40, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5}),
    "olmo2": (Olmo2Config, Olmo2ForCausalLM, {"pad_token_id": None}),  # whose row would get no gradient
}


KINDS["deepseek_mtp"] = KINDS["deepseek_v3"]  # with a block that predicts ahead, which is written out here
MTP_WEIGHT = 0.3


def tokens(step):
    generator = torch.Generator().manual_seed(100 + step)
    return torch.randint(0, VOCAB, (BATCH, SEQUENCE + 1), generator=generator)


def mean_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def world(kind):
    torch.manual_seed(0)
    config_class, model_class, special = KINDS[kind]
    usual = dict(hidden_size=HIDDEN, intermediate_size=FFN, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
                 num_key_value_heads=KV_HEADS, vocab_size=VOCAB, max_position_embeddings=SEQUENCE,
                 rms_norm_eps=NORM_EPSILON, rope_parameters={"rope_type": "default", "rope_theta": THETA},
                 tie_word_embeddings=False)
    model = model_class(config_class(**(usual | special))).float()
    with torch.no_grad():
        for name, p in model.named_parameters():  # norms away from one, matrices large enough to matter
            p.mul_(4) if p.dim() > 1 else p.add_(0.3 * torch.randn(p.shape))
        for name, b in model.named_buffers():
            if name.endswith(BIAS):
                b.add_(0.1 * torch.randn(b.shape))
    batch = tokens(0)
    logits = model(batch[:, :-1]).logits
    mean_loss(logits, batch[:, 1:]).backward()
    out = {"logits": logits.detach().contiguous()}
    out |= {f"gradient.{n}": p.grad.contiguous() for n, p in model.named_parameters()}
    weights = {n: p.detach().clone() for n, p in model.named_parameters()}
    weights |= {n: b.detach().clone() for n, b in model.named_buffers() if n.endswith(BIAS)}
    if kind == "deepseek_mtp":
        weights |= block_ahead(weights)
        w = {n: p.double().requires_grad_(not n.endswith(BIAS)) for n, p in weights.items()}
        sum(losses_of(w, batch, kind)[0]).backward()
        out |= {f"gradient.{n}": p.grad.float() for n, p in w.items() if p.requires_grad}
    if kind.startswith("deepseek"):  # what moves a bias: how far each load is above the mean
        loads = losses_of({n: p.double() for n, p in weights.items()}, batch, kind)[1]
        out |= {f"gradient.model.layers.{i}.mlp.gate.{BIAS}": (load - load.mean()).float() for i, load in loads.items()}
    return weights, out


def block_ahead(weights):
    """As the last block is, and what joins the stream with the next token."""
    last, own = f"model.layers.{LAYERS - 1}.", f"model.layers.{LAYERS}."
    generator = torch.Generator().manual_seed(3)
    drawn = lambda *shape: torch.randn(shape, generator=generator)
    out = {n.replace(last, own): p + 0.02 * drawn(*p.shape) for n, p in weights.items() if n.startswith(last)}
    out |= {f"{own}{n}.weight": 1 + 0.3 * drawn(HIDDEN) for n in ("enorm", "hnorm", "shared_head.norm")}
    return out | {own + "eh_proj.weight": 0.1 * drawn(HIDDEN, 2 * HIDDEN)}


def losses_of(w, batch, kind):
    """All losses, the one of the next token first; and the loads of experts by layer."""
    found = plain_logits(w, batch[:, :-1], kind)
    logits, loads, ahead = found if isinstance(found, tuple) else (found, {}, None)
    losses = [mean_loss(logits, batch[:, 1:])]
    if ahead is not None:
        losses.append(MTP_WEIGHT * mean_loss(ahead[:, :-1], batch[:, 2:]))
    return losses, loads


def frequencies(kind, d):
    f = plain.frequencies(THETA, d)
    if kind == "linear":
        return f / 4
    if kind == "yarn":
        pair = lambda turns: d * math.log(YARN["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(THETA))
        first, last = max(math.floor(pair(YARN["beta_fast"])), 0), min(math.ceil(pair(YARN["beta_slow"])), d - 1)
        slower = ((torch.arange(d // 2, dtype=torch.float64) - first) / (last - first)).clamp(0, 1)
        return slower * f / YARN["factor"] + (1 - slower) * f
    if kind != "llama3":
        return f
    context, low, high = (LLAMA3[k] for k in ("original_max_position_embeddings", "low_freq_factor", "high_freq_factor"))
    turns = context * f / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - kept) * f / LLAMA3["factor"] + kept * f


def windows(kind):
    """What the queries of each layer see."""
    window = {"mistral": [5] * LAYERS, "qwen2": [SEQUENCE] + [7] * (LAYERS - 1)}.get(kind, [SEQUENCE] * LAYERS)
    return [torch.ones(1, SEQUENCE, SEQUENCE, dtype=torch.bool).tril().triu(1 - size) for size in window]


def plain_logits(w, ids, kind):
    if kind.startswith("deepseek"):
        return plain.deepseek_logits(w, ids, LAYERS, HEADS, frequencies(kind, DEEPSEEK[1]), DEEPSEEK, NORM_EPSILON)
    d = w["model.layers.0.self_attn.q_proj.weight"].shape[0] // HEADS
    if kind == "olmo2":
        return plain.olmo2_logits(w, ids, LAYERS, HEADS, KV_HEADS, frequencies(kind, d), NORM_EPSILON)
    # Both cosines and sines carry YaRN's factor, so that scores have its square.
    strength = 0.1 * math.log(YARN["factor"]) + 1 if kind == "yarn" else 1.0
    return plain.llama_logits(w, ids, LAYERS, HEADS, KV_HEADS, frequencies(kind, d), NORM_EPSILON, seen=windows(kind),
                              strength=strength, routing={"mixtral": (2, True), "qwen3_moe": (3, False)}.get(kind))


def trained(weights, kind):
    w = {n: p.double().requires_grad_(not n.endswith(BIAS)) for n, p in weights.items()}
    trained = {n: p for n, p in w.items() if p.requires_grad}
    groups = [{"params": [p for p in trained.values() if p.dim() > 1], "weight_decay": DECAY},
              {"params": [p for p in trained.values() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPSILON)
    losses, norms = [], []
    for step in range(STEPS):
        batch = tokens(step)
        losses_here, loads = losses_of(w, batch, kind)
        optimizer.zero_grad()
        sum(losses_here).backward()
        norms.append(torch.nn.utils.clip_grad_norm_(trained.values(), CLIP))
        optimizer.step()
        for i, load in loads.items():
            w[f"model.layers.{i}.mlp.gate.{BIAS}"].sub_(BIAS_RATE * (load - load.mean()).sign())
        losses.append(losses_here[0].detach())
    return {"losses": torch.stack(losses), "norms": torch.stack(norms)} | {f"trained.{n}": p.detach() for n, p in w.items()}


def write(folder, kind):
    os.makedirs(folder)
    weights, out = world(kind)
    save_file(weights, f"{folder}/model.safetensors")
    out |= trained(weights, kind) | {"tokens": torch.stack([tokens(i) for i in range(STEPS)])}
    save_file(out, f"{folder}/reference.safetensors")


if __name__ == "__main__":
    for chosen in sys.argv[2:]:
        write(f"{sys.argv[1]}/{chosen}", chosen)
