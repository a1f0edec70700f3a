"""PyTorch's distributed checkpoint under the kills of crashes.cpp, for comparison: two Gloo ranks save sharded tensors after
every step with torch.distributed.checkpoint.save and its defaults (FileSystemWriter), and are killed at every call of one
save that changes a file, before and after it, on each rank, and at random instants. Two ways of saving that people use:
  folders   each step into a folder of its own; the newest folder that has .metadata is loaded
  one       every step into the same folder (overwrite=True is the writer's default)
A state is whole if all tensors are of one step; torn: there is nothing to read, or tensors of two steps.
    .venv/bin/python tests/crashes/dcp.py LIBRARY [random kills of each way] [seed]
Ranks are forked from a process that has imported torch once."""
import collections
import os
import pathlib
import random
import shutil
import signal
import sys
import tempfile
import time
import warnings

RANKS, STRUCK, STEPS, TENSORS = 2, 3, 40, 12


def warm_up(folder):
    """All that is imported late, once for all ranks; without a thread that a fork would lose."""
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    DTensor.from_local(torch.zeros(2, 2), mesh, [Shard(0)])
    dist.destroy_process_group()
    dcp.save(tensors_of(0, 1), checkpoint_id=folder, no_dist=True)


def forked(act, **environment):
    """The id of a child that does it."""
    for name in [name for name in os.environ if name.startswith("TESSERA_FAULT_")]:
        del os.environ[name]
    os.environ.update({name: str(value) for name, value in environment.items()})
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    code = 1
    try:
        code = act()
    finally:  # a peer that is gone is what is tried here
        os._exit(code or 0)


def folder_of(root, way, step):
    return root / (f"step-{step:04}" if way == "folders" else "latest")


def tensors_of(step, rows):
    return {f"layer.{i}": torch.full((rows, 256), float(100 * step + i)) for i in range(TENSORS)}


def save_steps(root, way, rank, steps, first=1):
    dist.init_process_group("gloo", store=dist.FileStore(str(root.parent / "store"), RANKS), rank=rank, world_size=RANKS)
    mesh = init_device_mesh("cpu", (RANKS,))
    for step in range(first, steps + 1):
        state = {name: DTensor.from_local(local, mesh, [Shard(0)]) for name, local in tensors_of(step, 32).items()}
        dcp.save({"model": state, "step": step}, checkpoint_id=folder_of(root, way, step))


def verdict(root, way):
    """What a user finds: (word, why)."""
    folders = sorted(path for path in root.iterdir() if path.is_dir())
    whole = [path for path in folders if (path / ".metadata").exists()]
    if not whole:
        return "nothing", "no .metadata"
    state = {"model": tensors_of(0, 64), "step": 0}
    try:
        dcp.load(state, checkpoint_id=whole[-1], no_dist=True)
    except BaseException as error:
        return "unreadable", f"{type(error).__name__}: {error}".splitlines()[0][:120]
    found = {int(x) // 100 for tensor in state["model"].values() for x in (tensor.min(), tensor.max())}
    found.add(state["step"])
    return ("whole", "") if len(found) == 1 else ("mixed", f"steps {sorted(found)}")


def judge(root, way):
    """verdict() in a child: a reader may leave anything behind in its process."""
    answer = root / "verdict"

    def act():
        answer.write_text("\n".join(map(str, verdict(root, way))))

    os.waitpid(forked(act), 0)
    return tuple((answer.read_text() if answer.exists() else "unreadable\nthe reader died").split("\n", 1))


def end(children):
    """As a launcher does: when one is gone, so are the others soon."""
    gone, _ = os.wait()
    time.sleep(0.05)
    for child in children:
        if child != gone:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def emptied(root):
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    (root.parent / "store").unlink(missing_ok=True)


def start(root, way, steps, **environment):
    # No port of another machine's address is opened.
    return [forked(lambda rank=rank: save_steps(root, way, rank, steps), RANK=rank, GLOO_SOCKET_IFNAME="lo", **environment)
            for rank in range(RANKS)]


def calls_of(root, way):
    """Numbers of the calls of the save of step STRUCK, by rank."""
    out = {}
    for steps in (STRUCK - 1, STRUCK):
        emptied(root)
        report = root.parent / "report"
        report.unlink(missing_ok=True)
        for child in start(root, way, steps, TESSERA_FAULT_FOLDER=root, TESSERA_FAULT_REPORT=report):
            os.waitpid(child, 0)
        rows = [line.split(" ", 3) for line in report.read_text().splitlines()]
        for rank in range(RANKS):
            count = sum(int(row[0]) == rank for row in rows)
            out[rank] = range(out[rank].start, count + 1) if rank in out else range(count + 1, 0)
    return out


def main():
    library, kills = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    if os.environ.get("LD_PRELOAD") != library:
        os.environ["LD_PRELOAD"] = library
        os.execv(sys.executable, [sys.executable, *sys.argv])
    chance = random.Random(seed)
    base = pathlib.Path(tempfile.mkdtemp(prefix="dcp_")).resolve()
    root = base / "run"
    warm_up(base / "warm")
    reasons = collections.Counter()
    print(f"{'saves into':12} {'killed':24} {'states':>6} {'whole':>6} {'torn':>6} {'unreadable':>10} {'mixed':>6}")
    for way in ("folders", "one"):
        tally = collections.Counter()

        def count(kind, judged):
            word, why = judged
            tally[kind, word] += 1
            if word != "whole":
                reasons[way, word, why] += 1

        kinds = ("at every call", "a rank at random", "all at random")
        for rank, calls in calls_of(root, way).items():
            for at in calls:
                for does in ("kill-before", "kill-after"):
                    emptied(root)
                    end(start(root, way, STRUCK, TESSERA_FAULT_FOLDER=root, TESSERA_FAULT_WHERE=f"RANK={rank}",
                              TESSERA_FAULT_AT=at, TESSERA_FAULT_DOES=does))
                    count(kinds[0], judge(root, way))
        for _ in range(kills):
            emptied(root)
            kind = chance.choice(kinds[1:])
            children = start(root, way, STEPS)
            while not any(root.glob("*/.metadata")):
                time.sleep(0.001)
            time.sleep(chance.random() * 0.3)
            for child in children if kind == kinds[2] else [chance.choice(children)]:
                os.kill(child, signal.SIGKILL)
            end(children)
            count(kind, judge(root, way))
        for kind in kinds:
            whole, mixed = tally[kind, "whole"], tally[kind, "mixed"]
            unreadable = tally[kind, "unreadable"] + tally[kind, "nothing"]
            print(f"{way:12} {kind:24} {whole + mixed + unreadable:6} {whole:6} {mixed + unreadable:6} {unreadable:10} {mixed:6}",
                  flush=True)
    for (way, word, why), times in reasons.most_common():
        print(f"{way}, {word} x {times}: {why}")
    print(f"torch {torch.__version__}, {RANKS} ranks, seed {seed}")
    shutil.rmtree(base)


if __name__ == "__main__" and os.environ.get("LD_PRELOAD") == (sys.argv + [None])[1]:
    import torch
    import torch.distributed as dist
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")

if __name__ == "__main__":
    main()
