"""PyTorch's training step as a process: answers each line "step N" on its input with one JSON line, like bench/bare/main.cpp.

  python bench/peers/torch_step.py eager|compile 10M fp32|bf16
"""
import contextlib
import json
import sys
import time

import torch
import torch.nn.functional as F

from model import SIZES, Config, Llama, initialize, token_stream


def main(mode, size, precision):
    torch.set_num_threads(1)
    c = Config(**SIZES[size], precision=precision)
    model = initialize(Llama(c), c)
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    forward = torch.compile(model) if mode == "compile" else model
    stream = token_stream(c.batch * c.sequence + 1, c.vocab)
    tokens, targets = stream[:-1].view(c.batch, -1), stream[1:].view(c.batch, -1)

    def cast():
        return torch.autocast("cpu", torch.bfloat16) if precision == "bf16" else contextlib.nullcontext()

    def step():
        loss = 0.0
        for x, y in zip(tokens.split(c.micro_batch), targets.split(c.micro_batch)):
            with cast():
                logits = forward(x)
            part = F.cross_entropy(logits.flatten(0, 1).float(), y.flatten(), reduction="sum") / targets.numel()
            part.backward()
            loss += part.item()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss, norm.item()

    print(json.dumps({"parameters": sum(p.numel() for p in parameters)}), flush=True)
    for line in sys.stdin:
        wall, cpu = [], []
        for _ in range(int(line.split()[1])):
            wall_start, cpu_start = time.perf_counter(), time.process_time()
            loss, norm = step()
            wall.append(time.perf_counter() - wall_start)
            cpu.append(time.process_time() - cpu_start)
        print(json.dumps({"seconds": wall, "cpu_seconds": cpu, "loss": loss, "grad_norm": norm}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
