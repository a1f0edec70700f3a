#!/usr/bin/env python3
"""Draws the losses of several runs in one picture.

  .venv/bin/python bench/loss_curves.py OUT.svg NAME=METRICS.jsonl... [--mean 10] [--title TEXT]

Each run is a line: the mean of the last --mean steps at each step, from the --mean-th on. The y axis begins at the lowest loss.
"""
import argparse
import json

COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 460, 70, 230, 46, 50


def means(path, n):
    with open(path) as file:
        losses = [record["loss"] for record in map(json.loads, file) if "loss" in record]
    return [(step, sum(losses[step - n:step]) / n) for step in range(n, len(losses) + 1)]


def ticks(low, high, about):
    step = next(s for s in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if (high - low) / s <= about)
    first = -(-low // step)
    return [round((first + i) * step, 6) for i in range(int((high - first * step) / step) + 1)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--mean", type=int, default=10)
    parser.add_argument("--title", default="")
    arguments = parser.parse_args()
    runs = [(name, means(path, arguments.mean)) for name, path in (run.rsplit("=", 1) for run in arguments.runs)]
    points = [point for _, line in runs for point in line]
    x0, x1 = min(p[0] for p in points), max(p[0] for p in points)
    y0, y1 = min(p[1] for p in points), max(p[1] for p in points)
    x = lambda step: LEFT + (step - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
    y = lambda loss: HEIGHT - BOTTOM - (loss - y0) / (y1 - y0) * (HEIGHT - TOP - BOTTOM)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">',
           f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', f'<text x="{LEFT}" y="26" font-size="15">{arguments.title}</text>']
    for tick in ticks(y0, y1, 8):
        out.append(f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/><text x="{LEFT - 8}" y="{y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for tick in ticks(x0, x1, 8):
        out.append(f'<text x="{x(tick):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{tick:g}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 10}" text-anchor="middle">steps</text>')
    # Names beside the ends of their lines, in their order, and not over each other.
    ends = sorted(((y(line[-1][1]), i) for i, (_, line) in enumerate(runs)))
    at = []
    for place, i in ends:
        place = max(place, at[-1][0] + 18) if at else place
        at.append((place, i))
    over = max(0, at[-1][0] - (HEIGHT - BOTTOM))
    places = {i: place - over for place, i in at}
    for i, (name, line) in enumerate(runs):
        color = COLORS[i % len(COLORS)]
        path = " ".join(f"{'M' if j == 0 else 'L'}{x(step):.1f} {y(loss):.1f}" for j, (step, loss) in enumerate(line))
        out.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-width="1.8"/>')
        out.append(f'<path d="M{x(line[-1][0]):.1f} {y(line[-1][1]):.1f}L{WIDTH - RIGHT + 14} {places[i]:.1f}" stroke="{color}" fill="none"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 18}" y="{places[i] + 4:.1f}" fill="{color}">{name}  {line[-1][1]:.3f}</text>')
    with open(arguments.out, "w") as file:
        file.write("\n".join(out) + "\n</svg>\n")


if __name__ == "__main__":
    main()
