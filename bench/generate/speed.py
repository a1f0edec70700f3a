"""Tokens per second of `tessera generate` beside `transformers`, one thread each, rounds in turn in one run.

  speed.py BINARY [--rounds 5] [--tokens 256] [--batch 1]

A Llama of about 10 M parameters with random weights; the time of loading it is not counted. Prints each round, and medians.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "generate"))
os.environ["OMP_NUM_THREADS"] = "1"

import models  # noqa: E402
import torch  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

PROMPT = "In the beginning God created the heaven and the earth."


def ours(binary, folder, prompts, arguments):
    command = [binary, "generate", folder, "--prompts", prompts, "--tokens", str(arguments.tokens), "--batch", str(arguments.batch),
               "--json"]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    return found["new_tokens"] / found["seconds"], [answer["tokens"] for answer in found["answers"]]


def theirs(model, prompt, arguments):
    tokens = torch.tensor([prompt] * arguments.batch)
    begun = time.perf_counter()
    with torch.no_grad():
        out = model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=arguments.tokens, do_sample=False,
                             pad_token_id=0)
    seconds = time.perf_counter() - begun
    found = out[:, len(prompt):].tolist()
    return sum(len(tokens) for tokens in found) / seconds, found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--batch", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        torch.manual_seed(1)
        model = LlamaForCausalLM(LlamaConfig(hidden_size=320, intermediate_size=864, num_hidden_layers=8, num_attention_heads=5,
                                             num_key_value_heads=5, vocab_size=models.VOCAB, max_position_embeddings=1024,
                                             eos_token_id=None, bos_token_id=None)).eval()
        models.enlarge(model)
        model.save_pretrained(folder)
        models.train_tokenizer(folder / "tokenizer.json")
        prompt = Tokenizer.from_file(str(folder / "tokenizer.json")).encode(PROMPT).ids
        prompts = folder / "prompts.txt"
        prompts.write_text((PROMPT + "\n") * arguments.batch)
        print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} M parameters, prompt of {len(prompt)} tokens")
        rates = {"tessera": [], "transformers": []}
        for number in range(arguments.rounds):
            mine, tokens = ours(arguments.binary, folder, prompts, arguments)
            other, expected = theirs(model, prompt, arguments)
            same = sum(a == b for a, b in zip(tokens, expected))
            rates["tessera"].append(mine)
            rates["transformers"].append(other)
            print(f"round {number + 1}: {mine:.0f} and {other:.0f} tokens/s; {same} of {arguments.batch} answers equal", flush=True)
        medians = {name: statistics.median(all) for name, all in rates.items()}
        print(f"medians: tessera {medians['tessera']:.0f}, transformers {medians['transformers']:.0f} tokens/s: "
              f"{medians['tessera'] / medians['transformers']:.2f} times")


if __name__ == "__main__":
    main()
