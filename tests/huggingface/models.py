"""Small random models of the `transformers` package, and what it computes with them, for huggingface_process_test.cpp.

  models.py make FOLDER [FAMILY...]    per family FOLDER/<family>/whole and FOLDER/<family>/sharded, as save_pretrained writes them, and
                           FOLDER/<family>/logits.safetensors: tokens, and the logits of both
  models.py check FOLDER [FAMILY...]   opens FOLDER/<family>/{whole,sharded,trained,anew}.exported with AutoModelForCausalLM; the logits
                           of the first two must be bit-equal to those before, those of `trained` and `anew` within 1e-5 of
                           `<name>` in FOLDER/<family>/ours.safetensors
"""
import pathlib
import sys

import torch
from safetensors.torch import load_file, save_file
from transformers import (AutoModelForCausalLM, DeepseekV3Config, DeepseekV3ForCausalLM, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, MistralConfig,
                          MistralForCausalLM, MixtralConfig, MixtralForCausalLM, Olmo2Config, Olmo2ForCausalLM, Qwen2Config,
                          Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM)

VOCAB, SEQUENCE, BATCH, POSITIONS = 256, 24, 2, 64
USUAL = dict(hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             vocab_size=VOCAB, max_position_embeddings=POSITIONS, rms_norm_eps=1e-5, tie_word_embeddings=False)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}
FAMILIES = {  # and the dtype that they are saved in
    "llama2": (LlamaForCausalLM, LlamaConfig(**USUAL), torch.float32),
    "llama3": (LlamaForCausalLM, LlamaConfig(**USUAL | {"rope_parameters": LLAMA3}), torch.bfloat16),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config(**USUAL | {"tie_word_embeddings": True}), torch.bfloat16),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config(**USUAL | {"head_dim": 24}), torch.float32),
    "mistral": (MistralForCausalLM, MistralConfig(**USUAL | {"sliding_window": 32}), torch.float16),
    "mixtral": (MixtralForCausalLM, MixtralConfig(**USUAL | {"num_local_experts": 4}), torch.bfloat16),
    "qwen3_moe": (Qwen3MoeForCausalLM, Qwen3MoeConfig(**USUAL | {"head_dim": 24, "num_experts": 6, "num_experts_per_tok": 3,
                                                                 "moe_intermediate_size": 40}), torch.float32),
    "deepseek_v3": (DeepseekV3ForCausalLM, DeepseekV3Config(**USUAL | {
        "num_key_value_heads": 4, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10,
        "n_routed_experts": 8, "n_group": 4, "topk_group": 2, "num_experts_per_tok": 2, "n_shared_experts": 2,
        "moe_intermediate_size": 40, "first_k_dense_replace": 1, "routed_scaling_factor": 2.5,
        "rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 8.0, "original_max_position_embeddings": 32,
                            "beta_fast": 8.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0}}), torch.float32),
    "olmo2": (Olmo2ForCausalLM, Olmo2Config(**USUAL), torch.float32),
    "gpt2": (GPT2LMHeadModel, GPT2Config(n_embd=64, n_inner=96, n_layer=2, n_head=4, vocab_size=VOCAB, n_positions=POSITIONS,
                                         bos_token_id=0, eos_token_id=0), torch.float32),
}


def logits(model, tokens):
    with torch.no_grad():
        return model.float().eval()(tokens).logits.contiguous()


def make(folder, families):
    for number, family in enumerate(families):
        model_class, config, dtype = FAMILIES[family]
        torch.manual_seed(number)
        model = model_class(config)
        with torch.no_grad():
            for p in model.parameters():  # norms away from one, biases from zero, matrices large enough to matter
                p.mul_(4) if p.dim() > 1 else p.add_(0.3 * torch.randn(p.shape))
        model = model.to(dtype)
        at = folder / family
        model.save_pretrained(at / "whole")
        model.save_pretrained(at / "sharded", max_shard_size="60KB")
        assert len(list((at / "sharded").glob("*.safetensors"))) > 1
        for kind in ("whole", "sharded"):
            (at / kind / "tokenizer.json").write_text('{"version": "1.0"}')
            (at / kind / "tokenizer.model").write_bytes(bytes(range(256)))
        tokens = torch.randint(0, VOCAB, (BATCH, SEQUENCE))
        # As loaded: what is not saved, such as rotary tables, is then not in the dtype of the weights.
        loaded = AutoModelForCausalLM.from_pretrained(at / "whole", dtype="auto")
        save_file({"tokens": tokens, "logits": logits(loaded, tokens)}, at / "logits.safetensors")


def check(folder, families):
    worst = 0.0
    for family in families:
        at = folder / family
        before, ours = load_file(at / "logits.safetensors"), load_file(at / "ours.safetensors")
        for kind in ("whole", "sharded", "trained", "anew"):
            model = AutoModelForCausalLM.from_pretrained(at / f"{kind}.exported", dtype="auto")
            assert type(model) is FAMILIES[family][0], (family, kind, type(model))
            found = logits(model, before["tokens"])
            if kind in ("whole", "sharded"):
                assert torch.equal(found, before["logits"]), (family, kind)
                continue
            error = ((found - ours[kind]).abs().max() / ours[kind].abs().max()).item()
            moved = ((found - before["logits"]).abs().max() / found.abs().max()).item()
            assert error < 1e-5 and moved > 1e-3, (family, kind, error, moved)
            worst = max(worst, error)
            print(f"{family} {kind}: relative error of the logits {error:.1e}, moved by training {moved:.1e}")
    print(f"worst relative error {worst:.1e}")


if __name__ == "__main__":
    {"make": make, "check": check}[sys.argv[1]](pathlib.Path(sys.argv[2]), sys.argv[3:] or list(FAMILIES))
