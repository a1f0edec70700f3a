"""Local steps of two replicas written out in plain PyTorch in fp64, for tessera/train/local_steps_process_test.cpp to compare with.

  local_steps.py FOLDER

model.safetensors      a small random model of the Llama family
reference.safetensors  tokens; and by case the losses of all local steps of both replicas and the weights after 20 exchanges. A case is named
                       H-optimizer-outer-delay, such as 5-adamw-nesterov-2: H local steps with torch.optim.AdamW or SGD, then the mean of the
                       weights or torch.optim.SGD with Nesterov momentum on the mean of what the replicas moved, of which they are told so
                       many steps later.
"""
import sys

import plain
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

LAYERS, HIDDEN, HEADS, FFN, VOCAB, SEQUENCE, BATCH, REPLICAS = 1, 16, 2, 24, 20, 8, 4, 2
EXCHANGES, RATE, EPSILON, OUTER_RATE, OUTER_MOMENTUM = 20, 1e-3, 1e-4, 0.7, 0.9  # rates at which rounding does not grow over 1,000 steps
CASES = ["1-sgd-average-0", "1-adamw-nesterov-0", "5-adamw-average-0", "5-adamw-nesterov-0", "5-adamw-nesterov-2", "50-adamw-nesterov-0", "50-sgd-average-7"]


def drawn(*shape, scale=0.3):
    return scale * torch.randn(*shape)


def weights():
    torch.manual_seed(0)
    at = "model.layers.0."
    out = {"model.embed_tokens.weight": drawn(VOCAB, HIDDEN), "lm_head.weight": drawn(VOCAB, HIDDEN), "model.norm.weight": 1 + drawn(HIDDEN),
           at + "input_layernorm.weight": 1 + drawn(HIDDEN), at + "post_attention_layernorm.weight": 1 + drawn(HIDDEN)}
    out |= {f"{at}self_attn.{n}_proj.weight": drawn(HIDDEN, HIDDEN) for n in "qkvo"}
    return out | {f"{at}mlp.{n}_proj.weight": drawn(*shape) for n, shape in (("gate", (FFN, HIDDEN)), ("up", (FFN, HIDDEN)), ("down", (HIDDEN, FFN)))}


def tokens(steps):
    generator = torch.Generator().manual_seed(7)
    return torch.randint(0, VOCAB, (steps, BATCH, SEQUENCE + 1), generator=generator)


def loss_of(w, batch):
    frequency = plain.frequencies(10000.0, HIDDEN // HEADS)
    logits = plain.llama_logits(w, batch[:, :-1], LAYERS, HEADS, HEADS, frequency)
    return F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def replica(start, optimizer):
    w = {n: p.double().clone().requires_grad_() for n, p in start.items()}
    if optimizer == "sgd":
        return w, torch.optim.SGD(w.values(), lr=RATE)
    groups = [{"params": [p for p in w.values() if p.dim() > 1], "weight_decay": 0.1}, {"params": [p for p in w.values() if p.dim() == 1], "weight_decay": 0.0}]
    return w, torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.95), eps=EPSILON)


def trained(start, all_tokens, case):
    steps, optimizer, outer_kind, delay = case.split("-")
    steps, delay = int(steps), int(delay)
    outer = {n: p.double().clone().requires_grad_() for n, p in start.items()}
    nesterov = torch.optim.SGD(outer.values(), lr=OUTER_RATE, momentum=OUTER_MOMENTUM, nesterov=True)
    replicas = [replica(start, optimizer) for _ in range(REPLICAS)]
    losses, begun = [], None
    share = BATCH // REPLICAS

    def end_exchange(now):
        with torch.no_grad():
            before = [{n: p.clone() for n, p in one.items()} for one in begun]
            for n, p in outer.items():
                p.grad = sum(p - one[n] for one in before) / REPLICAS
        if outer_kind == "nesterov":
            nesterov.step()
        with torch.no_grad():
            for (w, _), own in zip(replicas, before):
                for n, p in outer.items():
                    if outer_kind == "average" and w is replicas[0][0]:
                        p.copy_(sum(one[n] for one in before) / REPLICAS)
                    w[n].copy_(p if now else w[n] + p - own[n])

    for step in range(EXCHANGES * steps):
        for r, (w, inner) in enumerate(replicas):
            loss = loss_of(w, all_tokens[step, r * share:(r + 1) * share])
            inner.zero_grad()
            loss.backward()
            inner.step()
            losses.append(loss.detach())
        last = step + 1 == EXCHANGES * steps
        if begun is not None and (step + 1) % steps == delay:
            end_exchange(now=delay == 0)
            begun = None
        if (step + 1) % steps == 0:
            begun = [{n: p.detach().clone() for n, p in w.items()} for w, _ in replicas]
            if delay == 0 or last:
                end_exchange(now=True)
                begun = None
    return {f"{case}.losses": torch.stack(losses)} | {f"{case}.{n}": p.detach() for n, p in outer.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, start = sys.argv[1], weights()
    all_tokens = tokens(EXCHANGES * 50)
    save_file(start, f"{folder}/model.safetensors")
    out = {"tokens": all_tokens}
    for case in CASES:
        out |= trained(start, all_tokens, case)
    save_file(out, f"{folder}/reference.safetensors")
