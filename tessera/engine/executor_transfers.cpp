// How values and gradients leave a rank and come to it.
#include <algorithm>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/collective/rows.hpp"
#include "tessera/engine/executor.hpp"

namespace tessera::engine {

using program::Cell;
using program::CellKind;
using program::Op;
using tensor::Tensor;

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

}  // namespace tessera::engine
