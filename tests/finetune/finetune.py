"""Is fine-tuning with the loss on the answers what PyTorch computes?

  finetune.py BINARY

A small random Llama of the pip package `transformers` with a tokenizer; prompts and completions, and conversations with a chat template.
`tessera data tokenize` makes the pairs with their masks, `tessera train` goes one step of plain gradient descent in fp64 over all of
them, packed, on one rank and on a layout with tp, cp and pp. The same documents go one by one through the model written out in plain PyTorch, and
the loss, the gradient of every tensor (what the step took off the weights) and the norm must agree within 1e-10. The export must open in `transformers` with the logits of
the step that PyTorch made.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "reference"), str(ROOT / "tests" / "generate")]

import models  # noqa: E402
import plain  # noqa: E402
import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader  # noqa: E402
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

LAYERS, HEADS, KV_HEADS, RATE, END, SEQUENCE = 2, 4, 2, 0.5, "<|endoftext|>", 256
LAYOUTS = {"one rank": [], "eight ranks": ["layout.tp=2", "layout.cp=2", "layout.pp=2"]}


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def pairs():
    verses = pathlib.Path("corpus/kjv.txt").read_text().splitlines()
    return [{"prompt": f"What is written in {verse.split(' ')[0]}?\n", "completion": " ".join(verse.split(" ")[1:9])}
            for verse in verses[100:2000:90]]


def conversations():
    return [{"messages": [{"role": "user", "content": pair["prompt"].strip()}, {"role": "assistant", "content": pair["completion"]},
                          {"role": "user", "content": "Go on."}, {"role": "assistant", "content": pair["completion"][::-1][:12]}]}
            for pair in pairs()[:12]]


def of_pair(record):
    """The parts of a document, and whether they count."""
    return [(record["prompt"], False), (record["completion"], True)]


def of_conversation(record):
    """As chatml has it; what ends an answer counts with it."""
    out = []
    for message in record["messages"]:
        out += [(f"<|im_start|>{message['role']}\n", False), (message["content"] + "<|im_end|>\n", message["role"] == "assistant")]
    return out


def documents(records, parts_of, tokenizer):
    """Tokens, and for each whether it counts as a target; the end counts where the last part does."""
    for record in records:
        tokens, counts = [], []
        for text, counted in merged(parts_of(record)):
            ids = tokenizer.encode(text).ids
            tokens += ids
            counts += [counted] * len(ids)
        yield tokens + [tokenizer.token_to_id(END)], counts + [counts[-1]]


def merged(parts):
    out = []
    for text, counted in parts:
        if out and out[-1][1] == counted:
            out[-1] = (out[-1][0] + text, counted)
        else:
            out.append((text, counted))
    return out


def reference(model, data):
    w = {name: value.double().requires_grad_() for name, value in model.state_dict().items()}
    total, num = torch.zeros((), dtype=torch.float64), 0
    for tokens, counts in data:
        ids = torch.tensor([tokens])
        logits = plain.llama_logits(w, ids[:, :-1], LAYERS, HEADS, KV_HEADS, plain.frequencies(10000.0, 16))
        targets = torch.where(torch.tensor([counts[1:]]), ids[:, 1:], -1)
        total = total + F.cross_entropy(logits[0], targets[0], ignore_index=-1, reduction="sum")
        num += (targets >= 0).sum().item()
    (total / num).backward()
    return w, (total / num).item(), num


def check(kind, binary, root, folder, records, parts_of, options, tokenizer, model):
    lines = root / f"{kind}.jsonl"
    lines.write_text("".join(json.dumps(record) + "\n" for record in records))
    run(binary, "data", "tokenize", lines, "-o", root / kind, "--tokenizer", folder, "--append", END, *options)
    data = list(documents(records, parts_of, tokenizer))
    assert max(len(tokens) for tokens, _ in data) <= SEQUENCE, "a document would be cut"
    w, loss, num = reference(model, data)
    norm = math.sqrt(sum((p.grad ** 2).sum().item() for p in w.values()))
    found = json.loads(run(binary, "data", "inspect", root / kind, "--sequence", SEQUENCE, "--json"))
    samples = found["best_fit_samples"]
    for layout, keys in LAYOUTS.items():
        out = root / f"{kind}-{layout.replace(' ', '-')}"
        (root / "run.toml").write_text("")
        run(binary, "train", root / "run.toml", "--out", out, f"model.weights={folder}", f"model.sequence={SEQUENCE}",
            f"data.sources={root / kind}", "data.packing=best-fit", f"training.global_batch={samples}", "training.steps=1",
            "training.optimizer=sgd", "training.momentum=0", "training.weight_decay=0", f"training.learning_rate={RATE}",
            f"training.min_learning_rate={RATE}", "training.warmup_steps=0", "training.decay=constant", "training.clip_norm=0",
            "layout.precision=fp64", *keys)
        step = json.loads((out / "metrics.jsonl").read_text().splitlines()[0])
        assert step["tokens"] == num, (kind, layout, step["tokens"], num)
        saved = out / "checkpoints" / "step-00000001"
        after = {name: torch.empty_like(value) for name, value in w.items()}
        dcp.load(after, storage_reader=HuggingFaceStorageReader(str(saved)), no_dist=True)
        worst = max(abs(step["loss"] / loss - 1), abs(step["gradient_norm"] / norm - 1))
        for name, value in w.items():
            gradient = (value.detach() - after[name]) / RATE
            worst = max(worst, ((gradient - value.grad).abs().max() / value.grad.abs().max()).item())
        assert worst < 1e-10, (kind, layout, worst)
        run(binary, "checkpoint", "export", saved, out / "exported", "--like", folder)
        opened = models.opened(out / "exported")
        stepped = {name: (value - RATE * value.grad).detach() for name, value in w.items()}
        ids = torch.tensor([data[0][0]])
        expected = plain.llama_logits(stepped, ids, LAYERS, HEADS, KV_HEADS, plain.frequencies(10000.0, 16))
        with torch.no_grad():
            apart = ((opened(ids).logits - expected).abs().max() / expected.abs().max()).item()
        assert apart < 1e-5, (kind, layout, apart)
        print(f"{kind}, {layout}: {len(data)} documents in {samples} samples, {num} of {sum(len(t) for t, _ in data)} tokens count; "
              f"loss, norm and {len(w)} gradients within {worst:.1e}; the export opens, logits {apart:.1e} apart", flush=True)


def main(binary):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        folder = root / "model"
        torch.manual_seed(5)
        model = LlamaForCausalLM(LlamaConfig(**models.USUAL | {"max_position_embeddings": SEQUENCE})).float()
        models.enlarge(model)
        model.save_pretrained(folder)
        models.train_tokenizer(folder / "tokenizer.json")
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        check("completions", binary, root, folder, pairs(), of_pair, ["--records", "completion"], tokenizer, model)
        check("conversations", binary, root, folder, conversations(), of_conversation,
              ["--records", "messages", "--chat-template", "chatml"], tokenizer, model)


if __name__ == "__main__":
    main(sys.argv[1])
