"""One rank of PyTorch's own pipeline (torch.distributed.pipelining) on the model of model.py; bench/peers/pipeline.py starts two.

  python bench/peers/torch_pipeline.py '{"schedule": "ScheduleGPipe", "stages": [[0, [0, 7]], [1, [7, 12]]], ...}'

"stages" lists for each stage, in the model's order, the rank that has it and its blocks [first, end). Like torch_step.py it
answers each line "step N" with one JSON line; the loss is told by the rank that has the head. Rank and store come from the
environment, as torchrun would set it.
"""
import json
import os
import sys

os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(os.environ["RANK"]) % len(os.sched_getaffinity(0))]})

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.distributed.pipelining import PipelineStage, schedules  # noqa: E402

from answers import answer  # noqa: E402
from model import Block, Config, rope_tables  # noqa: E402


class Stage(nn.Module):
    """Blocks [first, end) of the model; the first stage has the embedding, the last one norm and head."""

    def __init__(self, c, first, end):
        super().__init__()
        self.embedding = nn.Embedding(c.vocab, c.hidden) if first == 0 else None
        self.blocks = nn.ModuleList(Block(c) for _ in range(first, end))
        self.norm = nn.RMSNorm(c.hidden, eps=1e-5) if end == c.layers else None
        self.head = nn.Linear(c.hidden, c.vocab, bias=False) if end == c.layers else None
        for name, table in zip(("cos", "sin"), rope_tables(c)):
            self.register_buffer(name, table, persistent=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                deviation = 0.02 / (2 * c.layers) ** 0.5 if name.endswith(("out.weight", "down.weight")) else 0.02
                nn.init.normal_(parameter, std=deviation)

    def forward(self, x):
        x = x if self.embedding is None else self.embedding(x)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        return x if self.head is None else self.head(self.norm(x))


def mean_loss(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def clip(parameters):
    """To norm 1 over all ranks: each has another part of the model."""
    gradients = [p.grad for p in parameters]
    square = torch.nn.utils.get_total_norm(gradients) ** 2
    dist.all_reduce(square)
    torch.nn.utils.clip_grads_with_norm_(parameters, 1.0, square.sqrt())


def main(options):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1 + rank)
    c = Config(**options["sizes"])
    num_stages = len(options["stages"])
    mine = [(i, blocks) for i, (owner, blocks) in enumerate(options["stages"]) if owner == rank]
    parts = [Stage(c, *blocks) for _, blocks in mine]
    stages = [PipelineStage(part, i, num_stages, torch.device("cpu")) for part, (i, _) in zip(parts, mine)]
    kind = getattr(schedules, options["schedule"])
    takes_one = issubclass(kind, schedules.PipelineScheduleSingle)
    schedule = kind(stages[0] if takes_one else stages, c.batch // c.micro_batch, loss_fn=mean_loss)
    parameters = [p for part in parts for p in part.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    has_first, has_last = (any(i == end for i, _ in mine) for end in (0, num_stages - 1))

    text = open(options["text"], "rb")

    def step():
        # Both ranks read the same place; text that is too short for all steps begins anew.
        data = text.read(c.batch * c.sequence + 1)
        if len(data) <= c.batch * c.sequence:
            text.seek(0)
            data = text.read(c.batch * c.sequence + 1)
        data = torch.frombuffer(bytearray(data), dtype=torch.uint8).long()
        losses = []
        schedule.step(*([data[:-1].view(c.batch, -1)] if has_first else []),
                      **({"target": data[1:].view(c.batch, -1), "losses": losses} if has_last else {}), return_outputs=False)
        clip(parameters)
        optimizer.step()
        optimizer.zero_grad()
        return torch.stack(losses).mean().item() if has_last else None

    answer(sum(p.numel() for p in parameters), step)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
