"""One rank of FSDP2 or DeepSpeed ZeRO on the model of model.py; bench/peers/zero.py starts two.

  python bench/peers/zero_rank.py '{"system": "fsdp2", "stage": 3, "precision": "fp32", "sizes": {...}, "text": "corpus/kjv.txt"}'

Like torch_step.py it answers each line "step N" with one JSON line. Rank and store come from the environment, as torchrun
would set it.
"""
import contextlib
import json
import os
import sys
import time
import warnings

os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[int(os.environ["RANK"]) % len(os.sched_getaffinity(0))]})
os.environ["DS_ACCELERATOR"] = "cpu"

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from model import Config, Llama, initialize  # noqa: E402

NORM = 1.0


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)


def fsdp2(c, stage):
    """Stage 3 gathers for the backward anew, stage 2 keeps what the forward gathered; gradients are sharded in both."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    model = initialize(Llama(c), c)
    how = {"mesh": init_device_mesh("cpu", (dist.get_world_size(),)), "reshard_after_forward": stage == 3}
    if c.precision == "bf16":
        how["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, **how)
    fully_shard(model, **how)
    optimizer = adamw(model.parameters())

    def step(parts):
        losses = []
        for x, y in parts:
            loss = F.cross_entropy(model(x).flatten(0, 1).float(), y.flatten())
            (loss / len(parts)).backward()
            losses.append(loss.item())
        torch.nn.utils.clip_grad_norm_(model.parameters(), NORM)
        optimizer.step()
        optimizer.zero_grad()
        return losses

    return step


def deepspeed(c, stage):
    with contextlib.redirect_stdout(sys.stderr):  # it says much, and our standard output is for answers
        import deepspeed as ds
        ds.init_distributed(dist_backend="gloo", verbose=False)
        config = {"train_micro_batch_size_per_gpu": c.micro_batch,
                  "gradient_accumulation_steps": c.batch // c.micro_batch // dist.get_world_size(),
                  "steps_per_print": 10**9, "gradient_clipping": NORM, "zero_allow_untested_optimizer": True,
                  "zero_force_ds_cpu_optimizer": False, "zero_optimization": {"stage": stage}}
        if c.precision == "bf16":
            config["bf16"] = {"enabled": True}
        model = initialize(Llama(c), c)
        engine, *_ = ds.initialize(model=model, optimizer=adamw(model.parameters()), config=config)

    def step(parts):
        losses = []
        for x, y in parts:
            loss = F.cross_entropy(engine(x).flatten(0, 1).float(), y.flatten())
            engine.backward(loss)
            engine.step()
            losses.append(loss.item())
        return losses

    return step


def main(options):
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=FutureWarning)  # of names that FSDP2 itself calls
    answers, sys.stdout = sys.stdout, sys.stderr
    c = Config(**options["sizes"], precision=options["precision"])
    if options["system"] == "fsdp2":
        dist.init_process_group("gloo")
        step = fsdp2(c, options["stage"])
    else:
        step = deepspeed(c, options["stage"])
    size = dist.get_world_size()
    text = open(options["text"], "rb")

    def parts():
        """The micro-batches of this rank: all ranks read the same place, and take their rows of it."""
        need = c.batch * c.sequence + 1
        data = text.read(need)
        if len(data) < need:
            text.seek(0)
            data = text.read(need)
        data = torch.frombuffer(bytearray(data), dtype=torch.uint8).long()
        tokens, targets = (rows.view(c.batch, -1)[dist.get_rank()::size] for rows in (data[:-1], data[1:]))
        return list(zip(tokens.split(c.micro_batch), targets.split(c.micro_batch)))

    rows = sum(p.numel() for p in Llama(c).parameters()) if dist.get_rank() == 0 else 0
    print(json.dumps({"parameters": rows}), file=answers, flush=True)
    for line in sys.stdin:
        seconds, losses = [], []
        for _ in range(int(line.split()[1])):
            mine = parts()
            start = time.perf_counter()
            found = step(mine)
            seconds.append(time.perf_counter() - start)
            losses.append(sum(found) / len(found))
        print(json.dumps({"seconds": seconds, "losses": losses}), file=answers, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
