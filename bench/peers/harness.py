"""Measures all comparisons of systems alike: on a quiet machine, in turns, with medians, quartiles and the load of others.

Before each run the harness waits until the rest of the machine is idle. During the run it counts the processor time that others
used. Tables have the largest such share, which marks the figures of a busy machine.
"""
import os
import pathlib
import statistics
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")
MOST_BUSY = 0.08  # share of all cores
LOOK_SECONDS = 2.0


def machine_seconds():
    """Processor seconds that the machine has spent so far, on anything, with those that a hypervisor took away."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, irq, softirq, steal = (int(field) for field in file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICKS


def own_seconds():
    """Those of this process, its descendants, and the ones among them that have ended."""
    parents, seconds = {}, {}
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue  # has ended meanwhile
        pid = int(path.parent.name)
        parents[pid], seconds[pid] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS
    own = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(seconds[pid] for pid in own)


class Load:
    """The share of all cores that others use from here on."""

    def __init__(self):
        self.begin, self.machine, self.own = time.monotonic(), machine_seconds(), own_seconds()

    def share(self):
        cores = os.cpu_count() * (time.monotonic() - self.begin)
        others = (machine_seconds() - self.machine) - (own_seconds() - self.own)
        return min(1.0, max(0.0, others / cores))


def wait_until_quiet(patience):
    """Returns when others have been idle for two seconds. Ends the process if that does not happen within `patience` seconds; if
    that is 0, it does not wait."""
    deadline = time.monotonic() + patience
    is_first = True
    while patience > 0:
        load = Load()
        time.sleep(LOOK_SECONDS)
        busy = load.share()
        if busy < MOST_BUSY:
            return
        if time.monotonic() > deadline:
            sys.exit(f"the machine was not quiet within {patience:.0f} s: others use {100 * busy:.0f} % of it, and at most "
                     f"{100 * MOST_BUSY:.0f} % is allowed. --patience 0 measures anyway.")
        if is_first:
            print(f"waiting for a quiet machine: others use {100 * busy:.0f} % of it", file=sys.stderr, flush=True)
        is_first = False


def take_turns(systems, rounds, run, patience, after_round=lambda: None):
    """For each system what `run` returned for it in each round, an object to which the "load" is added. The order turns, so that
    no system always runs after the same one."""
    found = [[] for _ in systems]
    for number in range(rounds):
        for turn in range(len(systems)):
            which = (number + turn) % len(systems)
            wait_until_quiet(patience)
            load = Load()
            result = run(systems[which])
            found[which].append(result | {"load": load.share()})
        after_round()
    return found


def spread(values):
    """Median and quartiles."""
    values = list(values)
    low, median, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": median, "quartiles": [low, high], "values": values}


def spread_text(of, digits=2):
    low, high = of["quartiles"]
    return f"{of['median']:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def times_faster(ours, theirs):
    """Rounds of both: how many times faster ours were, round by round. Above 1 ours is faster."""
    return spread(statistics.median(b["seconds"]) / statistics.median(a["seconds"]) for a, b in zip(ours, theirs))


def most_load(*systems):
    return max(result["load"] for rounds in systems for result in rounds)


def add_options(parser, rounds):
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--patience", type=float, default=1800, metavar="SECONDS",
                        help="how long to wait for a quiet machine (default: 1800); 0 measures at once, whatever the load")
    parser.add_argument("--build", default="build/release", help="folder of tessera")
    parser.add_argument("--json", action="store_true")
