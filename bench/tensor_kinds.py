#!/usr/bin/env python3
"""When does each kind of tensor parallelism pay? Step time of one block, forward and backward, as `tessera simulate` has it.

    bench/tensor_kinds.py build/release/tessera docs/images/tensor/kinds.svg

Draws a panel for each width and each network and prints the same as a table. A block's time is that of a model of two less that of
one. What a rank sends while it multiplies is priced as if it waited: 2d and 2.5d by steps are no slower than drawn. About a minute.
"""
import json
import subprocess
import sys
import tempfile

TOKENS = (16, 2048)  # samples of a micro-batch, and tokens of each
WIDTHS = (4096, 16384, 65536)
# TFLOP/s, GB/s of memory, GB/s of a link, microseconds of a message: alpha is the last, beta one over the third.
NETWORKS = {"one node, 450 GB/s, 5 µs": (400, 3000, 450, 5), "many nodes, 50 GB/s, 15 µs": (400, 3000, 50, 15)}
KINDS = {
    "1d": [(4, ""), (8, ""), (16, ""), (32, ""), (64, "")],
    "2d": [(4, ""), (16, ""), (64, "")],
    "2.5d": [(8, "layout.tp_depth=2"), (16, "layout.tp_depth=4"), (32, "layout.tp_depth=2"), (64, "layout.tp_depth=4")],
    "3d": [(8, ""), (64, "")],
}
COLOURS = {"1d": "#4e5d6c", "2d": "#2a78d6", "2.5d": "#1a9e77", "3d": "#d95f02"}

RUN = """[model]
hidden = {hidden}
heads = {heads}
kv_heads = {heads}
ffn = {ffn}
vocab = 1024
sequence = {sequence}
[training]
global_batch = {samples}
[layout]
micro_batch = {samples}
precision = "bf16"
"""


def step_seconds(binary, run, rates, *overrides):
    command = [binary, "simulate", run, *overrides, "--json", "--rates", ",".join(map(str, rates))]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["makespan"]


def block_seconds(binary, run, rates, kind, tp, more):
    layout = [f"layout.tp_kind={kind}", f"layout.tp={tp}", *more.split()]
    return step_seconds(binary, run, rates, "model.layers=2", *layout) - step_seconds(binary, run, rates, "model.layers=1", *layout)


def measured(binary):
    out = {}
    for width in WIDTHS:
        with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
            file.write(RUN.format(hidden=width, heads=width // 64, ffn=4 * width, samples=TOKENS[0], sequence=TOKENS[1]))
            file.flush()
            for network, rates in NETWORKS.items():
                for kind, sizes in KINDS.items():
                    for tp, more in sizes:
                        out[network, width, kind, tp] = 1e3 * block_seconds(binary, file.name, rates, kind, tp, more)
    return out


def svg(found):
    width, height, left, top, gap = 290, 210, 60, 78, 78
    columns, rows = len(WIDTHS), len(NETWORKS)
    total_width, total_height = left + columns * (width + gap) - gap + 40, top + rows * (height + gap) + 20
    sizes = [4, 8, 16, 32, 64]
    text = 'font-family="Helvetica, Arial, sans-serif"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total_width} {total_height}" {text} font-size="12" fill="#24292f">',
        f'<rect width="{total_width}" height="{total_height}" fill="#ffffff"/>',
        f'<text x="{left}" y="24" font-size="16" font-weight="bold">Time of one block over ranks of tp, 1d = 1</text>',
        f'<text x="{left}" y="44" fill="#57606a">{TOKENS[0] * TOKENS[1]:,} tokens a micro-batch, forward and backward, bf16, '
        "400 TFLOP/s a device; below the line 1d is slower</text>",
    ]
    for row, network in enumerate(NETWORKS):
        for column, hidden in enumerate(WIDTHS):
            x0, y0 = left + column * (width + gap), top + row * (height + gap) + 10
            points = {k: [(tp, found[network, hidden, k, tp] / found[network, hidden, "1d", tp]) for tp, _ in KINDS[k]] for k in KINDS}
            highest = max(1.25, max(y for list_ in points.values() for _, y in list_) * 1.08)
            px = lambda tp: x0 + sizes.index(tp) * width / (len(sizes) - 1)
            py = lambda y: y0 + height - y / highest * height
            out.append(f'<text x="{x0}" y="{y0 - 8}" font-weight="bold">hidden {hidden:,}; {network}</text>')
            step = 0.25 if highest < 1.6 else 0.5 if highest < 3.2 else 1
            ticks = [step * i for i in range(int(highest / step) + 1)]
            for tick in ticks:
                out.append(f'<line x1="{x0}" x2="{x0 + width}" y1="{py(tick):.1f}" y2="{py(tick):.1f}" stroke="#d8dee4"/>')
                out.append(f'<text x="{x0 - 8}" y="{py(tick) + 4:.1f}" text-anchor="end" fill="#57606a">{tick:g}</text>')
            for tp in sizes:
                out.append(f'<text x="{px(tp):.1f}" y="{y0 + height + 18}" text-anchor="middle" fill="#57606a">{tp}</text>')
            for kind, list_ in points.items():
                path = " ".join(f"{px(tp):.1f},{py(y):.1f}" for tp, y in list_)
                out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[kind]}" stroke-width="2"/>')
                for tp, y in list_:
                    out.append(f'<circle cx="{px(tp):.1f}" cy="{py(y):.1f}" r="4" fill="{COLOURS[kind]}"/>')
            out.append(f'<text x="{x0 + width / 2}" y="{y0 + height + 36}" text-anchor="middle" fill="#57606a">ranks of tp</text>')
    for i, kind in enumerate(KINDS):
        x = total_width - 300 + 72 * i
        out.append(f'<line x1="{x}" x2="{x + 22}" y1="20" y2="20" stroke="{COLOURS[kind]}" stroke-width="3"/>')
        out.append(f'<text x="{x + 28}" y="24">{kind}</text>')
    return "\n".join(out + ["</svg>\n"])


def main():
    binary, picture = sys.argv[1:3]
    found = measured(binary)
    for network in NETWORKS:
        print(f"\n{network}\n\n| hidden | kind |" + "".join(f" tp {tp} |" for tp in (4, 8, 16, 32, 64)) + "\n|---|---|" + "--:|" * 5)
        for width in WIDTHS:
            for kind in KINDS:
                cells = [f"{found[network, width, kind, tp]:.2f}" if (network, width, kind, tp) in found else "" for tp in (4, 8, 16, 32, 64)]
                print(f"| {width:,} | {kind} | " + " | ".join(cells) + " |")
    with open(picture, "w") as file:
        file.write(svg(found))


if __name__ == "__main__":
    main()
