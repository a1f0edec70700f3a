"""Compares `tessera evaluate --choices` with EleutherAI's lm-evaluation-harness (pip `lm_eval`), item by item.

  harness.py BINARY   once before: .venv/bin/pip install --target build/lm_eval lm_eval==0.4.13
                      .venv/bin/pip install --target build/lm_eval --no-deps accelerate==1.15.0

Two tasks of multiple choice, made here, on a small random Llama and a small random GPT-2 of `transformers`. Every log-likelihood must agree within 1e-4, and
for each item whether it counts as right, plainly and by length; so must the accuracies and their standard errors.
"""
import json
import os
import pathlib
import sys
import tempfile

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "build" / "lm_eval"))

import compare  # noqa: E402
import models  # noqa: E402
import torch  # noqa: E402
from lm_eval import simple_evaluate  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402
from transformers import PreTrainedTokenizerFast  # noqa: E402

TASK = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {file}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{context}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
num_fewshot: 0
metric_list:
  - metric: acc
  - metric: acc_norm
"""


def tasks(root):
    asked = compare.questions()
    for name, some in (("words", [q for q in asked if "God" in q["context"]]), ("sums", [q for q in asked if "plus" in q["context"]])):
        file = root / f"{name}.jsonl"
        file.write_text("".join(json.dumps(question) + "\n" for question in some))
        (root / f"{name}.yaml").write_text(TASK.format(name=name, file=file))
        yield name, file, some


def main(binary):
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        root = pathlib.Path(place)
        models.make(root)
        made = list(tasks(root))
        for family in ("llama", "gpt2"):
            folder = root / family
            tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), eos_token="<|endoftext|>")
            found = simple_evaluate(HFLM(pretrained=models.opened(folder), tokenizer=tokenizer, batch_size=1),
                                    tasks=[name for name, _, _ in made], task_manager=TaskManager(include_path=str(root)),
                                    log_samples=True, bootstrap_iters=100)
            for name, file, some in made:
                ours = compare.ask(binary, "evaluate", folder, "--choices", file, "--json")
                samples = sorted(found["samples"][name], key=lambda sample: sample["doc_id"])
                worst = 0.0
                for question, item, sample in zip(some, ours["items"], samples, strict=True):
                    theirs = [response[0] for response in sample["filtered_resps"]]
                    worst = max([worst] + [abs(a - b) for a, b in zip(item["log_likelihoods"], theirs, strict=True)])
                    assert (item["picked"] == question["answer"]) == bool(sample["acc"]), (family, name, item, sample)
                    assert (item["picked_by_length"] == question["answer"]) == bool(sample["acc_norm"]), (family, name, item, sample)
                assert worst < 1e-4, (family, name, worst)
                result = found["results"][name]
                for mine, other in (("accuracy", "acc,none"), ("accuracy_by_length", "acc_norm,none"), ("accuracy_error", "acc_stderr,none"),
                                    ("accuracy_by_length_error", "acc_norm_stderr,none")):
                    assert abs(ours[mine] - result[other]) < 1e-9, (family, name, mine, ours[mine], result[other])
                print(f"{family}, {name}: {len(some)} questions equal item by item, log-likelihoods at most {worst:.1e} apart; "
                      f"acc {ours['accuracy']:.3f}, acc_norm {ours['accuracy_by_length']:.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
