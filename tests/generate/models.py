"""Small random models of the `transformers` package, each with a tokenizer, for compare.py and speed.py."""
import pathlib
import shutil

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (AutoModelForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, Olmo2Config, Olmo2ForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)
from transformers.utils import logging

logging.disable_progress_bar()
VOCAB, POSITIONS = 600, 512
USUAL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=VOCAB, max_position_embeddings=POSITIONS, rms_norm_eps=1e-5, tie_word_embeddings=False,
             bos_token_id=None, eos_token_id=0)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
YARN = {"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0, "original_max_position_embeddings": 128}
FAMILIES = {
    "llama": (LlamaForCausalLM, LlamaConfig(**USUAL | {"rope_parameters": LLAMA3})),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**USUAL | {"tie_word_embeddings": True})),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**USUAL | {"head_dim": 24, "use_sliding_window": True, "sliding_window": 20,
                                                       "layer_types": ["sliding_attention", "full_attention"]})),
    "mistral": (MistralForCausalLM, MistralConfig(**USUAL | {"sliding_window": 24})),
    "mistral-yarn": (MistralForCausalLM, MistralConfig(**USUAL | {"sliding_window": None, "rope_parameters": YARN})),
    "olmo2": (Olmo2ForCausalLM, Olmo2Config(**USUAL)),
    "gpt2": (GPT2LMHeadModel, GPT2Config(n_embd=64, n_inner=96, n_layer=2, n_head=4, vocab_size=VOCAB, n_positions=POSITIONS,
                                         bos_token_id=0, eos_token_id=0, tie_word_embeddings=False)),
}


def train_tokenizer(path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=VOCAB, special_tokens=["<|endoftext|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(pathlib.Path("corpus/kjv.txt").read_text()[:200_000].splitlines(), trainer)
    tokenizer.save(str(path))


def enlarge(model):
    """Matrices large enough that some tokens are likelier than others."""
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(8) if p.dim() > 1 else p.add_(0.1 * torch.randn(p.shape))


def make(root):
    """A folder for each family; returns the path of the tokenizer that they share."""
    trained = root / "tokenizer.json"
    train_tokenizer(trained)
    for number, (family, (model_class, config)) in enumerate(FAMILIES.items()):
        torch.manual_seed(number)
        model = model_class(config)
        enlarge(model)
        model.save_pretrained(root / family)
        shutil.copy(trained, root / family / "tokenizer.json")
    return trained


def opened(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
