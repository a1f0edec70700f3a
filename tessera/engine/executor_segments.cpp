// How an executor computes segments: forwards with their tapes, and backwards.
#include "tessera/base/error.hpp"
#include "tessera/engine/executor.hpp"

namespace tessera::engine {

using program::Op;
using tensor::Tensor;

model::Outcome Executor::compute(const Op& op, Step& step, const std::vector<Tensor>& inputs,
                                 model::Tape& tape) {
  const auto& segment = tables_.segments[op.item];
  const bool is_ahead = op.flags & program::kAhead;
  if (is_ahead)
    bucket_store_.use_ahead(segment);
  else
    bucket_store_.read_weights(segment);
  auto outcome =
      parts_.model[segment.unit]->forward(segment.first_piece, segment.num_pieces, inputs,
                                          step.input.micro_batches[static_cast<std::size_t>(op.micro)], tape);
  TESSERA_CHECK(
      outcome.values.size() == segment.writes.size() && outcome.losses.size() == segment.losses.size(),
      "unit ", tables_.units[segment.unit].name, " does not write what the plan says");
  if (is_ahead) bucket_store_.use_full(segment);
  return outcome;
}

// With a graph, on leaves over the inputs.
model::Outcome Executor::record(const Op& op, Step& step) {
  auto recording = std::make_unique<Recording>();
  recording->tape.is_recomputed = op.what == program::OpKind::recompute;
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
  bucket_store_.read_weights_backward(segment);
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

}  // namespace tessera::engine
