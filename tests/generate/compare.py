"""Compares `tessera generate` and `tessera evaluate` with the pip package `transformers`, on small random models of each family.

  compare.py BINARY [--tokens 96] [--families llama ...]

Per family: greedy tokens of five prompts of unequal length, side by side, alone, and on two ranks of tp; the loss of a text; the
log-likelihoods of multiple choice. Exits 1 at the first difference.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import models
import torch
from tokenizers import Tokenizer

PROMPTS = ["In the beginning", "And", "the waters were gathered together, and it was so; the", "3 x 7 =", "He said unto them, Go"]


def ask(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def greedy(model, prompt, count):
    """Up to a token that ends a text, which is left out."""
    with torch.no_grad():
        out = model.generate(torch.tensor([prompt]), max_new_tokens=count, do_sample=False, pad_token_id=0)[0, len(prompt):].tolist()
    ends = model.generation_config.eos_token_id
    ends = [ends] if isinstance(ends, int) else ends or []
    return next((out[:i] for i, token in enumerate(out) if token in ends), out)


def compare_tokens(family, binary, folder, model, tokenizer, count):
    expected = [greedy(model, tokenizer.encode(prompt).ids, count) for prompt in PROMPTS]
    file = folder / "prompts.txt"
    file.write_text("\n".join(PROMPTS) + "\n")
    command = [binary, "generate", folder, "--tokens", count, "--json"]
    ways = {
        "side by side": [*command, "--prompts", file],
        "two by two": [*command, "--prompts", file, "--batch", 2],
        "two ranks": [*command, "--prompts", file, "--procs", 2],
    }
    for way, words in ways.items():
        found = [answer["tokens"] for answer in ask(*words)["answers"]]
        assert found == expected, (family, way, found, expected)
    alone = ask(*command[:3], PROMPTS[0], *command[3:])["answers"][0]
    assert alone["tokens"] == expected[0], (family, alone, expected[0])
    assert alone["text"] == tokenizer.decode(expected[0]), (family, alone["text"])
    assert len({token for tokens in expected for token in tokens}) > 8, (family, "says little")
    return sum(len(tokens) for tokens in expected)


def compare_loss(family, binary, folder, model, text):
    sequence = 64
    tokens = torch.tensor(list(text.read_bytes()))
    rows = (len(tokens) - 1) // sequence
    read = torch.stack([tokens[i * sequence:i * sequence + sequence + 1] for i in range(rows)])
    with torch.no_grad():
        logits = model(read[:, :-1]).logits.double()
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), read[:, 1:].flatten()).item()
    command = [binary, "evaluate", folder, "--data", text, "--json", f"model.sequence={sequence}", "data.bytes_as_tokens=true"]
    for more in ([], ["--procs", 2], ["layout.pp=2"]):
        found = ask(*command, *more)
        assert found["samples"] == rows and abs(found["loss"] - expected) < 1e-5 * expected, (family, more, found, expected)
    return abs(found["loss"] - expected) / expected


def questions():
    """Two kinds: which word follows, and which sum is right."""
    words = "light darkness waters heaven earth day night firmament".split()
    out = [{"context": f"And God called the {word}", "choices": [words[(i + k * k) % 8] for k in (1, 2, 3)], "answer": i % 3}
           for i, word in enumerate(words)]
    out += [{"context": f"{a} plus {b} is ", "choices": [str(a + b), f"about {a * b}", "caf\u00e9"], "answer": 0}
            for a in range(3) for b in range(4)]
    return out


def encode_pair(tokenizer, context, rest):
    """As lm-evaluation-harness has it: spaces at the end of a context belong to what follows."""
    spaces = len(context) - len(context.rstrip())
    if spaces > 0:
        context, rest = context[:-spaces], context[-spaces:] + rest
    whole = tokenizer.encode(context + rest).ids
    return whole, len(whole) - len(tokenizer.encode(context).ids)


def compare_choices(family, binary, folder, model, tokenizer):
    asked = questions()
    file = folder / "questions.jsonl"
    file.write_text("".join(json.dumps(question) + "\n" for question in asked))
    found = ask(binary, "evaluate", folder, "--choices", file, "--json")
    right = right_by_length = 0
    worst = 0.0
    for question, item in zip(asked, found["items"], strict=True):
        expected = []
        for choice in question["choices"]:
            whole, counted = encode_pair(tokenizer, question["context"], " " + choice)
            with torch.no_grad():
                scores = model(torch.tensor([whole[:-1]])).logits[0].double().log_softmax(-1)
            expected.append(sum(scores[i - 1, whole[i]].item() for i in range(len(whole) - counted, len(whole))))
        worst = max([worst] + [abs(a - b) / abs(b) for a, b in zip(item["log_likelihoods"], expected, strict=True)])
        by_length = [score / len(choice) for score, choice in zip(expected, question["choices"])]
        picked, picked_by_length = expected.index(max(expected)), by_length.index(max(by_length))
        assert (item["picked"], item["picked_by_length"]) == (picked, picked_by_length), (family, question, item, expected)
        right += picked == question["answer"]
        right_by_length += picked_by_length == question["answer"]
    assert worst < 1e-5, (family, worst)
    assert found["accuracy"] == right / len(asked) and found["accuracy_by_length"] == right_by_length / len(asked), found
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--families", nargs="+", default=list(models.FAMILIES), choices=list(models.FAMILIES))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        text = root / "text.txt"
        text.write_text("".join(pathlib.Path("corpus/kjv.txt").read_text()[5000:7000]))
        trained = models.make(root)
        for family in arguments.families:
            folder = root / family
            model = models.opened(folder)
            tokenizer = Tokenizer.from_file(str(trained))
            tokens = compare_tokens(family, arguments.binary, folder, model, tokenizer, arguments.tokens)
            loss = compare_loss(family, arguments.binary, folder, model, text)
            choices = compare_choices(family, arguments.binary, folder, model, tokenizer)
            print(f"{family}: {tokens} tokens equal in 3 ways; loss {loss:.1e}, log-likelihoods {choices:.1e} apart", flush=True)


if __name__ == "__main__":
    main()
