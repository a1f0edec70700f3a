#include "tessera/program/ir/effects.hpp"

#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/program/ir/footprint.hpp"

namespace tessera::program {
namespace {

// What an op computes with.
Cell weights_of(const Op& op, std::uint32_t bucket, const Tables& tables) {
  if (op.flags & kAhead) return {CellKind::ahead, bucket, kOfStep};
  return {tables.buckets[bucket].full_resident ? CellKind::shard : CellKind::full, bucket, kOfStep};
}

void read_inputs(const Op& op, const Tables& tables, Effects& out) {
  const Segment& segment = tables.segments[op.item];
  for (const std::uint32_t value : segment.reads) out.reads.push_back({CellKind::value, value, op.micro});
  for (const std::uint32_t bucket : segment.buckets) out.reads.push_back(weights_of(op, bucket, tables));
}

void add_weight_gradients(const Segment& segment, const Tables& tables, Effects& out) {
  for (const std::uint32_t bucket : segment.buckets)
    if (tables.buckets[bucket].trainable) out.adds.push_back({CellKind::weight_grad, bucket, kOfStep});
}

void forward(const Op& op, const Tables& tables, Effects& out) {
  read_inputs(op, tables, out);
  const Segment& segment = tables.segments[op.item];
  for (const std::uint32_t value : segment.writes) out.makes.push_back({CellKind::value, value, op.micro});
  if (!(op.flags & kNoTape)) out.makes.push_back({CellKind::tape, op.item, op.micro});
  for (const Loss& loss : segment.losses) out.adds.push_back({CellKind::number, loss.loss, kOfStep});
}

// What backward and backward_input share.
void input_gradient(const Op& op, const Tables& tables, Effects& out) {
  const Segment& segment = tables.segments[op.item];
  const Cell tape{CellKind::tape, op.item, op.micro};
  out.reads.push_back(tape);
  out.ends.push_back(tape);
  for (const std::uint32_t value : segment.writes) {
    out.reads.push_back({CellKind::gradient, value, op.micro});
    out.ends.push_back({CellKind::gradient, value, op.micro});
  }
  for (const std::uint32_t bucket : segment.buckets)
    if (std::ranges::count(segment.forward_only, bucket) == 0)
      out.reads.push_back(weights_of(op, bucket, tables));
  for (const Loss& loss : segment.losses) out.reads.push_back({CellKind::number, loss.tokens, kOfStep});
  for (const std::uint32_t value : segment.reads) out.adds.push_back({CellKind::gradient, value, op.micro});
  for (const std::uint32_t value : segment.ends) out.ends.push_back({CellKind::value, value, op.micro});
}

void step(const Op& op, const Tables& tables, Effects& out) {
  const Cell gradient{CellKind::shard_grad, op.item, kOfStep}, state{CellKind::state, op.item, kOfStep};
  out.reads = {gradient, state};
  out.adds = {{CellKind::shard, op.item, kOfStep}, state};
  for (std::uint32_t number = 0; number < tables.numbers.size(); ++number) {
    const Role role = tables.numbers[number].role;
    const Cell cell{CellKind::number, number, kOfStep};
    if (tables.updates_wait && (role == Role::norm || role == Role::finite)) out.reads.push_back(cell);
    if (!tables.updates_wait && role == Role::norm) out.adds.push_back(cell);
  }
  out.ends = {gradient};
}

void sum(const Op& op, const Tables& tables, Effects& out) {
  const Cell number{CellKind::number, op.item, kOfStep};
  switch (tables.numbers[op.item].role) {
    case Role::tokens:
    case Role::positions:
    case Role::tokens_ahead:
    case Role::loss:  // zero on a rank without the loss
      break;
    case Role::finite:  // a verdict on the norm, once it is whole: what isn't finite in any gradient is not
                        // finite there
      for (std::uint32_t other = 0; other < tables.numbers.size(); ++other)
        if (tables.numbers[other].role == Role::norm) out.reads.push_back({CellKind::number, other, kOfStep});
      break;
    case Role::norm:  // each optimizer step adds its part, unless it waits for the whole
      for (std::uint32_t bucket = 0; tables.updates_wait && bucket < tables.buckets.size(); ++bucket)
        if (counts_in_norm(tables.buckets[bucket]))
          out.reads.push_back({CellKind::shard_grad, bucket, kOfStep});
      break;
  }
  out.adds.push_back(number);
}

}  // namespace

std::vector<Cell> Effects::writes() const {
  std::vector<Cell> out;
  for (const auto* list : {&makes, &adds, &ends, &leaves, &returns})
    out.insert(out.end(), list->begin(), list->end());
  return out;
}

void effects(const Op& op, const Tables& tables, Effects& out) {
  for (auto* list : {&out.reads, &out.makes, &out.adds, &out.ends, &out.leaves, &out.returns}) list->clear();
  const Cell work{CellKind::weight_work, op.item, op.micro};
  switch (op.what) {
    case OpKind::forward:
      return forward(op, tables, out);
    case OpKind::recompute:
      read_inputs(op, tables, out);
      out.makes.push_back({CellKind::tape, op.item, op.micro});
      return;
    case OpKind::backward:
      input_gradient(op, tables, out);
      return add_weight_gradients(tables.segments[op.item], tables, out);
    case OpKind::backward_input:
      input_gradient(op, tables, out);
      out.makes.push_back(work);
      return;
    case OpKind::backward_weight:
      out.reads.push_back(work);
      out.ends.push_back(work);
      return add_weight_gradients(tables.segments[op.item], tables, out);
    case OpKind::gather:
      if (!(op.flags & kOfWorker)) out.reads.push_back({CellKind::shard, op.item, kOfStep});
      if (op.flags & kAhead)
        out.adds.push_back({CellKind::ahead, op.item, kOfStep});
      else if (!(op.flags & kOfServer))
        out.makes.push_back({CellKind::full, op.item, kOfStep});
      return;
    case OpKind::reduce:
      if (op.flags & kOfShard) {
        out.reads.push_back({CellKind::shard_grad, op.item, kOfStep});
        out.adds.push_back({CellKind::shard_grad, op.item, kOfStep});
        return;
      }
      if (!(op.flags & kOfServer)) out.reads.push_back({CellKind::weight_grad, op.item, kOfStep});
      if (!(op.flags & kOfWorker)) out.adds.push_back({CellKind::shard_grad, op.item, kOfStep});
      if (op.flags & kEndsSource) out.ends.push_back({CellKind::weight_grad, op.item, kOfStep});
      return;
    case OpKind::step:
      return step(op, tables, out);
    case OpKind::send:
      out.reads.push_back(named_cell(op));
      if (op.flags & kEndsSource) out.ends.push_back(named_cell(op));
      return;
    case OpKind::receive:
      // A gradient may also come from readers on this rank, so its parts add up.
      (named_cell(op).kind == CellKind::gradient ? out.adds : out.makes).push_back(named_cell(op));
      return;
    case OpKind::exchange:
      out.reads.push_back(named_cell(op));
      out.adds.push_back(named_cell(op));
      return;
    case OpKind::sum:
      return sum(op, tables, out);
    case OpKind::offload:
      out.leaves.push_back(named_cell(op));
      return;
    case OpKind::fetch:
      out.returns.push_back(named_cell(op));
      return;
    case OpKind::turn:
      return;
    case OpKind::free:
      out.ends.push_back(named_cell(op));
      return;
  }
}

Effects effects(const Op& op, const Tables& tables) {
  Effects out;
  effects(op, tables, out);
  return out;
}

namespace {

// What thin sums leave out, of each rank.
std::int64_t error_bytes(const Bucket& bucket) {
  return bucket.reduced_as == Wire::thin ? bucket.elements * bytes_of(bucket.gradient) : 0;
}

}  // namespace

std::int64_t bytes_of(const Cell& cell, const Tables& tables) {
  const auto sharded = [&](std::int64_t bytes_per_element) {
    const Bucket& bucket = tables.buckets[cell.item];
    return bucket.elements / tables.num_slices(bucket) * bytes_per_element;
  };
  switch (cell.kind) {
    case CellKind::value:
    case CellKind::gradient:
      return tables.values[cell.item].bytes;
    case CellKind::tape:
      return footprint(tables.segments[cell.item], tables).tape_bytes;
    case CellKind::weight_work:
      return footprint(tables.segments[cell.item], tables).work_bytes;
    case CellKind::full:
    case CellKind::ahead:
      return tables.buckets[cell.item].elements * bytes_of(tables.buckets[cell.item].compute);
    case CellKind::weight_grad:
      return tables.buckets[cell.item].elements * bytes_of(tables.buckets[cell.item].gradient);
    case CellKind::shard:
      return sharded(bytes_of(tables.buckets[cell.item].storage));
    case CellKind::shard_grad:
      return sharded(bytes_of(tables.buckets[cell.item].storage));
    case CellKind::state:
      return sharded(tables.buckets[cell.item].state_bytes) + error_bytes(tables.buckets[cell.item]);
    case CellKind::number:
      break;
  }
  return sizeof(double);
}

std::string to_text(const Cell& cell, const Tables& tables) {
  const auto of_micro = [&](const char* kind, const std::string& name) {
    return cat(kind, "(", name, ", micro-batch ", cell.micro, ")");
  };
  const auto of_segment = [&](const char* kind) {
    return cat(kind, "(segment ", cell.item, ", micro-batch ", cell.micro, ")");
  };
  const auto of_bucket = [&](const char* kind) {
    return cat(kind, "(", tables.buckets[cell.item].name, ")");
  };
  switch (cell.kind) {
    case CellKind::value:
      return of_micro("Value", tables.values[cell.item].name);
    case CellKind::gradient:
      return of_micro("Gradient", tables.values[cell.item].name);
    case CellKind::tape:
      return of_segment("Tape");
    case CellKind::weight_work:
      return of_segment("WeightWork");
    case CellKind::full:
      return of_bucket("Full");
    case CellKind::ahead:
      return of_bucket("Ahead");
    case CellKind::weight_grad:
      return of_bucket("WeightGrad");
    case CellKind::shard:
      return of_bucket("Shard");
    case CellKind::shard_grad:
      return of_bucket("ShardGrad");
    case CellKind::state:
      return of_bucket("State");
    case CellKind::number:
      break;
  }
  return cat("Number(", tables.numbers[cell.item].name, ")");
}

}  // namespace tessera::program
