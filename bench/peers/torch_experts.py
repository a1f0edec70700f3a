"""One rank of a mixture of experts in PyTorch, data parallel but for the experts; bench/peers/experts.py starts two.

  python bench/peers/torch_experts.py '{"sizes": {...}, "precision": "fp32", "compile": false, "weights": "x.safetensors", ...}'

Mixtral's experts in the decoder of model.py, shared by the ranks: rows travel by all_to_all_single after an exchange of counts,
and F.grouped_mm, which takes fp32 and bf16 on CPUs, multiplies them by the experts' stacked matrices. Gradients of everything
else are summed by DistributedDataParallel under the backward. bf16 is autocast over fp32 weights. "compile" compiles attention,
norms and the experts' gate; what exchanges rows waits for their counts, and stays as it is. Like torch_step.py it answers each
line "step N" with one JSON line. Rank and store come from the environment, as torchrun would set it.
"""
import json
import os
import sys

os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(os.environ["RANK"]) % len(os.sched_getaffinity(0))]})

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

from answers import answer  # noqa: E402
from mixtral import adamw, decoder, load, samples  # noqa: E402

NORM = 1.0


class Exchange(torch.autograd.Function):
    """Rows of all ranks by an all-to-all, `arriving[r]` of them from rank r and `leaving[r]` to it; the way back takes the
    gradients."""

    @staticmethod
    def forward(ctx, rows, arriving, leaving):
        ctx.arriving, ctx.leaving = arriving, leaving
        out = rows.new_empty(sum(arriving), rows.shape[1])
        dist.all_to_all_single(out, rows, arriving, leaving)
        return out

    @staticmethod
    def backward(ctx, gradient):
        out = gradient.new_empty(sum(ctx.leaving), gradient.shape[1])
        dist.all_to_all_single(out, gradient.contiguous(), ctx.leaving, ctx.arriving)
        return out, None, None


def gated(gate, up):
    return F.silu(gate) * up


class Experts(nn.Module):
    """A feed-forward part of `count` experts, of which this rank has an equal share; each token goes to the best `chosen`."""

    def __init__(self, c, count, chosen):
        super().__init__()
        self.ranks, self.count, self.chosen = dist.get_world_size(), count, chosen
        self.held, self.gated = count // self.ranks, gated
        self.router = nn.Linear(c.hidden, count, bias=False)
        self.gate, self.up = (nn.Parameter(torch.empty(self.held, c.ffn, c.hidden)) for _ in range(2))
        self.down = nn.Parameter(torch.empty(self.held, c.hidden, c.ffn))

    def route(self, tokens):
        with torch.autocast("cpu", enabled=False):
            weights, experts = self.router(tokens.float()).softmax(-1).topk(self.chosen)
            return weights / weights.sum(-1, keepdim=True), experts.flatten()

    def feed(self, rows, ends):
        gate, up, down = (w.to(rows.dtype).transpose(1, 2) for w in (self.gate, self.up, self.down))
        inner = self.gated(F.grouped_mm(rows, gate, offs=ends), F.grouped_mm(rows, up, offs=ends))
        return F.grouped_mm(inner, down, offs=ends)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weights, experts = self.route(tokens)
        if torch.is_autocast_enabled("cpu"):  # which sees neither to what travels nor to grouped_mm
            tokens = tokens.bfloat16()
        order = experts.argsort(stable=True)
        places = torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))
        leaving = torch.bincount(experts, minlength=self.count)
        arriving = torch.empty_like(leaving)
        dist.all_to_all_single(arriving, leaving)
        leaving, arriving = leaving.view(self.ranks, -1), arriving.view(self.ranks, -1)  # by rank and expert
        to_ranks, from_ranks = leaving.sum(1).tolist(), arriving.sum(1).tolist()
        rows = Exchange.apply(tokens.index_select(0, order // self.chosen), from_ranks, to_ranks)
        # They come rank by rank, and are multiplied expert by expert.
        rows = self.feed(transposed(rows, arriving), arriving.sum(0).cumsum(0, dtype=torch.int32))
        rows = Exchange.apply(transposed(rows, arriving.t()), to_ranks, from_ranks)
        rows = rows.index_select(0, places).view(-1, self.chosen, rows.shape[1])
        return torch.bmm(weights.to(rows.dtype).unsqueeze(1), rows).view_as(x)


def transposed(rows, counts):
    """Rows that lie as a table of parts, `counts` of them in each, row by row: column by column."""
    parts = rows.split(counts.flatten().tolist())
    width = counts.shape[1]
    return torch.cat([part for column in range(width) for part in parts[column::width]])


def parts_of(experts):
    return experts.router.weight, zip(experts.gate, experts.up, experts.down)


def sum_bucket(group, bucket):
    """Not the mean, which DDP would make: gradients of experts are sums over ranks too, so the loss is divided instead."""
    return dist.all_reduce(bucket.buffer(), group=group, async_op=True).get_future().then(lambda done: done.value()[0])


def data_parallel(model, but):
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, but)
    group = dist.new_group()  # of its own: its calls run beside those of the experts
    out = DistributedDataParallel(model, process_group=group, gradient_as_bucket_view=True, forward_sync_buffers=False)
    out.register_comm_hook(group, sum_bucket)
    return out


def compile_parts(model):
    gate = torch.compile(gated, dynamic=True)  # the number of rows is another in each step
    for block in model.blocks:
        for part in (block.attention, block.norm1, block.norm2):
            part.compile()
        block.feed_forward.gated = gate


def main(options):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks, is_bf16 = dist.get_rank(), dist.get_world_size(), options["precision"] == "bf16"
    model, c = decoder(options["sizes"], Experts)
    first = rank * model.blocks[0].feed_forward.held
    load(model, options["weights"], first, parts_of)
    if options["compile"]:
        compile_parts(model)
    of_experts = {name: p for name, p in model.named_parameters() if p.dim() == 3}
    dense = [p for p in model.parameters() if p.dim() < 3]
    parallel = data_parallel(model, but=list(of_experts))
    optimizer = adamw(model)
    x, y = samples(options["text"], c.sequence, c.batch // ranks)

    def norm():
        square = torch.nn.utils.get_total_norm([p.grad for p in of_experts.values()]) ** 2
        dist.all_reduce(square)
        return (square + torch.nn.utils.get_total_norm([p.grad for p in dense]) ** 2).sqrt()

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=is_bf16):
            logits = parallel(x)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), y.flatten())
        (loss / ranks).backward()
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), NORM, norm())
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    def restart():
        load(model, options["weights"], first, parts_of)
        optimizer.state.clear()

    answer(sum(p.numel() for p in (model.parameters() if rank == 0 else of_experts.values())), step, restart)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
