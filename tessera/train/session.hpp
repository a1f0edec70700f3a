// One rank of a training step: a program, the groups, buckets, model and optimizers that it works on, and the
// samples that it reads.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
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
#include "tessera/metrics/step_facts.hpp"
#include "tessera/model/family.hpp"
#include "tessera/optim/loss_scale.hpp"
#include "tessera/parallel/parallel_context.hpp"
#include "tessera/program/ir/types.hpp"
#include "tessera/program/passes/holdings.hpp"
#include "tessera/spec/spec.hpp"
#include "tessera/train/source/choice_file.hpp"
#include "tessera/train/source/source.hpp"

namespace tessera::train {

// Changes the groups that steps communicate over, by axis set; the session's own calls between steps keep the
// sound ones.
using StepGroups = std::function<void(const collective::Communicator&, const program::Tables&,
                                      std::vector<collective::Group>&)>;

// What tests of the proof itself change.
struct Variation {
  StepGroups step_groups;       // empty: steps use the session's own
  bool keep_gradients = false;  // FlatBucket::kept_gradient() has those of the last step
};

// What a session runs: a program, the model that it computes, and how that model is updated and fed.
struct SessionPlan {
  program::Program program;
  std::string note;  // of the compiler: what it chose, or had to do otherwise than asked for
  // Makes the units that the rank holds; they may refer to the tables and to `model` below.
  std::function<model::Model(const spec::Model&, const program::Tables&, const model::RankModel&)> make_model;
  // Compiles what evaluates, by class of ranks.
  std::function<std::vector<program::Sequence>(const program::Tables&)> compile_evaluation;
  spec::Model model;
  spec::Layout layout;
  spec::Training training;
  std::int64_t loss_chunk_tokens = 512;
  std::string document_end;    // see spec::Data
  bool has_documents = false;  // a sample holds several
};
// Compiles the program of the run.
SessionPlan session_plan(const spec::Run& run);
// The same with this program.
SessionPlan session_plan(const spec::Run& run, program::Program program);

using checkpoint::kDirectionsPrefix;
using checkpoint::kErrorPrefix;
using checkpoint::kOuterPrefix;
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
  // Makes all groups in one exchange, draws or reads the weights. What the rank is doing is written to `log`,
  // how long its parts take to `timer`, if there are such.
  Session(SessionPlan plan, const collective::Communicator& communicator, Source source,
          const Variation& variation = {}, ActivityLog* log = nullptr, PhaseTimer* timer = nullptr);
  Session(const Session&) = delete;  // its parts point at each other
  Session& operator=(const Session&) = delete;

  // One step on the next global batch. A step that isn't taken moves the sample cursor, not the update count.
  engine::StepReport step();
  // The same in two halves. While one step is under way the next may be begun if the run's steps overlap; it
  // then counts on an update that may turn out not to have been taken. Nothing but sums is asked of a session
  // while a step is under way. `is_followed`: another one is sure to be begun after it, on all ranks; where
  // forwards run ahead, that one's first do so meanwhile.
  void begin_step(bool is_followed = false);
  engine::StepReport finish_step();  // of the first one that is under way
  std::size_t under_way() const { return begun_.size(); }
  // Whether one must end before another may be begun.
  bool is_full() const { return executor_->is_full(); }
  // Whether steps of any rank make use of being followed.
  bool runs_ahead() const;
  // The losses of samples [first, first + count) of the source, with the weights as they are and without
  // dropout; all ranks call it. Steps before and after it are as they would be without.
  using Progress = std::function<void(std::uint64_t done, std::uint64_t all)>;
  std::vector<engine::LossSum> evaluate(const Source& source, std::uint64_t first, std::uint64_t count,
                                        const Progress& progress = {});
  // Reads the batches of so many steps to come: what can't be read is then known while the run can still be
  // saved. Throws what the source throws.
  void read_ahead(std::size_t steps);

  // From the next step on, which experts tokens choose is written to training.record_choices; all ranks call
  // it, and one of them makes the file.
  void record_choices();

  const spec::Model& model() const { return plan_.model; }
  const spec::Layout& layout() const { return plan_.layout; }
  const spec::Training& training() const { return plan_.training; }
  const Source& source() const { return source_; }
  const program::Program& program() const { return plan_.program; }
  // Where this rank writes what it is doing; may be nothing.
  ActivityLog* log() const { return log_; }
  // Its order of micro-batches in words: the one asked for, and what became of it.
  std::string schedule() const;
  // What the compiler chose or had to do otherwise; empty: nothing.
  const std::string& note() const { return plan_.note; }
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
  // Momentum of the outer optimizer beside a bucket's slice, which is saved with it; nothing without one.
  tensor::Tensor outer_momentum(const shard::FlatBucket& bucket) const;
  // Before kept() is asked for what is to be saved; all ranks call it.
  void settle() { executor_->bucket_store().settle_errors(); }
  // Where the run stands, and going on from there. Weights and optimizer state are put back apart.
  checkpoint::Progress progress() const;
  void go_on_from(const checkpoint::Progress& progress);
  // The whole flat of which the ranks hold such slices; all of them call it. Servers get nothing, workers
  // bring none.
  tensor::Tensor whole_of(const shard::FlatBucket& bucket, const tensor::Tensor& slice) const;
  // Logits of a micro-batch, or of these rows of it, with the current weights; all ranks call it, and have
  // all of them. Not where ranks share stages or tokens.
  tensor::Tensor logits(const model::Batch& batch, const tensor::Tensor& rows = {});
  // While it lives all weights stay gathered: for many forwards, and no step. All ranks make one.
  class Gathered {
   public:
    explicit Gathered(Session& session);
    ~Gathered();
    Gathered(const Gathered&) = delete;
    Gathered& operator=(const Gathered&) = delete;

