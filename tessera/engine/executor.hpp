// Carries out a checked program on this rank: segments by autograd, buckets by flat buffers, groups by
// collectives; what ends is freed as effects(op) says. Knows ops, not models: no op is special to a family or
// a strategy.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/engine/bucket_store.hpp"
#include "tessera/engine/call_count.hpp"
#include "tessera/engine/lanes.hpp"
#include "tessera/engine/parts.hpp"
#include "tessera/program/ir/effects.hpp"
#include "tessera/tensor/account.hpp"

namespace tessera::engine {

// What a step gets from outside: this rank's micro-batches (possibly empty ones), and the place in the
// learning-rate curve.
struct StepInput {
  std::vector<model::Batch> micro_batches;
  double valid_tokens = 0;  // of this rank: those that count in the loss
  double positions = 0;     // of this rank: those that are no padding
  double tokens_ahead = 0;  // of this rank: those whose token after the next counts in the loss
  double learning_rate = 0;
  std::int64_t count = 1;  // updates taken, this one included
  double loss_scale = 1;   // factor of every gradient until norm, clipping and step divide it out
};

struct OpTime {
  std::uint32_t op = 0;
  double start_seconds = 0, end_seconds = 0;
  std::vector<OpCalls> calls = {};
};

struct NamedLoss {
  std::string name;
  double mean = 0;
};

struct LossSum {
  std::string name;
  double sum = 0, tokens = 0;  // of all ranks; valid ones
};

struct StepReport {
  double loss = 0;                // the first one's mean over the valid tokens of all ranks
  double tokens = 0;              // valid, of all ranks
  std::vector<NamedLoss> losses;  // all of them, each over the tokens that count for it
  double gradient_norm = 0;
  double loss_scale = 1;
  double learning_rate = 0;
  bool taken = true;          // false: something was not finite; parameters and moments stayed
  BytesHeld at_peak;          // what this rank's tensors held when that was most; zeros without an arena
  std::vector<OpTime> times;  // by op
  BytesMoved moved;           // by this rank
};

class Executor {
 public:
  explicit Executor(const Parts& parts);
  // Begins a step and computes it; its report comes later. Another may be begun while one is under way if the
  // program's steps overlap. `next`, of a program that runs forwards ahead, is the input of the step that is
  // sure to be begun after it; that one is then begun with no micro-batches.
  void begin(StepInput input, std::optional<StepInput> next = {});
  // Of the first step that is under way, once all of it is through.
  StepReport finish();
  std::size_t under_way() const { return num_begun_ - num_finished_; }
  // Whether one must end before another may be begun.
  bool is_full() const { return under_way() == (tables_.steps_overlap ? 2 : 1); }
  // Whether steps make use of what is told of the next one.
  bool runs_ahead() const { return runs_ahead_; }
  // Of a program without backwards.
  std::vector<LossSum> evaluate(StepInput input);
  // For what is done with buckets between steps.
  BucketStore& bucket_store() { return bucket_store_; }

 private:
  struct Recording {
    model::Tape tape;
    std::vector<tensor::Tensor> inputs;  // detached leaves
    tensor::Graph graph;
  };

  // What belongs to one step, of two that may be under way and one that is told of.
  struct Step {
    StepInput input;
    // fp64, on the device: the host reads them once, after the step. The sums of losses are those of this
    // rank.
    std::vector<tensor::Tensor> numbers, loss_sums;
    std::vector<tensor::Tensor>
        squares;                    // by bucket: its part of the norm, where updates do not wait for that
    std::vector<char> summed;       // by number: a sum of this step was made
    tensor::Tensor gradient_scale;  // of the updates: clipping, without the loss scale
    std::vector<OpTime> times;
    // By axis set: ops that sent something. Each set's sends run on one lane; read when all lanes are
    // through.
    std::vector<std::vector<std::uint32_t>> sends_along;
  };

  Step& of(std::uint64_t step) { return steps_[step % steps_.size()]; }
  void start(StepInput input, std::optional<StepInput> next);
  void prepare(std::uint64_t step, StepInput input);
  Step& settle();
  void run(std::uint32_t index, Step& step);
  void gather_delayed();
  model::Outcome compute(const program::Op& op, Step& step, const std::vector<tensor::Tensor>& inputs,
                         model::Tape& tape);
  model::Outcome compute_without_tape(const program::Op& op, Step& step);
  model::Outcome record(const program::Op& op, Step& step);
  void forward(const program::Op& op, Step& step);
  void recompute(const program::Op& op, Step& step);
  void backward(const program::Op& op, Step& step, bool with_weights);
  void sum(const program::Op& op, Step& step);
  void exchange(const program::Op& op, Step& step);
  void send(std::uint32_t index, Step& step);
  void end_late();
  void receive(const program::Op& op, Step& step);
  void finish_sends(const Step& step);
  tensor::Tensor& held(const program::Cell& cell);
  tensor::Tensor partial(std::uint32_t number, Step& step);
  tensor::Tensor sum_of_squares(const Step& step) const;
  void update(const program::Op& op, Step& step);
  void take_turn(const program::Op& op, Step& step);
  void offload(const program::Op& op);
  void fetch(const program::Op& op, Step& step);
  void end(const program::Cell& cell);
  std::size_t at(std::uint32_t item, std::int32_t micro) const;
  std::size_t index_of(program::Role role) const;
  const tensor::Tensor& number(program::Role role, const Step& step) const;
  std::vector<double> read_numbers(const Step& step) const;

  Parts parts_;
  const program::Tables& tables_;
  const program::Sequence& sequence_;
  SlotMemory slots_;
  BucketStore bucket_store_;
  std::vector<std::vector<program::Cell>> ends_, late_ends_;  // by op: after it, and before it
  std::vector<tensor::Tensor> values_, gradients_;
  std::vector<std::unique_ptr<Recording>> tapes_;
  std::vector<shard::WeightWork> weight_work_;
  std::vector<program::Loss> losses_;  // by number, each once
  struct Writer {
    std::uint32_t unit = 0, piece = 0;
  };
  std::vector<Writer> writers_;      // by value
  std::array<Step, 3> steps_;        // by a step's number
  tensor::Tensor never_, unscaled_;  // numbers on the device: 0 and 1
  std::uint64_t num_begun_ = 0, num_finished_ = 0;
  bool runs_ahead_ = false, is_next_told_ = false;
  CallCount calls_;
  tensor::Account account_ = tensor::Account::current();
  Lanes lanes_;  // last: its threads use everything above

 public:
  ~Executor();
};

}  // namespace tessera::engine
