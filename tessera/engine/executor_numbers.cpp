// The numbers of a step: sums over ranks, what is read of them, and the updates that need them.
#include "tessera/base/error.hpp"
#include "tessera/engine/executor.hpp"

namespace tessera::engine {

using program::Op;
using program::Role;
using tensor::Tensor;

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

}  // namespace tessera::engine
