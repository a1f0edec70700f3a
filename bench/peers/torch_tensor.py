"""One rank of PyTorch's own tensor parallelism (DTensor) on the model of model.py; bench/peers/tensor.py starts two.

  python bench/peers/torch_tensor.py '{"sizes": {...}, "weights": "model.safetensors", "text": "one_sample.txt"}'

Column and row linear layers, vocabulary-parallel embedding, head and loss, sequence parallelism between the blocks. Like
torch_step.py it answers each line "step N" with one JSON line. Rank and store come from the environment, as torchrun would set
it.
"""
import json
import os
import sys

os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(os.environ["RANK"]) % len(os.sched_getaffinity(0))]})

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from safetensors.torch import load_file  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard  # noqa: E402
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel,  # noqa: E402
                                               SequenceParallel, loss_parallel, parallelize_module)

from answers import answer  # noqa: E402
from model import Config, Llama, load_named  # noqa: E402

NORM = 1.0


def parallel(model, mesh):
    """As PyTorch's tutorial and torchtitan lay it out: activations between blocks are cut along the sequence."""
    parallelize_module(model, mesh, {
        "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False)})
    for block in model.blocks:
        parallelize_module(block, mesh, {
            "norm1": SequenceParallel(), "norm2": SequenceParallel(),
            "attention": PrepareModuleInput(input_layouts=(Shard(1), None, None), desired_input_layouts=(Replicate(), None, None)),
            "attention.q": ColwiseParallel(), "attention.k": ColwiseParallel(), "attention.v": ColwiseParallel(),
            "attention.out": RowwiseParallel(output_layouts=Shard(1)),
            "feed_forward": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
            "feed_forward.gate": ColwiseParallel(), "feed_forward.up": ColwiseParallel(),
            "feed_forward.down": RowwiseParallel(output_layouts=Shard(1))})
    return model


class Local:
    """Parameters and gradients as plain tensors, so that clipping and AdamW run once over all of them without DTensor's
    dispatch: its fastest form. Gradients of norms are partial over the ranks and are summed in one call."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.locals = [p.to_local().detach() for p in self.parameters]

    def take_gradients(self):
        partial, whole, cut = [], [], []
        for p, local in zip(self.parameters, self.locals):
            gradient, is_cut = p.grad, any(isinstance(at, Shard) for at in p.placements)
            if is_cut and gradient.placements != p.placements:
                gradient = gradient.redistribute(placements=p.placements)
            local.grad = gradient.to_local()
            (cut if is_cut else whole).append(local.grad)
            if any(isinstance(at, Partial) for at in gradient.placements):
                partial.append(local.grad)
            p.grad = None
        if partial:
            flat = torch.cat([g.flatten() for g in partial])
            dist.all_reduce(flat)
            for g, summed in zip(partial, flat.split([g.numel() for g in partial])):
                g.copy_(summed.view_as(g))
        square = torch.nn.utils.get_total_norm(cut) ** 2
        dist.all_reduce(square)
        return (square + torch.nn.utils.get_total_norm(whole) ** 2).sqrt()


def main(options):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    c = Config(**options["sizes"])
    model = Llama(c)
    load_named(model, load_file(options["weights"]))
    model = parallel(model, mesh)
    local = Local(model.parameters())
    groups = [{"params": [p for p in local.locals if p.dim() > 1]},
              {"params": [p for p in local.locals if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    sample = torch.frombuffer(bytearray(open(options["text"], "rb").read()), dtype=torch.uint8).long()
    x, y = (sample[at:at + c.sequence].repeat(c.batch, 1) for at in (0, 1))
    micro_batches = c.batch // c.micro_batch

    def step():
        total = 0.0
        for part, wanted in zip(x.split(c.micro_batch), y.split(c.micro_batch)):
            with loss_parallel():
                loss = F.cross_entropy(model(part).flatten(0, 1), wanted.flatten()) / micro_batches
                loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grads_with_norm_(local.locals, NORM, local.take_gradients())
        optimizer.step()
        optimizer.zero_grad()
        return (total.full_tensor() if isinstance(total, DTensor) else total).item()

    answer(sum(p.numel() for p in model.parameters()) if dist.get_rank() == 0 else 0, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
