#include "tessera/engine/bucket_store.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/engine/packed_exchange.hpp"
#include "tessera/program/ir/calls.hpp"
#include "tessera/program/ir/effects.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/program/memory/memory.hpp"
#include "tessera/tensor/account.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::engine {

using program::Cell;
using program::CellKind;
using program::Op;
using tensor::read_here;
using tensor::Tensor;

namespace {

constexpr std::uint64_t kThinSeed = 0x7e55e4a;  // of the first directions of thin sums

}  // namespace

BucketStore::BucketStore(const Parts& parts, const SlotMemory& slots)
    : parts_(parts), slots_(slots), tables_(parts.tables) {
  place_.assign(tables_.buckets.size(), parts.buckets.size());
  for (std::size_t i = 0; i < parts.buckets.size(); ++i) place_.at(item_of(parts.buckets[i])) = i;
  ahead_.resize(tables_.buckets.size());
  for (const auto& bucket : parts.buckets) norm_shares_.push_back(norm_share(bucket.table()));
  for (const auto& bucket : parts.buckets) {
    auto& thin = thin_sums_.emplace_back();
    if (bucket.table().reduced_as == program::Wire::thin)
      thin.emplace(bucket.table(), kThinSeed, shard::to_torch(bucket.table().gradient), bucket.device());
  }
}

const collective::Group& BucketStore::group(std::int16_t axis_set) const {
  static const collective::Group kAlone;
  return axis_set < 0 ? kAlone : parts_.groups[static_cast<std::size_t>(axis_set)];
}

std::uint32_t BucketStore::item_of(const shard::FlatBucket& bucket) const {
  return static_cast<std::uint32_t>(&bucket.table() - tables_.buckets.data());
}

ServerExchange BucketStore::exchange(const shard::FlatBucket& bucket,
                                     const collective::Group& members) const {
  return {members, tables_.num_slices(bucket.table())};
}

void BucketStore::give(const shard::FlatBucket& bucket, const collective::Group& members) const {
  exchange(bucket, members).give(read_here(bucket.shard()).to(shard::to_torch(bucket.table().compute)));
}

void BucketStore::make_full(shard::FlatBucket& bucket, const collective::Group& members, Tensor memory) {
  if (!bucket.has_shard()) {
    bucket.begin_full(std::move(memory));
    return exchange(bucket, members).pull(bucket.full());
  }
  read_here(bucket.shard());
  bucket.begin_full(std::move(memory));
  gather_rest(bucket, members, bucket.full());
}

void BucketStore::gather_rest(const shard::FlatBucket& bucket, const collective::Group& members,
                              Tensor whole) {
  if (members.size() == 1) return;
  const program::Bucket& table = bucket.table();
  const Tensor mine = bucket.slice_of(whole);
  if (table.gathered_as == program::Wire::exact) return members.all_gather(whole, mine);
  PackedExchange(members, table.gathered_as, table.block).all_gather(whole, mine.clone());
}

void BucketStore::gather(const Op& op) {
  auto& gathered = bucket(op.item);
  const auto& table = gathered.table();
  if (op.flags & program::kOfServer) return give(gathered, group(op.along));
  if (op.flags & program::kAhead) {
    // Not where the version before lies: tapes may hold parts of that.
    read_here(gathered.shard());
    ahead_[op.item] = gathered.begun_whole();
    return gather_rest(gathered, group(op.along), ahead_[op.item]);
  }
  make_full(gathered, group(op.along),
            slots_.memory(op, {CellKind::full, op.item}, {table.elements}, shard::to_torch(table.compute)));
}

