"""Renders templates by Jinja, with the settings of `transformers`.

usage: chat_texts.py FOLDER: every FOLDER/*.jinja with each line of FOLDER/conversations.jsonl, with and without a prompt for an
answer; the texts, or the word "refused", go as JSON lines to FOLDER/expected.jsonl, in the order of names.
"""
import json
import pathlib
import sys

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

folder = pathlib.Path(sys.argv[1])


def refuse(message):
    raise jinja2.exceptions.TemplateError(message)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[])
environment.filters["tojson"] = lambda x, indent=None: json.dumps(x, ensure_ascii=False, indent=indent)
environment.globals["raise_exception"] = refuse
conversations = [json.loads(line) for line in open(folder / "conversations.jsonl")]
with open(folder / "expected.jsonl", "w") as out:
    for path in sorted(folder.glob("*.jinja")):
        template = environment.from_string(path.read_text())
        for messages in conversations:
            for prompt in (False, True):
                try:
                    text = template.render(messages=messages, add_generation_prompt=prompt, bos_token="<s>", eos_token="</s>")
                except (jinja2.exceptions.TemplateError, TypeError):
                    text = "refused"
                out.write(json.dumps(text) + "\n")
