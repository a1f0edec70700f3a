"""How a peer's rank answers the harness (training.Answering): a line with its parameters, then, for each line `run N`, the
seconds and losses of so many steps."""
import json
import sys
import time


def answer(parameters, step):
    print(json.dumps({"parameters": parameters}), flush=True)
    for line in sys.stdin:
        seconds, losses = [], []
        for _ in range(int(line.split()[1])):
            start = time.perf_counter()
            losses.append(step())
            seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "losses": losses}), flush=True)