void BucketStore::reduce(const Op& op) {
  auto& reduced = bucket(op.item);
  const auto& members = group(op.along);
  if (op.flags & program::kOfShard) {
    Tensor part = read_here(reduced.shard_gradient());
    const program::Bucket& table = reduced.table();
    if (table.reduced_as == program::Wire::exact || members.size() == 1) return members.all_reduce_sum(part);
    return PackedExchange(members, table.reduced_as, table.block)
        .all_reduce(part, program::chunk_elements(part.numel(), members.size(), table));
  }
  if (op.flags & program::kOfServer) {
    const tensor::CategoryScope as(Category::gradients);
    reduced.add_to_shard_gradient(
        exchange(reduced, members)
            .take(reduced.shard_elements(), shard::to_torch(reduced.table().gradient), reduced.device()));
    return;
  }
  reduced.close_weight_gradient();
  Tensor whole = read_here(reduced.weight_gradient());
  if (op.flags & program::kOfWorker) {
    exchange(reduced, members).push(whole);
  } else if (reduced.table().reduced_as != program::Wire::exact) {
    reduce_packed(reduced, whole, members);
  } else if (reduced.slice().count > 1) {
    const tensor::CategoryScope as(Category::gradients);
    Tensor part = tensor::empty({reduced.shard_elements()}, whole.scalar_type(), whole.device());
    members.reduce_scatter_sum(part, whole);
    reduced.add_to_shard_gradient(part);
  } else {
    members.all_reduce_sum(whole);
    // The memory is handed on, not copied, when nobody adds to it any more.
    reduced.add_to_shard_gradient(op.flags & program::kEndsSource ? whole : whole.clone());
  }
  reduced.restart_weight_gradient();
}

void BucketStore::reduce_packed(shard::FlatBucket& reduced, Tensor& whole, const collective::Group& members) {
  const tensor::CategoryScope as(Category::gradients);
  const program::Bucket& table = reduced.table();
  const bool is_sliced = reduced.slice().count > 1;
  if (auto& thin = thin_sums_[place_.at(item_of(reduced))]) {
    const tensor::CategoryScope of_state(Category::optimizer);
    thin->reduce(whole, members);
    return reduced.add_to_shard_gradient(is_sliced ? reduced.slice_of(whole).clone() : whole.clone());
  }
  const PackedExchange exchange(members, table.reduced_as, table.block);
  if (members.size() > 1 && is_sliced) return reduced.add_to_shard_gradient(exchange.reduce_scatter(whole));
  if (members.size() > 1)
    exchange.all_reduce(whole, program::chunk_elements(whole.numel(), members.size(), table));
  reduced.add_to_shard_gradient(whole.clone());
}

Tensor BucketStore::error_between_steps(const shard::FlatBucket& bucket) {
  const auto& thin = thin_sums_[place_.at(item_of(bucket))];
  if (!thin) return {};
  if (!thin->error().defined())
    return tensor::zeros({bucket.table().elements}, shard::to_torch(bucket.table().gradient),
                         bucket.device());
  return read_here(thin->error()).mul(static_cast<double>(group(bucket.table().reduced_over).size()));
}

void BucketStore::put_error(const shard::FlatBucket& bucket, const Tensor& error) {
  auto& thin = thin_sums_[place_.at(item_of(bucket))];
  if (thin) thin->set_error(error.div(static_cast<double>(group(bucket.table().reduced_over).size())));
}

ThinSum* BucketStore::thin_sum(const shard::FlatBucket& bucket) {
  auto& thin = thin_sums_[place_.at(item_of(bucket))];
  return thin ? &*thin : nullptr;
}

void BucketStore::settle_errors() {
  for (auto& bucket : parts_.buckets)
    if (auto& thin = thin_sums_[place_.at(item_of(bucket))]) thin->settle(group(bucket.table().reduced_over));
}

void BucketStore::step(const Op& op, const Update& update) {
  auto& stepped = bucket(op.item);
  auto& optimizer = parts_.optimizers[place_[op.item]];
  read_here(stepped.shard());
  read_here(stepped.shard_gradient());
  for (const Tensor& state : optimizer.state()) read_here(state);
  optimizer.step(update.learning_rate, update.count, read_here(update.gradient_scale),
                 read_here(update.skips));
}

void BucketStore::put(const shard::OffloadKey& key, const Tensor& t) {
  parts_.offload_store.put(key, read_here(t));
  moved_.offloaded += static_cast<std::int64_t>(t.nbytes());
}

