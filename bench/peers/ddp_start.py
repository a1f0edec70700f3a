"""The first training step of a run file's model in PyTorch under torchrun: DistributedDataParallel over Gloo, as its manual says.

  torchrun --nproc-per-node 2 bench/peers/ddp_start.py examples/tiny.toml

Rank 0 prints "step 1" when the step is done on all ranks, then one JSON line with the seconds of each part.
"""
import contextlib
import json
import os
import sys
import time
import tomllib

marks = [("begin", time.time())]

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from model import Config, Llama  # noqa: E402


def main(path):
    marks.append(("imports", time.time()))
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    marks.append(("groups", time.time()))

    with open(path, "rb") as file:
        run = tomllib.load(file)
    batch, micro = run["training"]["global_batch"] // ranks, run["layout"]["micro_batch"]
    shape = {key: value for key, value in run["model"].items() if key != "family"}
    c = Config(**shape, batch=batch, micro_batch=micro)
    torch.manual_seed(1)
    model = DistributedDataParallel(Llama(c))
    optimizer = torch.optim.AdamW(model.parameters(), lr=run["training"]["learning_rate"], fused=True)
    marks.append(("weights", time.time()))

    with open(run["data"]["path"], "rb") as file:
        file.seek(rank * batch * c.sequence)
        data = torch.frombuffer(bytearray(file.read(batch * c.sequence + 1)), dtype=torch.uint8).long()
    tokens, targets = data[:-1].view(batch, -1), data[1:].view(batch, -1)
    parts = list(zip(tokens.split(micro), targets.split(micro)))
    for i, (x, y) in enumerate(parts):
        with contextlib.nullcontext() if i + 1 == len(parts) else model.no_sync():
            (F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") / targets.numel()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    marks.append(("first step", time.time()))
    if rank == 0:
        print("step 1", flush=True)
        parts = {name: at - before for (_, before), (name, at) in zip(marks, marks[1:])}
        parts["torchrun and python"] = marks[0][1] - float(os.environ.get("STARTED_AT", marks[0][1]))
        print(json.dumps({"parameters": sum(p.numel() for p in model.parameters()), "parts": parts}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
