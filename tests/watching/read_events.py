"""Does TensorBoard read from the event files what metrics.jsonl says? Usage: read_events.py FOLDER, the --out of a run."""
import json
import math
import pathlib
import struct
import sys

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

NOT_SCALARS = {"step", "time", "run", "host", "tokens", "total_tokens", "taken", "moved"}


def as_float32(x):
    return struct.unpack("f", struct.pack("f", x))[0]


folder = pathlib.Path(sys.argv[1])
lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
assert lines, "metrics.jsonl is empty"
for line in lines:
    for part in line["moved"]:
        for what in ("bytes", "calls"):
            line[f"moved/{part['axes']}/{part['kind']}_{what}"] = part[what]
events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"tensors": 0, "scalars": 0})
events.Reload()
tags = {tag if tag.startswith("moved/") else tag.split("/")[-1]: tag for tag in events.Tags()["scalars"]}
assert set(tags) == set(lines[0]) - NOT_SCALARS, f"tags are {sorted(tags)}"
for name, tag in tags.items():
    found = [(event.step, event.value) for event in events.Scalars(tag)]
    expected = [(line["step"], as_float32(line[name])) for line in lines if line[name] is not None]
    assert found == expected, f"{tag}: {found} instead of {expected}"
times = [event.wall_time for event in events.Scalars(tags["loss"])]
assert times == sorted(times) and all(math.isfinite(time) for time in times)
calls = sum(tag.startswith("moved/") for tag in tags)
print(f"{len(tags)} scalars of {len(lines)} steps agree, {calls} of them of calls")
