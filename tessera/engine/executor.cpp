#include "tessera/engine/executor.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"

namespace tessera::engine {

using program::Cell;
using program::CellKind;
using program::Op;
using program::OpKind;
using program::Role;
using tensor::Tensor;

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
  runs_ahead_ = parts.device.is_cpu() && program::has_ahead(sequence_);
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

void Executor::begin(StepInput input, std::optional<StepInput> next) {
  if (num_begun_ == 0) gather_delayed();
  start(std::move(input), std::move(next));
}

void Executor::start(StepInput input, std::optional<StepInput> next) {
  TESSERA_CHECK(!is_full(), "a step before the last has ended");
  TESSERA_CHECK(!next || runs_ahead_, "a step is told of that nothing can be made of");
  const at::NoGradGuard no_gradient;
  calls_.begin_step();
  account_.forget_peak();
  const std::uint64_t number = ++num_begun_;
  if (is_next_told_)
    of(number).input.learning_rate = input.learning_rate, of(number).input.count = input.count;
  else
    prepare(number, std::move(input));
  is_next_told_ = next.has_value();
  if (next) prepare(number + 1, std::move(*next));
  lanes_.begin(is_next_told_);
}

void Executor::prepare(std::uint64_t number, StepInput input) {
  TESSERA_CHECK(input.micro_batches.size() == static_cast<std::size_t>(tables_.num_micro), "the step has ",
                input.micro_batches.size(), " micro-batches, the program ", tables_.num_micro);
  Step& step = of(number);
  step.input = std::move(input);
  for (Tensor& sum : step.loss_sums) sum = tensor::number(0, parts_.device);
  step.summed.assign(tables_.numbers.size(), false);
  for (auto& sends : step.sends_along) sends.clear();
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
  start(std::move(input), {});
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
    if (op.what == OpKind::gather && !(op.flags & program::kAhead) && tables_.buckets[op.item].delayed &&
        !bucket_store_.has_full(op.item))
      bucket_store_.gather(op);
  for (const Op& op : sequence_.ops)
    if (op.what == OpKind::gather && (op.flags & program::kAhead)) bucket_store_.copy_ahead(op.item);
}

std::size_t Executor::at(std::uint32_t item, std::int32_t micro) const {
  return static_cast<std::size_t>(item) * static_cast<std::size_t>(tables_.num_micro) +
         static_cast<std::size_t>(micro);
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
    case OpKind::turn:
      take_turn(op, step);
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

void Executor::take_turn(const Op& op, Step& step) {
  TESSERA_CHECK(parts_.turns, "a server's ops wait for turns that nobody gives");
  const auto update = parts_.turns->wait(static_cast<program::Service>(op.item));
  if (update) step.input.learning_rate = update->learning_rate, step.input.count = update->count;
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
    case CellKind::ahead:
      break;
  }
}

}  // namespace tessera::engine
