"""Writes what the rest of the world computes for a small GPT-2, for reference_process_test.cpp to compare with.

  gpt2.py FOLDER KIND...   of tied, untied; each in FOLDER/KIND:

model.safetensors      a random GPT2LMHeadModel of the `transformers` package, fp32, as its save_pretrained writes it
reference.safetensors  tokens, its logits and all gradients (fp32); and, in fp64, the losses and parameters of 20 steps of
                       torch.optim.AdamW with clipping and decay groups on the same GPT2LMHeadModel. Gradients and parameters
                       are unfused and [out, in], under Tessera's names.
"""
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

LAYERS, HIDDEN, HEADS, FFN, VOCAB, SEQUENCE, BATCH = 3, 64, 8, 160, 97, 24, 4
STEPS, RATE, DECAY, CLIP, BETAS, EPSILON = 20, 1e-3, 0.1, 0.5, (0.9, 0.95), 1e-8


def tokens(step):
    generator = torch.Generator().manual_seed(100 + step)
    return torch.randint(0, VOCAB, (BATCH, SEQUENCE + 1), generator=generator)


def mean_loss(model, batch):
    logits = model(batch[:, :-1]).logits
    return logits, F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def make(tied):
    torch.manual_seed(0)
    config = GPT2Config(n_embd=HIDDEN, n_inner=FFN, n_layer=LAYERS, n_head=HEADS, vocab_size=VOCAB, n_positions=SEQUENCE,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=tied, bos_token_id=0,
                        eos_token_id=0)
    model = GPT2LMHeadModel(config).float()
    with torch.no_grad():
        for p in model.parameters():  # norms away from one, biases from zero, matrices large enough to matter
            p.mul_(4) if p.dim() > 1 else p.add_(0.3 * torch.randn(p.shape))
    return model


def unfused(name, value):
    ours = {"attn.c_proj": "attn.out_proj", "mlp.c_fc": "mlp.up_proj", "mlp.c_proj": "mlp.down_proj"}
    if ".c_" in name and value.dim() == 2:
        value = value.t()
    if ".c_attn." in name:
        return {name.replace("c_attn", f"{part}_proj"): v for part, v in zip("qkv", value.chunk(3))}
    for theirs, mine in ours.items():
        name = name.replace(theirs, mine)
    return {name: value}


def named(prefix, tensors):
    return {prefix + n: v.detach().clone().contiguous() for name, value in tensors for n, v in unfused(name, value).items()}


def trained(model):
    model = model.double()
    parameters = list(model.parameters())
    groups = [{"params": [p for p in parameters if p.dim() > 1], "weight_decay": DECAY},
              {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE, betas=BETAS, eps=EPSILON)
    losses, norms = [], []
    for step in range(STEPS):
        loss = mean_loss(model, tokens(step))[1]
        optimizer.zero_grad()
        loss.backward()
        norms.append(torch.nn.utils.clip_grad_norm_(parameters, CLIP))
        optimizer.step()
        losses.append(loss.detach())
    return {"losses": torch.stack(losses), "norms": torch.stack(norms)} | named("trained.", model.named_parameters())


def write(folder, tied):
    model = make(tied)
    model.save_pretrained(folder)
    logits, loss = mean_loss(model, tokens(0))
    loss.backward()
    out = {"logits": logits.detach().contiguous()}
    out |= named("gradient.", ((n, p.grad) for n, p in model.named_parameters()))
    out |= trained(model) | {"tokens": torch.stack([tokens(i) for i in range(STEPS)])}
    save_file(out, f"{folder}/reference.safetensors")


if __name__ == "__main__":
    for chosen in sys.argv[2:]:
        write(f"{sys.argv[1]}/{chosen}", chosen == "tied")
