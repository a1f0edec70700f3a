// All that one rank needs to train: program, groups, buckets, model, optimizer and samples, joined from one
// run file.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/process/phase_timer.hpp"
#include "tessera/checkpoint/format/manifest.hpp"
#include "tessera/checkpoint/format/names.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/engine/executor.hpp"
#include "tessera/optim/loss_scale.hpp"
#include "tessera/parallel/parallel_context.hpp"
#include "tessera/program/ir/types.hpp"
#include "tessera/program/passes/holdings.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::train {

// Fills rows [samples, sequence] of tokens and targets for the global sample indices; targets below 0 don't
// count.
using Source = std::function<void(std::span<const std::uint64_t> samples, std::span<std::int64_t> tokens,
                                  std::span<std::int64_t> targets)>;

// The bytes of data.path in the order of data.seed.
Source corpus_source(const spec::Run& run);

// Tokens as a function of (sample, position), for runs that need no data.
Source random_source(const spec::Model& model);

// Changes the groups that steps communicate over, by axis set; the session's own calls between steps keep the
// sound ones.
using StepGroups = std::function<void(const collective::Communicator&, const program::Tables&,
                                      std::vector<collective::Group>&)>;

// What tests of the proof itself change.
struct Variation {
  const program::Program* program = nullptr;  // instead of the compiled one
  StepGroups step_groups;                     // empty: steps use the session's own
  bool keep_gradients = false;                // FlatBucket::kept_gradient() has those of the last step
};

using checkpoint::kPreviousPrefix;

// A flat buffer that outlives steps.
struct Kept {
  std::string prefix;      // of its tensors' names, before the parameter's
  tensor::Tensor flat;     // the buffer itself, or a copy if it lies outside of memory
  std::int64_t first = 0;  // its first element, in the flat of the whole bucket
  Slice holder;            // of the ranks that hold the same elements, this one
};

// What the names of the optimizer's tensors begin with, in the order of its state.
std::vector<std::string> state_prefixes(const spec::Training& training);

class Session {
 public:
  // Compiles and checks the program, makes all groups in one exchange, draws or reads the weights. What the
  // rank is doing is written to `log`, how long its parts take to `timer`, if there are such.
  Session(const spec::Run& run, const collective::Communicator& communicator, Source source,
          const Variation& variation = {}, ActivityLog* log = nullptr, PhaseTimer* timer = nullptr);
  Session(const Session&) = delete;  // its parts point at each other
  Session& operator=(const Session&) = delete;

  // One step on the next global batch. A step that isn't taken moves the sample cursor, not the update count.
  engine::StepReport step();
  // Reads that batch ahead of its step: what can't be read is then known while the run can still be saved.
  // Throws what the source throws.
  void read_next();

  const spec::Run& run() const { return run_; }
  const program::Program& program() const { return program_; }
  // Where this rank writes what it is doing; may be nothing.
  ActivityLog* log() const { return log_; }
  // Its order of micro-batches in words: the one asked for, and what became of it.
  std::string schedule() const;
  at::Device device() const { return device_; }
  // Those that this rank holds.
  std::span<shard::FlatBucket> buckets() { return buckets_; }
  std::span<const optim::BucketOptimizer> optimizers() const { return optimizers_; }
  // Master values of a bucket's slice, wherever they lie.
  tensor::Tensor shard_of(const shard::FlatBucket& bucket);
  // What a checkpoint holds of a bucket.
  std::vector<Kept> kept(const shard::FlatBucket& bucket);
  // Takes over what was written into these.
  void put_back(const shard::FlatBucket& bucket, std::span<const Kept> kept);
  // Where the run stands, and going on from there. Weights and optimizer state are put back apart.
  checkpoint::Progress progress() const;
  void go_on_from(const checkpoint::Progress& progress);
  // The whole flat of which the ranks hold such slices; all of them call it.
  tensor::Tensor whole_of(const shard::FlatBucket& bucket, const tensor::Tensor& slice) const;
  // All logits of a micro-batch with the current weights; all ranks call it.
  tensor::Tensor logits(const model::Batch& batch);
  // Along an axis set of the program.
  const collective::Group& group(std::int16_t axis_set) const {
    return groups_.at(static_cast<std::size_t>(axis_set));
  }
  // Returns when all ranks have called it.
  void meet() const;
  // The sum of what all ranks bring; of several numbers one by one.
  double sum(double value) const;
  std::vector<double> sums(std::vector<double> values) const;
  std::int64_t updates() const { return updates_; }
  double learning_rate() const { return learning_rate_; }
  // Of the next step.
  double loss_scale() const { return loss_scale_.value(); }

 private:
  engine::StepInput next_input();
  tensor::Tensor mine(std::span<const std::int64_t> whole) const;
  tensor::Tensor end_documents(std::span<const std::int64_t> tokens, std::span<std::int64_t> targets) const;
  void make_buckets(const program::Sequence& sequence, const program::Holdings& held);

  spec::Run run_;
  ActivityLog* log_;
  std::string note_;  // of the compiler
  program::Program program_;
  Source source_;
  int rank_;
  at::Device device_;
  std::vector<collective::Group> groups_;       // by axis set
  std::vector<collective::Group> step_groups_;  // those of a step
  shard::OffloadStore offload_store_;
  parallel::ParallelContext context_;
  std::vector<shard::FlatBucket> buckets_;
  std::vector<optim::BucketOptimizer> optimizers_;
  model::Model model_;
  std::unique_ptr<engine::Executor> executor_;
  std::optional<engine::StepInput> next_;  // that was read ahead
  std::int64_t data_rank_ = 0;
  std::uint64_t cursor_ = 0;
  std::int64_t steps_ = 0, updates_ = 0, reset_after_ = 0;
  double learning_rate_ = 0;
  optim::LossScale loss_scale_;
};

}  // namespace tessera::train
