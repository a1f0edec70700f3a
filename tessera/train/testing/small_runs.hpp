// Models for tests, so small that a step takes milliseconds, on ranks that are threads.
#pragma once

#include <vector>

#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

inline spec::Run small_run(std::int64_t dp) {
  spec::Run run;
  run.model = {.layers = 2, .hidden = 32, .heads = 4, .kv_heads = 2, .ffn = 48, .vocab = 61, .sequence = 12};
  run.training.global_batch = 8;
  run.training.warmup_steps = 2;
  run.layout.dp_replicate = dp;
  run.layout.micro_batch = 2;
  return run;
}

inline spec::Run small_gpt2_run(std::int64_t dp) {
  spec::Run run = small_run(dp);
  run.model.family = spec::Family::gpt2;
  run.model.kv_heads = run.model.heads;
  return run;
}

// Two for a token.
inline spec::Run with_experts(spec::Run run, std::int64_t experts) {
  run.model.experts = experts;
  run.model.experts_per_token = 2;
  run.model.expert_ffn = 24;
  return run;
}

inline spec::Run with_latent_attention(spec::Run run) {
  run.model.family = spec::Family::deepseek;
  run.model.kv_heads = run.model.heads;
  run.model.q_rank = 16, run.model.kv_rank = 12;
  run.model.head_dim = 12, run.model.rope_dim = 4, run.model.value_dim = 8;
  return run;
}

// Related to Llama: what each has that it has not.
inline std::vector<spec::Run> related_runs(std::int64_t dp) {
  spec::Run qwen2 = small_run(dp), qwen3 = small_run(dp), llama3 = small_run(dp);
  qwen2.model.qkv_bias = true;
  qwen3.model.qk_norm = true;
  qwen3.model.head_dim = 12;
  llama3.model.rope_scaling_factor = 8;
  llama3.model.rope_original_context = 16;
  llama3.model.sliding_window = 5;
  llama3.model.window_layers = "wf";
  qwen2.model.rope_scaling = spec::RopeScaling::yarn;
  qwen2.model.rope_scaling_factor = 4;
  qwen2.model.rope_original_context = 16;
  qwen2.model.rope_high_frequency_factor = 8;
  qwen2.model.rope_attention_factor = 1.2;
  return {qwen2, qwen3, llama3};
}

// What outlives a step, of this rank: values and optimizer states.
inline std::vector<tensor::Tensor> durable(Session& session) {
  std::vector<tensor::Tensor> out;
  for (auto& bucket : session.buckets()) out.push_back(bucket.shard().clone());
  for (const auto& optimizer : session.optimizers())
    for (const tensor::Tensor& state : optimizer.state()) out.push_back(state.clone());
  return out;
}

// Of each step, as rank 0 reports it.
inline std::vector<double> losses(const spec::Run& run, int steps) {
  std::vector<double> out;
  collective::run_ranks(static_cast<int>(run.layout.ranks()),
                        [&](const collective::Communicator& communicator) {
                          Session session(session_plan(run), communicator, random_source(run.model));
                          for (int i = 0; i < steps; ++i) {
                            const auto report = session.step();
                            if (communicator.rank() == 0) out.push_back(report.loss);
                          }
                        });
  return out;
}

}  // namespace tessera::train
