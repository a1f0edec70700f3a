// The training step of `tessera bench step`'s yardstick: a Llama decoder with AdamW as a plain loop over
// LibTorch on one thread, without Tessera. Knows no Tessera header.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace bare {

struct Config {
  std::int64_t layers = 8;
  std::int64_t hidden = 320;
  std::int64_t heads = 5;
  std::int64_t kv_heads = 5;
  std::int64_t ffn = 864;
  std::int64_t vocab = 256;
  std::int64_t sequence = 256;
  std::int64_t batch = 8;          // samples in a step
  std::int64_t micro_batch = 8;    // samples in a forward and backward
  std::string precision = "fp32";  // or "bf16": bf16 compute, fp32 master weights, gradients and moments
  bool tied = false;               // the output head is the embedding
  double rope_theta = 10000;
  double norm_epsilon = 1e-5;
  double learning_rate = 3e-4;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double epsilon = 1e-8;
  double weight_decay = 0.1;
  double clip_norm = 1.0;
};

class BareStep {
 public:
  // Makes the weights, and sets LibTorch to one thread.
  explicit BareStep(const Config& config);
  ~BareStep();

  // One training step on [batch, sequence] tokens and next tokens; a target of -1 doesn't count.
  void step(const std::int64_t* tokens, const std::int64_t* targets);

  // Of the last step: mean loss over the counted targets, and the gradient's norm before clipping.
  double loss() const;
  double grad_norm() const;
  std::int64_t num_parameters() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bare
