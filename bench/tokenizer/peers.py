"""Encoding on one thread beside the pip packages `tokenizers` and `gigatoken`: English, code and Chinese.

Trains two tokenizers (the split patterns of Llama 3 and GPT-2, 50,000 tokens) with `tokenizers`, or takes them from FOLDER if they are
there, and lets each encoder encode each text once, in a fresh process, rounds interleaved. Counted is processor time of the encoding
alone, so that others on the machine disturb less; gigatoken has encoded two words before, because its first call sets things up.
`tokenizers` gets 3 MB of the text in pieces of 2,000 characters, the others the whole of it.

  python bench/tokenizer/peers.py build/release/tokenizer_speed FOLDER ENGLISH CODE CHINESE [--rounds N]
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys

os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "0"}
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/tokenizer"))
KINDS = ("llama3", "gpt2")

TOKENIZERS = """
import sys, time
from tokenizers import Tokenizer
tokenizer, text = Tokenizer.from_file(sys.argv[1]), open(sys.argv[2], "rb").read().decode()
pieces = [text[at:at + 2000] for at in range(0, min(len(text), 3_000_000), 2000)]
begun = time.process_time()
for piece in pieces:
    tokenizer.encode(piece, add_special_tokens=False)
print(time.process_time() - begun, sum(len(piece.encode()) for piece in pieces))
"""
GIGATOKEN = """
import sys, time, gigatoken
tokenizer, text = gigatoken.Tokenizer(sys.argv[1]), open(sys.argv[2], "rb").read()
tokenizer.encode_batch(gigatoken.BytesSource(b"two words"))
begun = time.process_time()
tokenizer.encode_batch(gigatoken.BytesSource(text))
print(time.process_time() - begun, len(text))
"""


def train(kind, path, texts):
    import kinds
    from tokenizers import trainers, pre_tokenizers
    tokenizer, _, _ = kinds.KINDS[kind]()
    tokenizer.train([str(text) for text in texts], trainers.BpeTrainer(
        vocab_size=50000, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"], show_progress=False))
    tokenizer.save(str(path))


def printed(words):
    return subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True).stdout.split()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("texts", type=pathlib.Path, nargs=3, metavar="TEXT", help="English, code, Chinese")
    parser.add_argument("--rounds", type=int, default=3)
    own = parser.parse_args()
    speeds = {}
    for kind in KINDS:
        path = own.folder / f"{kind}.json"
        if not path.exists():
            train(kind, path, own.texts)
    for _ in range(own.rounds):
        for kind in KINDS:
            path = str(own.folder / f"{kind}.json")
            for text in own.texts:
                seconds, _ = map(float, printed([own.program, path, str(text)]))
                speeds.setdefault((kind, text.stem, "tessera"), []).append(text.stat().st_size / seconds / 1e6)
                for name, code in (("tokenizers", TOKENIZERS), ("gigatoken", GIGATOKEN)):
                    seconds, size = map(float, printed([sys.executable, "-c", code, path, str(text)]))
                    speeds.setdefault((kind, text.stem, name), []).append(size / seconds / 1e6)
    print("MB/s of processor time, median (lowest to highest) of", own.rounds, "rounds; load", *os.getloadavg())
    for kind in KINDS:
        for text in own.texts:
            found = {name: speeds[kind, text.stem, name] for name in ("tessera", "tokenizers", "gigatoken")}
            cells = [f"{name} {statistics.median(each):.1f} ({min(each):.1f} to {max(each):.1f})" for name, each in found.items()]
            ours = statistics.median(found["tessera"])
            print(f"{kind:8} {text.stem:8}", *cells, f"= {ours / statistics.median(found['tokenizers']):.1f} and "
                  f"{ours / statistics.median(found['gigatoken']):.2f} times")


if __name__ == "__main__":
    main()
