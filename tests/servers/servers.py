"""Do workers that don't wait for each other come to what their log says, and do they go on without one that is killed?

  servers.py BINARY [--runs 20] [--kills 20] [--seed 1]

Trains with four workers and one to three servers as processes, half of the runs asynchronous and half bounded (staleness 0 to 3). In
--runs of them random workers are stopped for random times (SIGSTOP, SIGCONT); in --kills one worker is killed at a random instant.
Each run must end well, and `tessera verify --replay` must come to the same weights, bit for bit, with no worker too far ahead. About 5 s a run.
"""
import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from job_processes import ranks_of, send  # noqa: E402

WORKERS = 4


def delay(launcher, draw, over):
    while not over.is_set():
        ranks = ranks_of(launcher)
        worker = ranks.get(draw.randrange(WORKERS))
        if worker:
            send(worker, signal.SIGSTOP)
            over.wait(draw.uniform(0.005, 0.2))
            send(worker, signal.SIGCONT)
        over.wait(draw.uniform(0, 0.02))


def pushes_in(log):
    return log.read_text().count('"version"') if log.exists() else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    draw = random.Random(arguments.seed)
    wrong, stale = 0, []
    for number in range(arguments.runs + arguments.kills):
        kills = number >= arguments.runs
        servers, staleness = draw.randint(1, 3), draw.randint(0, 3)
        updates = ["layout.updates=asynchronous"] if number % 2 else ["layout.updates=bounded", f"layout.staleness={staleness}"]
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder, "out")
            job = subprocess.Popen([arguments.binary, "train", "examples/tiny.toml", "model.layers=1", "model.sequence=32", f"layout.dp={WORKERS}",
                                    f"layout.servers={servers}", *updates, "layout.micro_batch=2", "training.steps=25", "--json", "--out", str(out)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            over = threading.Event()
            told = []
            reader = threading.Thread(target=lambda: told.extend(job.communicate()))
            reader.start()
            beside = None
            lost = None
            if kills:
                at = draw.randrange(1, 70)
                while job.poll() is None and pushes_in(out / "updates.jsonl") < at:
                    time.sleep(0.002)
                lost = draw.randrange(WORKERS)
                send(ranks_of(job.pid)[lost], signal.SIGKILL)
            else:
                beside = threading.Thread(target=delay, args=(job.pid, random.Random(draw.random()), over))
                beside.start()
            reader.join()
            over.set()
            if beside:
                beside.join()
            replay = subprocess.run([arguments.binary, "verify", str(out / "run.toml"), "--replay", str(out / "updates.jsonl"), "--json"], capture_output=True, text=True)
            found = json.loads(replay.stdout) if replay.stdout else {}
            log = (out / "updates.jsonl").read_text()
            done = [log.count(f'"worker": {worker}, "worker_step"') for worker in range(WORKERS)]
            others_done = all(count == 25 for worker, count in enumerate(done) if worker != lost)
            good = job.returncode == 0 and replay.returncode == 0 and others_done and (not kills or '"lost_after"' in log)
            wrong += not good
            stale.append(found.get("mean_versions", 0))
            print(f"{'killed worker ' + str(lost) if kills else 'delayed'}, {servers} server(s), {' '.join(updates)}: updates by worker {done}, replay "
                  f"{'equal' if found.get('passed') else 'NOT EQUAL'}, most ahead {found.get('most_ahead')}, mean {found.get('mean_versions', 0):.2f} versions old"
                  f"{'' if good else ' WRONG'}", flush=True)
            if not good:
                print(told[1][-3000:], replay.stdout, replay.stderr)
    print(f"{arguments.runs} runs with delays, {arguments.kills} with a worker killed: {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
