"""Steps of a model in PyTorch's DistributedDataParallel over Gloo, one process a rank; for bench/across_steps.py.

  RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.213.0.1 MASTER_PORT=29500 bench/peers/ddp_steps.py 10M 4 11 1.0

The size, samples of a rank, steps, and the norm to clip at (0: none). Rank 0 prints the median seconds of a step after the third.
"""
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from model import SIZES, Config, Llama


def main(size, samples, steps, clip):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    c = Config(**{**SIZES[size], "batch": samples, "micro_batch": samples})
    torch.manual_seed(1)
    model = DistributedDataParallel(Llama(c), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    torch.manual_seed(rank)
    taken = []
    for _ in range(steps):
        begin = time.time()
        x, y = torch.randint(c.vocab, (2, samples, c.sequence))
        optimizer.zero_grad()
        F.cross_entropy(model(x).flatten(0, 1), y.flatten()).backward()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        taken.append(time.time() - begin)
    if rank == 0:
        print(statistics.median(taken[3:]), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
