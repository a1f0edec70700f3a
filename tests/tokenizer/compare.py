"""Compares tokens and decoded texts with the pip package `tokenizers`, one tokenizer per kind and split pattern.

Trains each tokenizer, asks the program `tokens` (tests/tokenizer/tokens.cpp) for the tokens of many texts, and exits 1 at the first
difference. Prints how much of what was compared. A text that `tokenizers` decodes to itself must decode to itself here too.
"""
import argparse
import json
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time

import kinds
import texts

BATCH_BYTES = 2_000_000


class Answers:
    """The program, asked for batches of texts."""

    def __init__(self, program, path):
        self.command = [program, str(path)]

    def of(self, batch):
        questions = b"".join(struct.pack("<I", len(text)) + text for text in batch)
        done = subprocess.run(self.command, input=questions, stdout=subprocess.PIPE, check=True)
        out, at = done.stdout, 0
        for _ in batch:
            (count,) = struct.unpack_from("<I", out, at)
            tokens = struct.unpack_from(f"<{count}i", out, at + 4)
            at += 4 + 4 * count
            decoded = []
            for _ in range(2):
                (length,) = struct.unpack_from("<I", out, at)
                decoded.append(out[at + 4:at + 4 + length].decode())
                at += 4 + length
            yield list(tokens), *decoded


def batches(sequence):
    """Names and bytes of texts, together as long as one call of the program is worth."""
    batch, size = [], 0
    for name, text in sequence:
        text = text if isinstance(text, bytes) else text.encode()
        batch.append((name, text))
        size += len(text)
        if size > BATCH_BYTES or len(batch) > 100_000:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def expect_equal(where, text, what, theirs, ours):
    if theirs != ours:
        at = next((i for i, (x, y) in enumerate(zip(theirs, ours)) if x != y), min(len(theirs), len(ours)))
        sys.exit(f"{where}: {what} differ at {at} of {text[:200]!r}\n  tokenizers {theirs[max(0, at - 5):at + 10]!r}\n"
                 f"  here       {ours[max(0, at - 5):at + 10]!r}")


def compare(kind, tokenizer, answers, sequence):
    counts = {}
    for batch in batches(sequence):
        known = [text.decode(errors="replace") for _, text in batch]
        tokens = [each.ids for each in tokenizer.encode_batch_fast(known, add_special_tokens=False)]
        whole = tokenizer.decode_batch(tokens, skip_special_tokens=False)
        plain = tokenizer.decode_batch(tokens, skip_special_tokens=True)
        theirs = zip(tokens, whole, plain)
        for (name, data), text, wanted, ours in zip(batch, known, theirs, answers.of([text for _, text in batch])):
            for what, a, b in zip(("tokens", "decoded texts", "texts without special tokens"), wanted, ours):
                expect_equal(f"{kind}, {name}", text, what, a, b)
            num_texts, num_bytes, same = counts.get(name, (0, 0, 0))
            counts[name] = num_texts + 1, num_bytes + len(data), same + (wanted[1] == text)
    for name, (num_texts, num_bytes, same) in counts.items():
        print(f"{kind:18} {name:15} {num_texts:9,} texts {num_bytes:12,} bytes, all equal; {same:,} decode to themselves", flush=True)


def named_texts(own):
    """All that every tokenizer is asked, with the name of its source. Made once, but for the code points."""
    draw = random.Random(own.seed)
    made = {"traps": ["", *texts.TRAPS, "".join(texts.TRAPS), *map(" x{}1".format, texts.TRAPS)],
            "invalid UTF-8": list(texts.invalid(draw, own.strings)),
            "random strings": list(texts.random_strings(draw, own.strings)),
            "mixed text": list(texts.mixed(draw, int(own.megabytes * 1e6)))}

    def each():
        yield from ((name, text) for name, source in made.items() for text in source)
        yield from (("code points", text) for text in texts.code_points(own.step))

    return each


def compare_learned(program, folder, text):
    """Is a tokenizer learned here what the package's own trainer makes, and does the package read it?"""
    path = folder / "text.txt"
    path.write_bytes(text.encode())
    for split in ("gpt2", "llama3", "qwen2"):
        made = [subprocess.run([program, "learn", path, split, "1500", threads], stdout=subprocess.PIPE, check=True).stdout
                for threads in "13"]
        if made[0] != made[1]:
            sys.exit(f"learn {split}: three threads make another tokenizer than one")
        ours = json.loads(made[0])
        theirs = json.loads(kinds.trained_like(split, text, 1500).to_str())
        for part in ("vocab", "merges"):
            if ours["model"][part] != theirs["model"][part]:
                sys.exit(f"learn {split}: another {part} than the package's trainer")
        if kinds.Tokenizer.from_str(made[0].decode()).encode(text).ids != kinds.Tokenizer.from_str(json.dumps(theirs)).encode(text).ids:
            sys.exit(f"learn {split}: the package reads another tokenizer out of it")
        print(f"learn {split}: {len(ours['model']['merges']):,} merges of {len(text.encode()):,} bytes, as the package's trainer has them")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program tokens")
    parser.add_argument("--megabytes", type=float, default=0.1, help="of mixed text and code, for each tokenizer (full size: 50)")
    parser.add_argument("--strings", type=int, default=300, help="of random code points (full size: 100000)")
    parser.add_argument("--step", type=int, default=4999, help="every so many-th code point (full size: 1)")
    parser.add_argument("--kinds", nargs="*", default=list(kinds.KINDS), help="some of the tokenizers")
    parser.add_argument("--probes", type=int, default=1, help="models by bytes that show where words end, for each split")
    parser.add_argument("--seed", type=int, default=1)
    own = parser.parse_args()
    begun = time.time()
    training = list(texts.mixed(random.Random(own.seed), 80_000))
    asked = named_texts(own)
    with tempfile.TemporaryDirectory() as folder:
        compare_learned(own.program, pathlib.Path(folder), "".join(training))
        for kind in own.kinds:
            trained, probes = kinds.train(kind, training), [kinds.probe(kind, own.seed + i) for i in range(own.probes)]
            for name, tokenizer in [(kind, trained), *((f"{kind} probe", each) for each in probes if each)]:
                path = pathlib.Path(folder) / "tokenizer.json"
                tokenizer.save(str(path))
                compare(name, tokenizer, Answers(own.program, path), asked())
    print(f"compared in {time.time() - begun:.0f} s")


if __name__ == "__main__":
    main()
