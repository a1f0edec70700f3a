#include "tessera/train/session.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/families/families.hpp"
#include "tessera/model/make/make.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/program/ir/waits.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/tensor/device.hpp"
#include "tessera/train/weights.hpp"

namespace tessera::train {

using tensor::Tensor;

namespace {

// The group of this rank along each axis set, in the order of the tables.
std::vector<collective::Group> make_groups(const collective::Communicator& communicator,
                                           const program::Tables& tables,
                                           std::vector<collective::Group>& apart, ActivityLog* log,
                                           PhaseTimer* timer) {
  TESSERA_CHECK(tables.class_of_rank.size() == static_cast<std::size_t>(communicator.size()),
                "the layout has ", tables.class_of_rank.size(), " ranks, the job ", communicator.size());
  std::vector<std::vector<int>> lists;
  for (const auto& set : program::sets_of(tables)) {
    const auto peers = set.peers(communicator.rank());
    lists.emplace_back(peers.begin(), peers.end());
  }
  if (timer) timer->end("program");
  const During meeting(log, Doing::meeting);
  auto groups = collective::make_groups(communicator, lists);
  if (tables.steps_overlap) {
    std::vector<int> all(static_cast<std::size_t>(communicator.size()));
    std::iota(all.begin(), all.end(), 0);
    apart = collective::make_groups(communicator.host(), {all, all});
  }
  if (timer) timer->end("groups");
  return groups;
}

// What lies outside before a step: what is fetched there before it is offloaded.
std::set<program::Cell> outside_at_start(const program::Sequence& sequence) {
  std::set<program::Cell> met, out;
  for (const auto& op : sequence.ops)
    if (op.what == program::OpKind::fetch || op.what == program::OpKind::offload) {
      const program::Cell cell = program::named_cell(op);
      if (met.insert(cell).second && op.what == program::OpKind::fetch && program::is_durable(cell.kind))
        out.insert(cell);
    }
  return out;
}

std::vector<collective::Group> step_groups(std::vector<collective::Group> groups,
                                           const collective::Communicator& communicator,
                                           const program::Tables& tables, const Variation& variation) {
  if (variation.step_groups) variation.step_groups(communicator, tables, groups);
  return groups;
}

// Whose samples a rank computes: its place along the axes that divide them.
std::int64_t data_rank(int rank, const program::Tables& tables) {
  std::vector<std::string> names;
  for (const program::Axis& axis : tables.axes)
    if (axis.role == program::AxisRole::samples) names.push_back(axis.name);
  return program::mesh_of(tables).along(names).coordinate(rank);
}

// Whether experts are shared by ranks with different samples.
bool meets_other_samples(const program::Tables& tables) {
  return std::ranges::any_of(tables.axes, [](const program::Axis& axis) {
    return axis.role == program::AxisRole::samples && axis.for_experts != program::ExpertRole::data;
  });
}

parallel::ProductAxes::Form blocks_of(const spec::Layout& layout) {
  using enum parallel::ProductAxes::Form;
  if (!layout.in_blocks()) return whole;
  return layout.tp_kind == spec::TensorKind::d3 ? cube : square;
}

}  // namespace

namespace {

SessionPlan session_plan(const spec::Run& run, plan::StepRequest request, program::Program program,
                         std::string note) {
  return {.program = std::move(program),
          .note = std::move(note),
          .make_model = model::make,
          .compile_evaluation =
              [request = std::move(request)](const program::Tables& tables) {
                return plan::compile_evaluation(request, tables);
              },
          .model = run.model,
          .layout = run.layout,
          .training = run.training,
          .loss_chunk_tokens = run.cluster.loss_chunk_tokens(),
          .document_end = run.data.document_end,
          .has_documents = run.data.has_documents()};
}

}  // namespace

SessionPlan session_plan(const spec::Run& run) {
  plan::StepRequest request = families::step_request(run);
  std::string note;
  program::Program program = plan::compile(request, &note);
  return session_plan(run, std::move(request), std::move(program), std::move(note));
}

SessionPlan session_plan(const spec::Run& run, program::Program program) {
  return session_plan(run, families::step_request(run), std::move(program), "");
}

Session::Session(SessionPlan plan, const collective::Communicator& communicator, Source source,
                 const Variation& variation, ActivityLog* log, PhaseTimer* timer)
    : plan_(std::move(plan)),
      log_(log),
      source_(std::move(source)),
      rank_(communicator.rank()),
      device_(communicator.device()),
      groups_(make_groups(communicator, plan_.program.tables, apart_, log, timer)),
      step_groups_(step_groups(groups_, communicator, plan_.program.tables, variation)),
      offload_store_(plan_.layout.offload_folder, communicator.device()),
      context_(parallel::make_context(plan_.program.tables, step_groups_,
                                      {.sequence = plan_.model.sequence,
                                       .cuts_stream = plan_.layout.cuts_stream(),
                                       .regathers = plan_.layout.regathers(),
                                       .blocks = blocks_of(plan_.layout),
                                       .gathers_blocks = plan_.layout.tp_gather,
                                       .loss_chunk = plan_.loss_chunk_tokens,
                                       .expert_slices = plan_.layout.etp,
                                       .device = device_})),
      is_server_(program::is_server(plan_.program.tables, communicator.rank())),
      data_rank_(data_rank(communicator.rank(), plan_.program.tables)),
      meets_other_samples_(meets_other_samples(plan_.program.tables) ||
                           plan_.model.balance == spec::Balance::batch),
      loss_scale_(plan_.training, plan_.layout.precision) {
  const auto& tables = plan_.program.tables;
  const std::size_t rank_class = tables.class_of_rank.at(static_cast<std::size_t>(communicator.rank()));
  const auto& sequence = plan_.program.classes[rank_class];
  if (!device_.is_cpu()) slots_ = plan::place_in_slots(plan_.program);
  const program::Holdings held = program::holdings(sequence, tables);
  make_buckets(sequence, held);
  const During preparing(log, Doing::preparing);
  if (!plan_.training.replay_choices.empty())
    replayed_choices_.emplace(plan_.training.replay_choices, plan_.model);
  model_ = plan_.make_model(plan_.model, tables,
                            {.units = held.units,
                             .buckets = buckets_,
                             .context = context_,
                             .channel_ranks = plan_.layout.tp_channels(),
                             .key_ranks = spec::tp_kv(plan_.model, plan_.layout),
                             .seed = plan_.training.seed});
  executor_ = std::make_unique<engine::Executor>(
      parts_of(sequence, log_, slots_.empty() ? nullptr : &slots_[rank_class], variation.keep_gradients));
  if (plan_.training.local_steps > 0 && plan_.training.outer_optimizer == spec::OuterOptimizer::nesterov)
    for (const shard::FlatBucket& bucket : buckets_)
      outer_momenta_.push_back(
          tensor::zeros({bucket.shard_elements()}, shard::to_torch(bucket.table().storage), device_));
  if (timer) timer->end("weights");
}

engine::Parts Session::parts_of(const program::Sequence& sequence, ActivityLog* log,
                                const program::Slots* slots, bool keep_gradients) {
  return {plan_.program.tables,
          sequence,
          rank_,
          step_groups_,
          model_,
          buckets_,
          optimizers_,
          offload_store_,
          plan_.training.clip_norm,
          log,
          device_,
          slots,
          nullptr,
          keep_gradients};
}

// One after the other: what lies outside between steps leaves before the next bucket is made, so that a model
// may start that is larger than memory.
void Session::make_buckets(const program::Sequence& sequence, const program::Holdings& held) {
  const auto outside = outside_at_start(sequence);
  std::optional<WeightsFile> weights;
  if (!plan_.model.weights.empty()) {
    const During loading(log_, Doing::loading);
    weights.emplace(plan_.model, plan_.program.tables);
  }
  const auto& tables = plan_.program.tables.buckets;
  const auto slice_along = [&](std::int16_t set) {
    return set < 0 ? Slice() : Slice{group(set).rank(), group(set).size()};
  };
  buckets_.reserve(tables.size());  // the optimizers point at them
  for (std::uint32_t item = 0; item < tables.size(); ++item) {
    if (!held.buckets[item]) continue;
    std::optional<During> preparing(std::in_place, log_, Doing::preparing);
    const auto held_slice = program::slice_held(tables[item], plan_.program.tables, rank_);
    auto& bucket =
        buckets_.emplace_back(tables[item], plan_.training.seed,
                              held_slice.value_or(Slice{0, plan_.program.tables.num_slices(tables[item])}),
                              device_, slice_along(tables[item].cut_over), held_slice.has_value());
    preparing.reset();
    if (weights && bucket.has_shard()) weights->fill(bucket, log_);
    preparing.emplace(log_, Doing::preparing);
    auto& optimizer = optimizers_.emplace_back(plan_.training, bucket);
    const program::Cell shard{program::CellKind::shard, item}, state{program::CellKind::state, item};
    if (outside.contains(shard)) {
      offload_store_.put({shard}, bucket.shard());
      bucket.set_shard(tensor::Tensor());
    }
    if (!bucket.has_shard()) continue;
    if (!outside.contains(state))
      optimizer.make_state();
    else
      for (std::size_t part = 0; part < optimizer.num_states(); ++part)
        offload_store_.put_zeros({state, part}, {bucket.shard_elements()},
                                 shard::to_torch(tables[item].storage));
  }
}

// As many samples at a time as a step has: the program's micro-batches are those of training. What delayed
// buckets compute with in the next step is set aside meanwhile.
std::vector<engine::LossSum> Session::evaluate(const Source& source, std::uint64_t first, std::uint64_t count,
                                               const Progress& progress) {
  TESSERA_CHECK(under_way() == 0, "an evaluation while a step is under way");
  const During evaluating(log_, Doing::evaluating, steps_);
  if (!evaluator_) {
    evaluation_ = plan_.compile_evaluation(plan_.program.tables);
    const auto rank = static_cast<std::size_t>(rank_);
    evaluator_ = std::make_unique<engine::Executor>(
        parts_of(evaluation_.at(plan_.program.tables.class_of_rank.at(rank))));
  }
  std::vector<std::pair<shard::FlatBucket*, Tensor>> delayed;
  for (shard::FlatBucket& bucket : buckets_)
    if (bucket.table().delayed && bucket.full().defined()) {
      delayed.emplace_back(&bucket, bucket.full());
      bucket.end_full();
    }
  std::vector<engine::LossSum> sums;
  const auto batch = static_cast<std::uint64_t>(plan_.training.global_batch);
  for (std::uint64_t done = 0; done < count; done += batch) {
    const auto now = static_cast<std::int64_t>(std::min(batch, count - done));
    const auto more = evaluator_->evaluate(input_of({.source = source, .first = first + done, .count = now}));
    if (progress) progress(done + static_cast<std::uint64_t>(now), count);
    if (sums.empty()) sums.resize(more.size());
    for (std::size_t i = 0; i < more.size(); ++i)
      sums[i] = {more[i].name, sums[i].sum + more[i].sum, sums[i].tokens + more[i].tokens};
  }
  for (auto& [bucket, full] : delayed) bucket->set_full(std::move(full));
  return sums;
}

namespace {

// Axis sets that make a step along each axis of the mesh once: what goes over all of them, one after the
// other, goes over all ranks.
std::vector<std::size_t> spanning_sets(const program::Tables& tables) {
  std::vector<std::size_t> out;
  std::vector<bool> is_covered(tables.axes.size(), false);
  for (std::size_t set = 0; set < tables.axis_sets.size(); ++set) {
    const auto& axes = tables.axis_sets[set];
    const auto is_taken = [&](std::int16_t axis) { return is_covered[static_cast<std::size_t>(axis)]; };
    if (!axes.only.empty() || std::ranges::any_of(axes.axes, is_taken)) continue;
    for (const std::int16_t axis : axes.axes) is_covered[static_cast<std::size_t>(axis)] = true;
    out.push_back(set);
  }
  return out;
}

}  // namespace

namespace {

std::vector<double> sums_over(const collective::Group& group, std::vector<double> values) {
  tensor::Tensor cells = tensor::view_of(values.data(), {std::ssize(values)}, at::kDouble);
  group.all_reduce_sum(cells);
  return values;
}

}  // namespace

std::string Session::schedule() const {
  const std::string name = spec::schedule_name(plan_.layout);
  return note().empty() ? name : cat(name, " (", note(), ")");
}

void Session::meet() const {
  const During meeting(log_, Doing::meeting, steps_);
  if (!apart_.empty()) return apart_.front().barrier();
  for (const std::size_t set : spanning_sets(plan_.program.tables)) groups_[set].barrier();
}

std::vector<double> Session::sums(std::vector<double> values) const {
  const During meeting(log_, Doing::meeting, steps_);
  if (!apart_.empty()) return sums_over(apart_[0], std::move(values));
  const tensor::Tensor mine = tensor::view_of(values.data(), {std::ssize(values)}, at::kDouble);
  tensor::Tensor cells = mine.to(device_);
  for (const std::size_t set : spanning_sets(plan_.program.tables)) groups_[set].all_reduce_sum(cells);
  mine.copy_(cells);
  return values;
}

std::vector<double> Session::sums_beside(std::vector<double> values) const {
  return sums_over(apart_.at(1), std::move(values));
}

double Session::sum(double value) const { return sums({value}).front(); }

Session::Gathered::Gathered(Session& session) : session_(session) {
  session_.executor_->bucket_store().gather_all();
  session_.is_gathered_ = true;
}

Session::Gathered::~Gathered() {
  session_.executor_->bucket_store().free_all();
  session_.is_gathered_ = false;
}

tensor::Tensor Session::logits(const model::Batch& batch, const tensor::Tensor& rows) {
  TESSERA_CHECK(plan_.layout.cp == 1 && !plan_.layout.cuts_stream() && !plan_.layout.in_blocks(),
                "logits of ranks that share tokens");
  std::optional<Gathered> here;
  if (!is_gathered_) here.emplace(*this);
  return model::logits(model_, plan_.program.tables, batch, rows);
}

tensor::Tensor Session::shard_of(const shard::FlatBucket& bucket) {
  return executor_->bucket_store().shard_between_steps(bucket);
}

std::vector<std::string> state_prefixes(const spec::Training& training) {
  switch (training.optimizer) {
    case spec::Optimizer::adamw:
      return {"optimizer.exp_avg.", "optimizer.exp_avg_sq."};
    case spec::Optimizer::sgd:
      break;
  }
  if (training.momentum == 0) return {};
  return {"optimizer.momentum."};
}

std::vector<Kept> Session::kept(const shard::FlatBucket& bucket) {
  if (!bucket.has_shard()) return {};
  const auto& table = bucket.table();
  const auto held = [&](const char* prefix, const tensor::Tensor& flat, bool is_slice) {
    const auto& sets = plan_.program.tables.axis_sets;
    const bool is_cut = is_slice && table.sharded_over >= 0;
    const std::vector<std::int16_t> cut_along =
        is_cut ? sets[static_cast<std::size_t>(table.sharded_over)].axes : std::vector<std::int16_t>();
    return Kept{prefix, flat, is_slice ? bucket.slice().position * bucket.shard_elements() : 0,
                program::replica_of(table, plan_.program.tables, rank_, cut_along)};
  };
  std::vector<Kept> out = {held("", shard_of(bucket), true)};
  const auto prefixes = state_prefixes(plan_.training);
  const auto state = executor_->bucket_store().state_between_steps(bucket);
  for (std::size_t part = 0; part < state.size(); ++part)
    out.push_back(held(prefixes.at(part).c_str(), state[part], true));
  if (const Tensor error = executor_->bucket_store().error_between_steps(bucket); error.defined())
    out.push_back(held(kErrorPrefix, error, false));
  if (const auto* thin = executor_->bucket_store().thin_sum(bucket))
    out.push_back(held(kDirectionsPrefix, thin->directions(), false));
  if (!outer_momenta_.empty()) out.push_back(held(kOuterPrefix, outer_momentum(bucket), true));
  if (table.delayed && bucket.full().defined()) out.push_back(held(kPreviousPrefix, bucket.full(), false));
  return out;
}

void Session::put_back(const shard::FlatBucket& bucket, std::span<const Kept> kept) {
  if (kept.empty()) return;
  std::vector<tensor::Tensor> state;
  for (const Kept& part : kept.subspan(1)) {
    if (part.prefix == kErrorPrefix) executor_->bucket_store().put_error(bucket, part.flat);
    if (part.prefix == kDirectionsPrefix)
      executor_->bucket_store().thin_sum(bucket)->set_directions(part.flat);
    if (checkpoint::is_optimizer_state(part.prefix)) state.push_back(part.flat);
  }
  executor_->bucket_store().put_between_steps(bucket, kept.front().flat, state);
}

tensor::Tensor Session::outer_momentum(const shard::FlatBucket& bucket) const {
  if (outer_momenta_.empty()) return {};
  return outer_momenta_[static_cast<std::size_t>(&bucket - buckets_.data())];
}

checkpoint::Progress Session::progress() const {
  return {.step = steps_,
          .updates = updates_,
          .next_sample = cursor_,
          .seed = plan_.training.seed,
          .loss_scale = loss_scale_.is_dynamic() ? loss_scale_.value() : 0,
          .good_steps = loss_scale_.good_steps(),
          .reset_after = reset_after_};
}

void Session::go_on_from(const checkpoint::Progress& progress) {
  inputs_.clear();
  steps_ = progress.step;
  updates_ = progress.updates;
  reset_after_ = progress.reset_after;
  cursor_ = progress.next_sample;
  if (progress.loss_scale > 0) loss_scale_.restore(progress.loss_scale, progress.good_steps);
}

tensor::Tensor Session::whole_of(const shard::FlatBucket& bucket, const tensor::Tensor& slice) const {
  const program::Bucket& table = bucket.table();
  if (plan_.program.tables.is_served(table)) {
    const engine::ServerExchange exchange(group(table.sharded_over), bucket.slice().count);
    if (bucket.has_shard()) return exchange.give(slice), tensor::Tensor();
    tensor::Tensor whole = tensor::empty({table.elements}, shard::to_torch(table.storage), device_);
    return exchange.pull(whole), whole;
  }
  if (bucket.slice().count == 1) return slice;
  tensor::Tensor whole = tensor::empty({table.elements}, slice.scalar_type(), slice.device());
  group(table.sharded_over).all_gather(whole, slice);
  return whole;
}

void Session::read_ahead(std::size_t steps) {
  const std::size_t told = is_next_told_ ? 1 : 0;
  while (inputs_.size() + told < steps) inputs_.push_back(input_of_step(inputs_.size() + told));
}

bool Session::runs_ahead() const { return device_.is_cpu() && program::has_ahead(plan_.program); }

engine::StepInput Session::next_input() {
  read_ahead(1);
  engine::StepInput out = std::move(inputs_.front());
  inputs_.pop_front();
  return out;
}

void Session::begin_step(bool is_followed) {
  engine::StepInput input;
  if (!is_next_told_) input = next_input();
  is_next_told_ = false;
  begun_.push_back({.step = ++steps_, .first = cursor_});
  cursor_ += static_cast<std::uint64_t>(plan_.training.global_batch);
  learning_rate_ = optim::learning_rate(plan_.training, updates_);
  input.learning_rate = learning_rate_;
  input.count = ++updates_ - reset_after_;
  std::optional<engine::StepInput> next;
  if (is_followed && executor_->runs_ahead()) next = next_input();
  is_next_told_ = next.has_value();
  executor_->begin(std::move(input), std::move(next));
}

engine::StepReport Session::finish_step() {
  TESSERA_CHECK(!begun_.empty(), "no step is under way");
  auto report = executor_->finish();
  const Begun begun = begun_.front();
  begun_.pop_front();
  if (plan_.model.experts > 0) sum_loads(begun);
  if (recorded_choices_) write_choices(begun);
  if (!report.taken) --updates_;
  loss_scale_.update(report.taken);
  return report;
}

engine::StepReport Session::step() {
  TESSERA_CHECK(begun_.empty(), "another step is under way");
  begin_step();
  return finish_step();
}

void Session::sum_loads(const Begun& step) {
  const auto width = static_cast<std::size_t>(plan_.model.experts) + 1,
             first = static_cast<std::size_t>(plan_.model.dense_layers),
             layers = static_cast<std::size_t>(plan_.model.blocks()) - first;
  std::vector<double> all(layers * width, 0);
  for (const auto& [layer, load] : choices_of(step.step).loads) {
    const Tensor here = tensor::on_host(load.to(at::kDouble));
    std::copy_n(here.const_data_ptr<double>(), width,
                all.begin() + static_cast<std::ptrdiff_t>((layer - first) * width));
  }
  choices_of(step.step).loads.clear();
  all = sums(std::move(all));
  expert_loads_.clear();
  for (std::size_t layer = 0; layer < layers; ++layer) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(layer * width);
    expert_loads_.push_back({.layer = static_cast<std::int64_t>(layer + first),
                             .tokens = {begin, begin + static_cast<std::ptrdiff_t>(width) - 1},
                             .dropped = begin[static_cast<std::ptrdiff_t>(width) - 1]});
  }
}

}  // namespace tessera::train