Tensor BucketStore::get(const shard::OffloadKey& key) {
  const tensor::CategoryScope as(program::category_of(key.cell.kind));
  Tensor out = parts_.offload_store.get(key);
  moved_.fetched += static_cast<std::int64_t>(out.nbytes());
  return out;
}

void BucketStore::offload(const Op& op) {
  const Cell cell = program::named_cell(op);
  const bool writes = !(op.flags & program::kUnchanged);
  if (cell.kind == CellKind::shard) {
    if (writes) put({cell}, bucket(cell.item).shard());
    bucket(cell.item).set_shard(Tensor());
    return;
  }
  TESSERA_CHECK(cell.kind == CellKind::state, program::to_text(cell, tables_), " is not offloaded");
  auto& optimizer = parts_.optimizers[place_.at(cell.item)];
  for (std::size_t part = 0; writes && part < optimizer.state().size(); ++part)
    put({cell, part}, optimizer.state()[part]);
  optimizer.set_state({});
}

void BucketStore::fetch(const Op& op) {
  const Cell cell = program::named_cell(op);
  if (cell.kind == CellKind::shard) return bucket(cell.item).set_shard(get({cell}));
  TESSERA_CHECK(cell.kind == CellKind::state, program::to_text(cell, tables_), " is not fetched");
  auto& optimizer = parts_.optimizers[place_.at(cell.item)];
  std::vector<Tensor> state;
  for (std::size_t part = 0; part < optimizer.num_states(); ++part) state.push_back(get({cell, part}));
  optimizer.set_state(std::move(state));
}

void BucketStore::end(const Cell& cell) {
  auto& held = bucket(cell.item);
  switch (cell.kind) {
    case CellKind::full:
      return held.end_full();
    case CellKind::weight_grad:
      return held.end_weight_gradient();
    case CellKind::shard_grad:
      return held.end_shard_gradient(parts_.keep_gradients);
    default:
      throw Bug(cat(program::to_text(cell, tables_), " does not end"));
  }
}

void BucketStore::read_weights(const program::Segment& segment) {
  for (const std::uint32_t item : segment.buckets) read_here(bucket(item).full());
}

void BucketStore::read_weights_backward(const program::Segment& segment) {
  for (const std::uint32_t item : segment.buckets)
    if (std::ranges::count(segment.forward_only, item) == 0) read_here(bucket(item).full());
}

void BucketStore::use_ahead(const program::Segment& segment) {
  for (const std::uint32_t item : segment.buckets) bucket(item).point_at(read_here(ahead_[item]));
}

void BucketStore::use_full(const program::Segment& segment) {
  for (const std::uint32_t item : segment.buckets) bucket(item).point_at(bucket(item).full());
}

void BucketStore::copy_ahead(std::uint32_t item) {
  const tensor::CategoryScope as(Category::parameters);
  if (!ahead_[item].defined()) ahead_[item] = bucket(item).full().clone();
}

void BucketStore::begin_gradients(const Op& op) {
  for (const std::uint32_t item : tables_.segments[op.item].buckets) {
    const auto& table = tables_.buckets[item];
    if (!table.trainable || bucket(item).weight_gradient().defined()) continue;
    bucket(item).begin_weight_gradient(
        slots_.memory(op, {CellKind::weight_grad, item}, {table.elements}, shard::to_torch(table.gradient)));
  }
}

