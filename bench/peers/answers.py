"""How a peer's rank answers the harness (training.Answering): a line with its parameters, then, for each line `step N`, the
seconds and losses of so many steps; for a line `restart`, that it has its first weights again."""
import json
import sys
import time


def answer(parameters, step, restart=None):
    print(json.dumps({"parameters": parameters}), flush=True)
    for line in sys.stdin:
        seconds, losses = [], []
        if line == "restart\n":
            restart()
        else:
            for _ in range(int(line.split()[1])):
                start = time.perf_counter()
                losses.append(step())
                seconds.append(time.perf_counter() - start)
        print(json.dumps({"seconds": seconds, "losses": losses}), flush=True)
