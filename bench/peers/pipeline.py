"""A pipeline of two ranks: Tessera beside PyTorch's own torch.distributed.pipelining, schedule by schedule, in turns.

  .venv/bin/python bench/peers/pipeline.py [--row 1f1b] [--rounds 5] [--steps 3] [--sequence 256] [--json]

The same 44M-parameter Llama in fp32, the same blocks on each stage, 8 micro-batches of one sample, AdamW and clipping, two
processes over Gloo, one thread and one core each; one system runs at a time. A round is a few steps of both; the table shows
medians of the steps, and the median over rounds of PyTorch's step / Tessera's: above 1 Tessera is faster. Peak memory is VmHWM of
a rank over the measured steps, the larger of the two ranks; "model" is that less what the same system holds for a tiny model.
Both start from weights drawn alike; if parameters or losses are not alike, the run fails.
"""
import argparse
import json
import pathlib
import statistics
import sys
import tempfile
from dataclasses import dataclass

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from harness import most_load, spread_text, take_turns, times_faster  # noqa: E402
from model import SIZES  # noqa: E402
from training import ROOT, TEXT, Answering, Tessera, add_options, parsed  # noqa: E402

RANKS, MICRO_BATCHES, WARM_UP = 2, 8, 2
MOST_LOSS_APART = 0.05  # of the loss: other weights and samples, drawn alike


@dataclass
class Row:
    schedule: str  # Tessera's word
    theirs: str  # PyTorch's class
    blocks: list  # of each stage; the first has the embedding too, the last the head, as heavy as 1.4 blocks
    vee: bool = False  # the second half goes back from the last rank to the first

    def stages(self, blocks):
        """For each stage its rank and its blocks [first, end)."""
        ranks = [s if s < RANKS or not self.vee else 2 * RANKS - 1 - s for s in range(len(blocks))]
        ends = [sum(blocks[:s + 1]) for s in range(len(blocks))]
        return [[rank % RANKS, [end - size, end]] for rank, size, end in zip(ranks, blocks, ends)]


ROWS = [Row("gpipe", "ScheduleGPipe", [7, 5]), Row("1f1b", "Schedule1F1B", [7, 5]),
        Row("interleaved", "ScheduleInterleaved1F1B", [4, 3, 3, 2]), Row("zb-h1", "ScheduleInterleavedZeroBubble", [7, 5]),
        Row("zb-v", "ScheduleZBVZeroBubble", [3, 4, 3, 2], vee=True), Row("dualpipe-v", "ScheduleDualPipeV", [3, 4, 3, 2], vee=True)]


def pytorch(row, sizes, blocks):
    options = {"schedule": row.theirs, "stages": row.stages(blocks), "sizes": sizes, "text": TEXT}
    return Answering([sys.executable, ROOT / "bench/peers/torch_pipeline.py", json.dumps(options)], RANKS, WARM_UP)


def tessera(binary, row, sizes, blocks, folder):
    units = [size + (s == 0) + (s == len(blocks) - 1) for s, size in enumerate(blocks)]
    layout = {"pp": RANKS, "schedule": row.schedule, "virtual_stages": len(blocks) // RANKS, "stages": ",".join(map(str, units))}
    return Tessera(binary, sizes, layout, folder, WARM_UP)


def check_alike(row, ours, theirs):
    steps = min(len(ours.losses), len(theirs.losses))
    apart = max(abs(a / b - 1) for a, b in zip(ours.losses, theirs.losses))
    if ours.parameters != theirs.parameters or apart > MOST_LOSS_APART:
        sys.exit(f"{row.schedule}: not the same computation: {ours.parameters} and {theirs.parameters} parameters, losses "
                 f"{ours.losses[:steps]} and {theirs.losses[:steps]}")


def sizes_for(size, sequence):
    return SIZES[size] | {"sequence": sequence, "batch": MICRO_BATCHES, "micro_batch": 1}


def peaks_of_nothing(options, folder):
    """What each system holds for a model of next to nothing, by rank."""
    row, sizes, blocks = ROWS[1], sizes_for("tiny", 32) | {"vocab": 256}, [1, 1]
    systems = (tessera(options.binary, row, sizes, blocks, folder), pytorch(row, sizes, blocks))
    peaks = [max(system.run(options.steps)["peak_bytes"]) for system in systems]
    for system in systems:
        system.close()
    return peaks


def measure(options, rows, folder):
    """For each row the results of ours and of theirs, by round."""
    sizes = sizes_for("44M", options.sequence)
    results = []
    for row in rows:
        place = pathlib.Path(folder, row.schedule)
        place.mkdir()
        pair = tessera(options.binary, row, sizes, row.blocks, place), pytorch(row, sizes, row.blocks)
        results.append(take_turns(pair, options.rounds, lambda system: system.run(options.steps), options.patience))
        for system in pair:
            system.close()
        check_alike(row, *pair)
    return results


def report(row, found, nothing, tokens):
    out = {"schedule": row.schedule, "torch_schedule": row.theirs, "blocks": row.blocks}
    for name, rounds, base in zip(("tessera", "torch"), found, nothing):
        peaks = [statistics.median(r["peak_bytes"][rank] for r in rounds) for rank in range(RANKS)]
        seconds = [s for r in rounds for s in r["seconds"]]
        out[name] = {"step_seconds": statistics.median(seconds), "tokens_per_second": tokens / statistics.median(seconds),
                     "seconds": seconds, "peak_bytes": peaks, "peak_bytes_of_model": max(peaks) - base}
    out["times_faster"], out["load"] = times_faster(*found), most_load(*found)
    out["memory_ratio"] = max(out["tessera"]["peak_bytes"]) / max(out["torch"]["peak_bytes"])
    out["model_memory_ratio"] = out["tessera"]["peak_bytes_of_model"] / out["torch"]["peak_bytes_of_model"]
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row", action="append", choices=[row.schedule for row in ROWS])
    add_options(parser)
    options = parsed(parser)
    rows = [row for row in ROWS if row.schedule in (options.row or [r.schedule for r in ROWS[:5]])]
    with tempfile.TemporaryDirectory() as folder:
        nothing = peaks_of_nothing(options, folder)
        found = measure(options, rows, folder)
    reports = [report(row, f, nothing, MICRO_BATCHES * options.sequence) for row, f in zip(rows, found)]
    if options.json:
        print(json.dumps({"rows": reports, "peak_bytes_of_nothing": dict(zip(("tessera", "torch"), nothing))}))
        return
    print(f"{'':30}{'tokens/s':>17}{'':22}{'peak MiB of a rank':>24}{'of it the model':>22}")
    print(f"{'schedule':12}{'PyTorch':18}{'ours':>8}{'theirs':>9}{'faster':>22}{'ours':>9}{'theirs':>8}{'ratio':>7}"
          f"{'ours':>8}{'theirs':>8}{'ratio':>7}{'load':>6}")
    for r in reports:
        ours, theirs = r["tessera"], r["torch"]
        mib = [x / 2**20 for s in (ours, theirs) for x in (max(s["peak_bytes"]), s["peak_bytes_of_model"])]
        print(f"{r['schedule']:12}{r['torch_schedule'].removeprefix('Schedule'):18.17}{ours['tokens_per_second']:8.0f}"
              f"{theirs['tokens_per_second']:9.0f}{spread_text(r['times_faster']):>22}{mib[0]:9.0f}{mib[2]:8.0f}{r['memory_ratio']:7.2f}"
              f"{mib[1]:8.0f}{mib[3]:8.0f}{r['model_memory_ratio']:7.2f}{r['load']:6.2f}")


if __name__ == "__main__":
    main()