   private:
    Session& session_;
  };
  // Along an axis set of the program.
  const collective::Group& group(std::int16_t axis_set) const {
    return groups_.at(static_cast<std::size_t>(axis_set));
  }
  // Returns when all ranks have called it.
  void meet() const;
  // The sum of what all ranks bring; of several numbers one by one.
  double sum(double value) const;
  std::vector<double> sums(std::vector<double> values) const;
  // The same over a connection of its own, by another thread, while steps that overlap are under way.
  std::vector<double> sums_beside(std::vector<double> values) const;
  std::int64_t updates() const { return updates_; }
  double learning_rate() const { return learning_rate_; }
  // Of the last step, summed over all ranks; of layers with experts.
  const std::vector<metrics::ExpertLoad>& expert_loads() const { return expert_loads_; }
  // Of the next step.
  double loss_scale() const { return loss_scale_.value(); }

 private:
  // What a step is made of, and how its samples are used.
  struct Reading {
    const Source& source;
    std::uint64_t first = 0;
    std::int64_t count = 0;  // samples of all ranks
    bool drops = false;      // by dropout
    bool trains = false;     // choices of experts are kept for recomputations
    std::int64_t step = 0;   // whose these are
  };
  // What a step leaves with the session while it is under way.
  struct Begun {
    std::int64_t step = 0;
    std::uint64_t first = 0;  // sample
  };
  // Which experts its tokens went to, of one step of those that may be under way.
  struct StepChoices {
    std::vector<model::ByLayer> made;  // by micro-batch, while they are recorded
    model::ByLayer loads;              // of this rank
  };
  StepChoices& choices_of(std::int64_t step) const {
    return choices_[static_cast<std::size_t>(step) % choices_.size()];
  }
  engine::StepInput input_of(const Reading& reading) const;
  engine::StepInput input_of_step(std::size_t ahead);
  engine::StepInput next_input();
  engine::Parts parts_of(const program::Sequence& sequence, ActivityLog* log = nullptr,
                         const program::Slots* slots = nullptr, bool keep_gradients = false);
  tensor::Tensor mine(std::span<const std::int64_t> whole) const;
  tensor::Tensor order_of(std::span<const std::uint64_t> samples, std::uint64_t first) const;
  model::Batch padding() const;
  model::ByLayer replayed(std::span<const std::uint64_t> samples) const;
  void write_choices(const Begun& step);
  void sum_loads(const Begun& step);
  void end_documents(std::span<const std::int64_t> tokens, std::span<std::int64_t> targets,
                     std::span<std::int64_t> documents) const;
  void make_buckets(const program::Sequence& sequence, const program::Holdings& held);

  SessionPlan plan_;
  ActivityLog* log_;
  Source source_;
  int rank_;
  at::Device device_;
  // Of all ranks, where steps overlap: for what is said between steps, and beside them.
  std::vector<collective::Group> apart_;
  std::vector<collective::Group> groups_;       // by axis set
  std::vector<collective::Group> step_groups_;  // those of a step
  shard::OffloadStore offload_store_;
  parallel::ParallelContext context_;
  std::vector<shard::FlatBucket> buckets_;
  std::vector<optim::BucketOptimizer> optimizers_;
  model::Model model_;
  std::vector<program::Slots> slots_;  // by class of ranks; on accelerators
  std::unique_ptr<engine::Executor> executor_;
  std::vector<tensor::Tensor> outer_momenta_;  // by bucket; empty without an outer optimizer
  std::vector<program::Sequence> evaluation_;  // by class of ranks; empty until it is first asked for
  std::unique_ptr<engine::Executor> evaluator_;
  std::deque<engine::StepInput> inputs_;  // that were read ahead
  std::deque<Begun> begun_;
  bool is_gathered_ = false;
  bool is_next_told_ = false;  // the executor has the input of the next step
  bool is_server_ = false;
  std::int64_t data_rank_ = 0;
  bool meets_other_samples_ = false;
  mutable std::array<StepChoices, 4> choices_;  // by a step's number; as many as are read at a time
  std::optional<ChoiceReader> replayed_choices_;
  std::optional<ChoiceWriter> recorded_choices_;
  std::vector<metrics::ExpertLoad> expert_loads_;
  std::uint64_t cursor_ = 0;
  std::int64_t steps_ = 0, updates_ = 0, reset_after_ = 0;
  double learning_rate_ = 0;
  optim::LossScale loss_scale_;
};

}  // namespace tessera::train
