"""Compares tokens and decoded texts of SentencePiece models with the pip package `sentencepiece`, one model per kind.

Trains each model, asks the program `tokens` (tests/tokenizer/tokens.cpp) for the tokens of many texts, and exits 1 at the first
difference. --trained names .model files that are compared too.
"""
import argparse
import io
import pathlib
import random
import tempfile

import sentencepiece

import texts
from compare import Answers, batches, expect_equal

SYMBOLS = {"user_defined_symbols": ["<left>", "word", "▁of▁", "漢字"], "control_symbols": ["<special>"]}
KINDS = {
    "bpe bytes": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
                  "split_digits": True, "allow_whitespace_only_pieces": True},  # Llama 2's
    "bpe nmt_nfkc": {"model_type": "bpe"},
    "bpe symbols": {"model_type": "bpe", "byte_fallback": True, **SYMBOLS},
    "bpe across words": {"model_type": "bpe", "split_by_whitespace": False, "character_coverage": 0.98},
    "bpe suffix": {"model_type": "bpe", "treat_whitespace_as_suffix": True, "byte_fallback": True},
    "unigram nmt_nfkc": {"model_type": "unigram"},
    "unigram bytes": {"model_type": "unigram", "byte_fallback": True, "normalization_rule_name": "nfkc_cf"},  # T5's and Gemma's
    "unigram symbols": {"model_type": "unigram", "normalization_rule_name": "identity", "add_dummy_prefix": False, **SYMBOLS},
    "unigram across words": {"model_type": "unigram", "split_by_whitespace": False, "remove_extra_whitespaces": False},
    "unigram denormalized": {"model_type": "unigram", "denormalization_rule_tsv": "DENORMAL"},
    "char": {"model_type": "char", "character_coverage": 0.99, "user_defined_symbols": ["word"]},
    "word": {"model_type": "word"},
}


def train(kind, sentences, vocabulary, folder):
    options = dict(KINDS[kind])
    if "denormalization_rule_tsv" in options:
        rules = folder / "rules.tsv"
        rules.write_text("61\t62 63\n2E\t21\n")
        options["denormalization_rule_tsv"] = str(rules)
    made = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sentences), model_writer=made, minloglevel=2, num_threads=1,
                                             vocab_size=vocabulary, hard_vocab_limit=False, **options)
    return made.getvalue()


def compare(kind, model, answers, asked):
    theirs = sentencepiece.SentencePieceProcessor(model_proto=model)
    count = size = 0
    for batch in batches(asked):
        for (name, data), (tokens, decoded, plain) in zip(batch, answers.of([text for _, text in batch])):
            text = data.decode(errors="replace")
            where = f"{kind}, {name}"
            wanted = theirs.encode(text)
            expect_equal(where, text, "tokens", wanted, tokens)
            expect_equal(where, text, "decoded texts", theirs.decode(wanted), decoded)
            expect_equal(where, text, "texts without special tokens", decoded, plain)
            count, size = count + 1, size + len(data)
    print(f"{kind:22} {count:9,} texts {size:12,} bytes, all equal", flush=True)


def named_texts(own):
    """All that every model is asked. Bytes that are not UTF-8 reach both as U+FFFD, since the package takes texts."""
    draw = random.Random(own.seed)
    yield from (("traps", text) for text in ["", *texts.TRAPS, "".join(texts.TRAPS), *map(" x{}1".format, texts.TRAPS)])
    yield from (("random strings", text) for text in texts.random_strings(draw, own.strings))
    yield from (("mixed text", text) for text in texts.mixed(draw, int(own.megabytes * 1e6)))
    yield from (("code points", text) for text in texts.code_points(own.step))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="the program tokens")
    parser.add_argument("--megabytes", type=float, default=0.05, help="of mixed text, for each model (full size: 5)")
    parser.add_argument("--strings", type=int, default=100, help="of random code points (full size: 100000)")
    parser.add_argument("--step", type=int, default=9973, help="compare every N-th code point (full size: 1)")
    parser.add_argument("--training", type=int, default=20_000, help="bytes of text that models are trained on (full size: 400000)")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), help="some of the kinds")
    parser.add_argument("--trained", nargs="*", default=[], help="more models to compare")
    parser.add_argument("--seed", type=int, default=1)
    own = parser.parse_args()
    training = [line for text in texts.mixed(random.Random(own.seed), own.training) for line in text.splitlines() if line.strip()]
    vocabulary = max(1200, own.training // 20)  # made-up texts have many characters, and each is a piece
    with tempfile.TemporaryDirectory() as folder:
        models = [(kind, train(kind, training, vocabulary, pathlib.Path(folder))) for kind in own.kinds]
        models += [(pathlib.Path(name).name, pathlib.Path(name).read_bytes()) for name in own.trained]
        path = pathlib.Path(folder) / "t.model"
        for kind, model in models:
            path.write_bytes(model)
            compare(kind, model, Answers(own.program, path), named_texts(own))


if __name__ == "__main__":
    main()
