#include "tessera/engine/executor.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/collective/rows.hpp"

namespace tessera::engine {

using program::Cell;
using program::CellKind;
using program::Op;
using program::OpKind;
using program::Role;
using tensor::Tensor;

struct Executor::Recording {
  model::Tape tape;
  std::vector<Tensor> inputs;  // detached leaves
  tensor::Graph graph;
};

namespace {

// In the order of their numbers, each once.
std::vector<program::Loss> losses_of(const program::Tables& tables) {
  std::vector<program::Loss> out;
  for (const program::Segment& segment : tables.segments)
    for (const program::Loss& loss : segment.losses)
      if (std::ranges::count(out, loss) == 0) out.push_back(loss);
  std::ranges::sort(out, {}, &program::Loss::loss);
  return out;
}

}  // namespace

Executor::Executor(const Parts& parts)
    : parts_(parts),
      tables_(parts.tables),
      sequence_(parts.sequence),
      slots_(sequence_, parts.slots, parts.device),
      bucket_store_(parts_, slots_),
      calls_(sequence_, tables_, parts.groups),
      lanes_(
          sequence_, tables_, [this](std::uint32_t op, std::uint64_t step) { run(op, of(step)); }, parts.log,
          parts.device) {
  const auto micro = static_cast<std::size_t>(tables_.num_micro);
  values_.resize(tables_.values.size() * micro);
  gradients_.resize(tables_.values.size() * micro);
  tapes_.resize(tables_.segments.size() * micro);
  weight_work_.resize(tables_.segments.size() * micro);
  for (Step& step : steps_) {
    step.numbers.resize(tables_.numbers.size());
    step.loss_sums.resize(tables_.numbers.size());
    step.squares.resize(tables_.buckets.size());
    step.times.resize(sequence_.ops.size());
    step.sends_along.resize(tables_.axis_sets.size());
  }
  never_ = tensor::number(0, parts_.device);
  unscaled_ = tensor::number(1, parts_.device);
  losses_ = losses_of(tables_);
  writers_.resize(tables_.values.size());
  for (const program::Segment& segment : tables_.segments)
    for (const std::uint32_t value : segment.writes)
      writers_[value] = {segment.unit, segment.first_piece + segment.num_pieces - 1};
  TESSERA_CHECK(values_.size() < (std::size_t{1} << 30), "more values than tags: ", values_.size());
  for (const Op& op : sequence_.ops) ends_.push_back(program::effects(op, tables_).ends);
  if (parts_.slots) end_late();
}

// Cells that another lane ends stay until the compute lane, whose memory they are in, comes after that.
void Executor::end_late() {
  late_ends_.resize(sequence_.ops.size());
  for (const program::LateEnd& late : parts_.slots->late) {
    std::erase(ends_[late.ended_by], late.cell);
    late_ends_[late.op].push_back(late.cell);
  }
}

Executor::~Executor() = default;

void Executor::begin(StepInput input) {
  if (num_begun_ == 0) gather_delayed();
  start(std::move(input));
}

void Executor::start(StepInput input) {
  TESSERA_CHECK(input.micro_batches.size() == static_cast<std::size_t>(tables_.num_micro), "the step has ",
                input.micro_batches.size(), " micro-batches, the program ", tables_.num_micro);
  TESSERA_CHECK(under_way() < (tables_.steps_overlap ? steps_.size() : 1),
                "a step before the last has ended");
  const at::NoGradGuard no_gradient;
  calls_.begin_step();
  Step& step = of(++num_begun_);
  step.input = std::move(input);
  account_.forget_peak();
  for (Tensor& sum : step.loss_sums) sum = tensor::number(0, parts_.device);
  step.summed.assign(tables_.numbers.size(), false);
  for (auto& sends : step.sends_along) sends.clear();
  lanes_.begin();
}

// The first step under way, when it is through.
Executor::Step& Executor::settle() {
  TESSERA_CHECK(under_way() > 0, "no step is under way");
  const at::NoGradGuard no_gradient;
  Step& step = of(++num_finished_);
  lanes_.finish(num_finished_);
  if (under_way() == 0) finish_sends(step);
  step.input.micro_batches.clear();
  return step;
}

std::vector<LossSum> Executor::evaluate(StepInput input) {
  start(std::move(input));
  const std::vector<double> numbers = read_numbers(settle());
  std::vector<LossSum> out;
  for (const program::Loss& loss : losses_)
    out.push_back({tables_.numbers[loss.loss].name, numbers[loss.loss], numbers[loss.tokens]});
  return out;
}

StepReport Executor::finish() {
  Step& step = settle();
  StepReport report;
  const std::vector<double> numbers = read_numbers(step);
  const auto of = [&](Role role) { return numbers[index_of(role)]; };
  report.tokens = of(Role::tokens);
  for (const program::Loss& loss : losses_)
    report.losses.push_back({tables_.numbers[loss.loss].name, numbers[loss.loss] / numbers[loss.tokens]});
  report.loss = report.losses.front().mean;
  report.gradient_norm = std::sqrt(of(Role::norm)) / step.input.loss_scale;
  report.loss_scale = step.input.loss_scale;
  report.learning_rate = step.input.learning_rate;
  report.taken = of(Role::finite) == 0;
  report.at_peak = account_.at_peak();
  report.times = step.times;
  report.moved = bucket_store_.take_moved();
  if (!tables_.steps_overlap) {
    report.moved.along = calls_.of_step();
    return report;
  }
  std::vector<OpCalls> calls;
  for (const OpTime& time : report.times) calls.insert(calls.end(), time.calls.begin(), time.calls.end());
  report.moved.along = calls_.sum_of(calls);
  return report;
}

// What the step before would have gathered; a run that goes on has it already.
void Executor::gather_delayed() {
  for (const Op& op : sequence_.ops)
    if (op.what == OpKind::gather && tables_.buckets[op.item].delayed && !bucket_store_.has_full(op.item))
      bucket_store_.gather(op);
}

std::size_t Executor::at(std::uint32_t item, std::int32_t micro) const {
  return static_cast<std::size_t>(item) * static_cast<std::size_t>(tables_.num_micro) +
         static_cast<std::size_t>(micro);
}

std::size_t Executor::index_of(Role role) const {
  for (std::size_t i = 0; i < tables_.numbers.size(); ++i)
    if (tables_.numbers[i].role == role) return i;
  throw Bug("the program lacks a number that every step has");
}

const Tensor& Executor::number(Role role, const Step& step) const {
  return tensor::read_here(step.numbers[index_of(role)]);
}

// All at once: an accelerator's host waits here, and nowhere else in a step. Numbers that were not summed are
// 0.
std::vector<double> Executor::read_numbers(const Step& step) const {
  std::vector<Tensor> read;
  for (std::size_t number = 0; number < step.numbers.size(); ++number)
    if (step.summed[number]) read.push_back(tensor::read_here(step.numbers[number]).view({1}));
  const Tensor all = tensor::on_host(tensor::concatenate(read, 0));
  const double* next = all.const_data_ptr<double>();
  std::vector<double> out(step.numbers.size(), 0);
  for (std::size_t number = 0; number < step.numbers.size(); ++number)
    if (step.summed[number]) out[number] = *next++;
  return out;
}

void Executor::run(std::uint32_t index, Step& step) {
  const Op& op = sequence_.ops[index];
  const auto calls = calls_.before(op);
  if (!late_ends_.empty())
    for (const Cell& cell : late_ends_[index]) end(cell);
  step.times[index] = {index, now_seconds(), 0};
  switch (op.what) {
    case OpKind::forward:
      forward(op, step);
      break;
    case OpKind::recompute:
      recompute(op, step);
      break;
    case OpKind::backward:
      backward(op, step, true);
      break;
    case OpKind::backward_input:
      backward(op, step, false);
      break;
    case OpKind::backward_weight:
      bucket_store_.begin_gradients(op);
      weight_work_[at(op.item, op.micro)].run();
      break;
    case OpKind::gather:
      bucket_store_.gather(op);
      break;
    case OpKind::reduce:
      bucket_store_.reduce(op);
      break;
    case OpKind::sum:
      sum(op, step);
      break;
    case OpKind::step:
      update(op, step);
      break;
    case OpKind::free:
      end(program::named_cell(op));
      break;
    case OpKind::send:
      send(index, step);
      break;
    case OpKind::receive:
      receive(op, step);
      break;
    case OpKind::offload:
      offload(op);
      break;
    case OpKind::fetch:
      fetch(op, step);
      break;
    case OpKind::exchange:
      exchange(op, step);
      break;
  }
  for (const Cell& cell : ends_[index]) end(cell);
  step.times[index].end_seconds = now_seconds();
  step.times[index].calls = calls_.since(op, calls);
}

model::Outcome Executor::compute(const Op& op, Step& step, const std::vector<Tensor>& inputs,
                                 model::Tape& tape) {
  const auto& segment = tables_.segments[op.item];
  bucket_store_.read_weights(segment);
  auto outcome =
      parts_.model[segment.unit]->forward(segment.first_piece, segment.num_pieces, inputs,
                                          step.input.micro_batches[static_cast<std::size_t>(op.micro)], tape);
  TESSERA_CHECK(
      outcome.values.size() == segment.writes.size() && outcome.losses.size() == segment.losses.size(),
      "unit ", tables_.units[segment.unit].name, " does not write what the plan says");
  return outcome;
}

// With a graph, on leaves over the inputs.
model::Outcome Executor::record(const Op& op, Step& step) {
  auto recording = std::make_unique<Recording>();
  const at::AutoGradMode with_gradient(true);
  for (const auto value : tables_.segments[op.item].reads)
    recording->inputs.push_back(
        tensor::read_here(values_[at(value, op.micro)]).detach().requires_grad_(true));
  model::Outcome outcome = compute(op, step, recording->inputs, recording->tape);
  std::vector<Tensor> roots = outcome.values;
  roots.insert(roots.end(), outcome.losses.begin(), outcome.losses.end());
  recording->graph = tensor::Graph(roots);
  tapes_[at(op.item, op.micro)] = std::move(recording);
  return outcome;
}

model::Outcome Executor::compute_without_tape(const Op& op, Step& step) {
  model::Tape forgotten;
  std::vector<Tensor> inputs;
  for (const auto value : tables_.segments[op.item].reads)
    inputs.push_back(tensor::read_here(values_[at(value, op.micro)]));
  return compute(op, step, inputs, forgotten);
}

void Executor::forward(const Op& op, Step& step) {
  const auto& segment = tables_.segments[op.item];
  if (step.input.micro_batches[static_cast<std::size_t>(op.micro)].samples == 0) return;
  const auto outcome = op.flags & program::kNoTape ? compute_without_tape(op, step) : record(op, step);
  for (std::size_t i = 0; i < segment.writes.size(); ++i)
    values_[at(segment.writes[i], op.micro)] = outcome.values[i].detach();
  for (std::size_t i = 0; i < segment.losses.size(); ++i)
    step.loss_sums[segment.losses[i].loss].add_(outcome.losses[i].detach());
}

// What the forward made is there already: only the tape is kept.
void Executor::recompute(const Op& op, Step& step) {
  if (step.input.micro_batches[static_cast<std::size_t>(op.micro)].samples != 0) record(op, step);
}

void Executor::backward(const Op& op, Step& step, bool with_weights) {
  const auto& segment = tables_.segments[op.item];
  if (with_weights) bucket_store_.begin_gradients(op);
  if (step.input.micro_batches[static_cast<std::size_t>(op.micro)].samples == 0) return;
  bucket_store_.read_weights(segment);
  Recording& recording = *tapes_[at(op.item, op.micro)];
  std::vector<Tensor> root_gradients;
  for (const auto value : segment.writes)
    root_gradients.push_back(tensor::read_here(gradients_[at(value, op.micro)]));
  for (const auto& loss : segment.losses) {
    const auto dtype = tensor::wide(shard::to_torch(tables_.buckets.front().compute));
    root_gradients.push_back(tensor::number(step.input.loss_scale, parts_.device)
                                 .div_(tensor::read_here(step.numbers[loss.tokens]))
                                 .to(dtype));
  }
  std::vector<Tensor> leaves = recording.inputs;
  for (const auto& [leaf, weight] : recording.tape.leaves) leaves.push_back(leaf);
  if (recording.tape.anchor_tensor.defined()) leaves.push_back(recording.tape.anchor_tensor);
  if (with_weights) recording.tape.work.run_at_once();
  const auto found = recording.graph.run(root_gradients, leaves);
  for (std::size_t i = 0; i < segment.reads.size(); ++i) {
    Tensor& gradient = gradients_[at(segment.reads[i], op.micro)];
    gradient = gradient.defined() ? tensor::read_here(gradient).add(found[i]) : found[i];
  }
  for (std::size_t i = 0; i < recording.tape.leaves.size(); ++i)
    recording.tape.work.term(*recording.tape.leaves[i].second, found[segment.reads.size() + i]);
  if (!with_weights) weight_work_[at(op.item, op.micro)] = std::move(recording.tape.work);
}

Tensor Executor::partial(std::uint32_t number, Step& step) {
  switch (tables_.numbers[number].role) {
    case Role::tokens:
      return tensor::number(step.input.valid_tokens, parts_.device);
    case Role::positions:
      return tensor::number(step.input.positions, parts_.device);
    case Role::tokens_ahead:
      return tensor::number(step.input.tokens_ahead, parts_.device);
    case Role::loss:
      return tensor::read_here(step.loss_sums[number]).clone();
    case Role::norm:
      return tables_.updates_wait ? bucket_store_.squared_norm() : sum_of_squares(step);
    case Role::finite: {
      const Tensor norm = this->number(Role::norm, step).sqrt().div_(step.input.loss_scale);
      step.gradient_scale = optim::clip_scale(norm, parts_.clip_norm).div_(step.input.loss_scale);
      return norm.isfinite().logical_not_().to(at::kDouble);
    }
  }
  throw Bug("a number outside its roles");
}

void Executor::sum(const Op& op, Step& step) {
  // Axis by axis: a later sum of the same number goes on from the one before.
  Tensor value =
      step.summed[op.item] ? tensor::read_here(step.numbers[op.item]).clone() : partial(op.item, step);
  step.summed[op.item] = true;
  Tensor cell = value.view({1});
  if (op.along >= 0) parts_.groups[static_cast<std::size_t>(op.along)].all_reduce_sum(cell);
  step.numbers[op.item] = value;
}

Tensor& Executor::held(const Cell& cell) {
  TESSERA_CHECK(cell.kind == CellKind::value || cell.kind == CellKind::gradient,
                "only values and gradients are sent");
  return (cell.kind == CellKind::value ? values_ : gradients_)[at(cell.item, cell.micro)];
}

namespace {

// Both ends derive it from the cell. Micro-batches of neighbours are equally empty, so both skip an empty
// one.
int tag_of(const Cell& cell, std::int32_t num_micro) {
  const auto index = static_cast<std::int32_t>(cell.item) * num_micro + cell.micro;
  return 2 * index + (cell.kind == CellKind::gradient ? 1 : 0);
}

// As on a ring.
int other_end(const collective::Group& group, int hop) {
  return (group.rank() + hop + group.size()) % group.size();
}

}  // namespace

void Executor::send(std::uint32_t index, Step& step) {
  const Op& op = sequence_.ops[index];
  if (step.input.micro_batches[static_cast<std::size_t>(op.micro)].samples == 0) return;
  const Cell cell = program::named_cell(op);
  const auto& group = parts_.groups[static_cast<std::size_t>(op.along)];
  step.sends_along[static_cast<std::size_t>(op.along)].push_back(index);
  const Tensor& source = held(cell);
  const int to = other_end(group, op.hop), tag = tag_of(cell, tables_.num_micro);
  const bool ends_here = !ends_[index].empty();  // not late: nobody waits for the memory
  if (ends_here) tensor::read_here(source);
  if (op.flags & program::kEndsSource)
    group.hand_over(source, to, tag,
                    ends_here ? collective::Held::until_received : collective::Held::by_caller);
  else
    group.send(source, to, tag);
}

// What the tape holds of it is another tensor: nothing here changes the one that comes in.
void Executor::exchange(const Op& op, Step& step) {
  if (step.input.micro_batches[static_cast<std::size_t>(op.micro)].samples == 0) return;
  const Cell cell = program::named_cell(op);
  const program::Exchange& exchange = tables_.values[cell.item].exchange;
  const auto& calls = cell.kind == CellKind::value ? exchange.forward : exchange.backward;
  const auto& group = parts_.groups[static_cast<std::size_t>(op.along)];
  Tensor& there = held(cell);
  const Tensor in = tensor::read_here(there);
  const auto evenly = [&](std::int64_t rows) {
    return collective::make_cut(std::vector(static_cast<std::size_t>(group.size()), rows), group.rank());
  };
  switch (calls.at(0).kind) {
    case program::CollectiveKind::all_gather:
      there = collective::gathered(in, group, 0, evenly(in.size(0)));
      return;
    case program::CollectiveKind::reduce_scatter:
      there = collective::reduce_scattered(in, group, 0, evenly(in.size(0) / group.size()));
      return;
    case program::CollectiveKind::all_reduce:
      there = collective::all_reduced(in, group);
      return;
    case program::CollectiveKind::all_to_all: {
      const auto [unit, piece] = writers_[cell.item];
      there =
          parts_.model[unit]->exchanged(piece, in, cell.kind == CellKind::gradient,
                                        step.input.micro_batches[static_cast<std::size_t>(op.micro)], group);
      return;
    }
    default:
      throw Bug("values are exchanged by sums, gathers and all-to-alls");
  }
}

void Executor::receive(const Op& op, Step& step) {
  const auto& batch = step.input.micro_batches[static_cast<std::size_t>(op.micro)];
  if (batch.samples == 0) return;
  const Cell cell = program::named_cell(op);
  const auto& value = tables_.values[cell.item];
  const auto& group = parts_.groups[static_cast<std::size_t>(op.along)];
  const tensor::Shape shape = {batch.tokens_T.numel() / value.token_parts, value.channels};
  Tensor arrived = slots_.memory(op, cell, shape, shard::to_torch(value.dtype));
  if (!arrived.defined()) arrived = tensor::empty(shape, shard::to_torch(value.dtype), parts_.device);
  group.receive(arrived, other_end(group, op.hop), tag_of(cell, tables_.num_micro));
  Tensor& there = held(cell);
  const bool adds = cell.kind == CellKind::gradient && there.defined();
  there = adds ? tensor::read_here(there).add(arrived) : arrived;
}

// A step is over when its sends are received: what is on its way stays bounded, and a receive that never
// comes is noticed in the step that lacks it.
void Executor::finish_sends(const Step& step) {
  constexpr std::chrono::milliseconds kLook{20};
  for (std::size_t set = 0; set < step.sends_along.size(); ++set) {
    const auto& sends = step.sends_along[set];
    std::size_t told = 0;  // how many were under way when it was last written down
    while (!sends.empty()) {
      const std::size_t left = parts_.groups[set].unfinished_sends(kLook);
      if (parts_.log && told != 0 && left != told) parts_.log->end(0, now_seconds());
      if (left == 0) break;
      if (!parts_.log || left == told) continue;
      const auto op = sends[sends.size() - std::min(left, sends.size())];
      parts_.log->issue(0, Doing::sending, static_cast<std::int32_t>(op),
                        static_cast<std::int64_t>(num_finished_), now_seconds());
      parts_.log->start(0, now_seconds());
      told = left;
    }
  }
}

void Executor::update(const Op& op, Step& step) {
  const auto& [learning_rate, count] = std::tie(step.input.learning_rate, step.input.count);
  if (tables_.updates_wait)
    return bucket_store_.step(op, {learning_rate, count, step.gradient_scale, number(Role::finite, step)});
  step.squares[op.item] = bucket_store_.squared_norm(op.item);
  bucket_store_.step(op, {learning_rate, count, unscaled_, never_});
}

// In the order of the buckets, whatever that of their steps was.
Tensor Executor::sum_of_squares(const Step& step) const {
  Tensor total = tensor::number(0, parts_.device);
  for (const Tensor& square : step.squares)
    if (square.defined()) total.add_(tensor::read_here(square));
  return total;
}

// An empty micro-batch has no values.
void Executor::offload(const Op& op) {
  const Cell cell = program::named_cell(op);
  if (cell.kind != CellKind::value) return bucket_store_.offload(op);
  Tensor& value = held(cell);
  if (value.defined() && !(op.flags & program::kUnchanged)) bucket_store_.put({cell}, value);
  value = Tensor();
}

void Executor::fetch(const Op& op, Step& step) {
  const Cell cell = program::named_cell(op);
  if (cell.kind != CellKind::value) return bucket_store_.fetch(op);
  if (step.input.micro_batches[static_cast<std::size_t>(op.micro)].samples > 0)
    held(cell) = bucket_store_.get({cell});
}

void Executor::end(const Cell& cell) {
  switch (cell.kind) {
    case CellKind::value:
      values_[at(cell.item, cell.micro)] = Tensor();
      break;
    case CellKind::gradient:
      gradients_[at(cell.item, cell.micro)] = Tensor();
      break;
    case CellKind::tape:
      tapes_[at(cell.item, cell.micro)].reset();
      break;
    case CellKind::weight_work:
      weight_work_[at(cell.item, cell.micro)] = {};
      break;
    case CellKind::full:
    case CellKind::weight_grad:
    case CellKind::shard_grad:
      bucket_store_.end(cell);
      break;
    case CellKind::shard:
    case CellKind::state:
    case CellKind::number:
      break;
  }
}

}  // namespace tessera::engine
