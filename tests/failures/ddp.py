"""A data-parallel training loop as people write it for torchrun, for failures.cpp to strike at: the byte at the rank's
place in the file PHASES says what the rank is doing."""
import mmap
import os
import sys
from datetime import timedelta

phases_path, timeout = sys.argv[1], float(sys.argv[2])
rank = int(os.environ["RANK"])
with open(phases_path, "r+b") as file:
    phases = mmap.mmap(file.fileno(), 0)


def enter(phase):
    phases[rank] = phase


enter(1)  # rendezvous
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
layers = [layer for _ in range(4) for layer in (torch.nn.Linear(256, 256), torch.nn.GELU())]
model = DistributedDataParallel(torch.nn.Sequential(*layers))
optimizer = torch.optim.AdamW(model.parameters())
while True:
    enter(2)
    loss = model(torch.randn(256, 256)).square().mean()
    enter(3)
    loss.backward()
    enter(4)
    dist.all_reduce(loss.detach())
    enter(5)
    optimizer.step()
    optimizer.zero_grad()
