"""One rank of the model of torch_experts.py with DeepSpeed's MoE layer and engine, in fp32; experts.py --deepspeed starts two.

  python bench/peers/deepspeed_experts.py '{"sizes": {...}, "weights": "model.safetensors", "text": "one_sample.txt"}'

Nothing is dropped and no choice is drawn: the rows of each expert are padded to those of the fullest one, and travel so. It
clips by the mean over ranks of each one's norm, which is not that of all gradients, so its losses are further apart.
"""
import json
import os
import sys

os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(os.environ["RANK"]) % len(os.sched_getaffinity(0))]})
os.environ["DS_ACCELERATOR"] = "cpu"
answers, sys.stdout = sys.stdout, sys.stderr  # it says much, and our standard output is for answers

import deepspeed  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from deepspeed.moe.layer import MoE  # noqa: E402

from answers import answer  # noqa: E402
from mixtral import adamw, decoder, load, samples  # noqa: E402
from model import FeedForward  # noqa: E402


class Experts(MoE):
    def __init__(self, c, count, chosen):
        super().__init__(c.hidden, FeedForward(c), count, ep_size=dist.get_world_size(), k=chosen, drop_tokens=False,
                         top2_2nd_expert_sampling=False)

    def forward(self, x):
        return super().forward(x)[0]


def parts_of(experts):
    layer = experts.deepspeed_moe
    return layer.gate.wg.weight, [(e.gate.weight, e.up.weight, e.down.weight) for e in layer.experts.deepspeed_experts]


def main(options):
    torch.set_num_threads(1)
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    model, c = decoder(options["sizes"], Experts)
    first = rank * model.blocks[0].feed_forward.num_local_experts
    load(model, options["weights"], first, parts_of)
    config = {"train_micro_batch_size_per_gpu": c.batch // ranks, "gradient_accumulation_steps": 1, "steps_per_print": 10**9,
              "gradient_clipping": 1.0, "zero_optimization": {"stage": 0}}
    optimizer = adamw(model)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config)
    x, y = samples(options["text"], c.sequence, c.batch // ranks)

    def step():
        loss = F.cross_entropy(engine(x).flatten(0, 1).float(), y.flatten())
        engine.backward(loss)
        engine.step()
        return loss.item()

    def restart():
        load(model, options["weights"], first, parts_of)
        optimizer.state.clear()

    counted = (p for p in model.parameters() if rank == 0 or not getattr(p, "allreduce", True))
    parameters, sys.stdout = sum(p.numel() for p in counted), answers
    answer(parameters, step, restart)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