// Note [Who brings an element to the norm]
// The ranks along which ZeRO may cut bring a slice each, whether they hold the gradient in slices or whole:
// so the sum has the same bits at every stage of ZeRO. Along every other axis on which ranks hold equal
// values the first of them brings it.
BucketStore::NormShare BucketStore::norm_share(const program::Bucket& bucket) const {
  const auto coordinates = program::mesh_of(tables_).coordinates(parts_.rank);
  std::vector<std::int16_t> axes;
  NormShare out;
  const auto served = program::slice_held(bucket, tables_, parts_.rank);
  if (!served) return out;
  for (const auto& [index, placement] : bucket.placement) {
    const auto axis = static_cast<std::size_t>(index);
    const bool slices = bucket.sharded_over >= 0
                            ? std::ranges::count(tables_.axis_sets[bucket.sharded_over].axes, index) > 0
                            : tables_.axes[axis].shards;
    if (!slices || placement == program::Placement::sharded) continue;
    axes.push_back(index);
    out.slice = {out.slice.position * tables_.axes[axis].size + coordinates[axis],
                 out.slice.count * tables_.axes[axis].size};
  }
  if (tables_.is_served(bucket)) out.slice = *served;
  out.brings = program::counts_in_norm(bucket) &&
               program::replica_of(bucket, tables_, parts_.rank, axes).position == 0;
  return out;
}

Tensor BucketStore::squared_norm() const {
  Tensor total = tensor::number(0, parts_.device);
  for (const auto& bucket : parts_.buckets)
    if (const Tensor square = squared_norm(item_of(bucket)); square.defined()) total.add_(square);
  return total;
}

Tensor BucketStore::squared_norm(std::uint32_t item) const {
  const auto& bucket = parts_.buckets[place_.at(item)];
  const NormShare& share = norm_shares_[place_.at(item)];
  if (!share.brings) return {};
  Tensor mine = read_here(bucket.shard_gradient());
  if (bucket.slice().count == 1) {
    const std::int64_t first = mine.numel() * share.slice.position / share.slice.count,
                       end = mine.numel() * (share.slice.position + 1) / share.slice.count;
    mine = mine.narrow(0, first, end - first);
  }
  return optim::squared_norm(mine);
}

Tensor BucketStore::shard_between_steps(const shard::FlatBucket& bucket) {
  const Cell cell{CellKind::shard, item_of(bucket)};
  return bucket.shard().defined() ? bucket.shard() : parts_.offload_store.get({cell});
}

std::vector<Tensor> BucketStore::state_between_steps(const shard::FlatBucket& bucket) {
  const std::uint32_t item = item_of(bucket);
  const auto& optimizer = parts_.optimizers[place_.at(item)];
  if (!optimizer.state().empty()) return {optimizer.state().begin(), optimizer.state().end()};
  std::vector<Tensor> out;
  for (std::size_t part = 0; part < optimizer.num_states(); ++part)
    out.push_back(parts_.offload_store.get({{CellKind::state, item}, part}));
  return out;
}

void BucketStore::put_between_steps(const shard::FlatBucket& bucket, const Tensor& shard,
                                    std::span<const Tensor> state) {
  const std::uint32_t item = item_of(bucket);
  if (!bucket.shard().defined()) parts_.offload_store.put({{CellKind::shard, item}}, shard);
  if (!parts_.optimizers[place_.at(item)].state().empty()) return;
  for (std::size_t part = 0; part < state.size(); ++part)
    parts_.offload_store.put({{CellKind::state, item}, part}, state[part]);
}

void BucketStore::gather_all() {
  for (auto& bucket : parts_.buckets) {
    if (tables_.is_served(bucket.table()) && bucket.has_shard()) {
      give(bucket, group(bucket.table().sharded_over));
      continue;
    }
    const bool was_outside = bucket.has_shard() && !bucket.shard().defined();
    if (was_outside) bucket.set_shard(shard_between_steps(bucket));
    if (!bucket.table().full_resident) {
      make_full(bucket, group(bucket.table().sharded_over));
      if (was_outside) bucket.set_shard(Tensor());
    } else if (was_outside) {
      visiting_.push_back(&bucket);
    }
  }
}

void BucketStore::free_all() {
  for (auto& bucket : parts_.buckets) bucket.end_full();
  for (auto* bucket : visiting_) bucket->set_shard(Tensor());
  visiting_.clear();
}

BytesMoved BucketStore::take_moved() {
  return {.offloaded = moved_.offloaded.exchange(0), .fetched = moved_.fetched.exchange(0)};
}

}  // namespace tessera::engine
