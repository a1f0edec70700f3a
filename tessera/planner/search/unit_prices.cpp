#include "tessera/planner/search/unit_prices.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "tessera/program/ir/effects.hpp"
#include "tessera/program/ir/footprint.hpp"
#include "tessera/simulate/costs.hpp"

namespace tessera::planner {
namespace {

using program::Op;
using program::OpKind;

class UnitPrices {
 public:
  UnitPrices(const program::Tables& tables, const simulate::Rates& rates)
      : tables_(tables), rates_(rates), out_(tables.units.size()), taken_(tables.buckets.size(), false) {}

  std::vector<UnitSeconds> all() {
    for (std::uint32_t i = 0; i < tables_.segments.size(); ++i) add_segment(i);
    return std::move(out_);
  }

 private:
  double seconds(const Op& op) const { return simulate::total_seconds(simulate::cost(op, tables_, rates_)); }
  double compute(OpKind what, std::uint32_t segment) const {
    return seconds({.what = what, .item = segment, .micro = 0});
  }

  void add_segment(std::uint32_t at) {
    const program::Segment& segment = tables_.segments[at];
    UnitSeconds& unit = out_[segment.unit];
    unit.forward += compute(OpKind::forward, at);
    unit.input += compute(OpKind::backward_input, at);
    unit.weight += compute(OpKind::backward_weight, at);
    if (segment.recomputed) unit.again += compute(OpKind::recompute, at);
    for (const std::uint32_t value : segment.writes) add_exchange(value, unit);
    for (const std::uint32_t bucket : segment.buckets)
      if (!taken_[bucket]) add_bucket(bucket, unit), taken_[bucket] = true;
  }

  void add_exchange(std::uint32_t value, UnitSeconds& unit) const {
    const program::Exchange& exchange = tables_.values[value].exchange;
    const auto one = [&](program::CellKind kind, const program::Collective& call) {
      return seconds({.what = OpKind::exchange,
                      .item = value,
                      .micro = 0,
                      .along = call.over,
                      .flags = static_cast<std::uint16_t>(kind)});
    };
    if (!exchange.forward.empty())
      unit.exchange_forward += one(program::CellKind::value, exchange.forward.front());
    if (!exchange.backward.empty())
      unit.exchange_backward += one(program::CellKind::gradient, exchange.backward.front());
  }

  void add_bucket(std::uint32_t item, UnitSeconds& unit) {
    const program::Bucket& bucket = tables_.buckets[item];
    Traffic left_out;
    // A bucket of several units, such as that of all vectors, goes once: not with each block like the first.
    const std::size_t lane = is_of_several_units(item) ? kLanes : lane_of(bucket.reduced_over);
    Traffic& traffic = lane < kLanes ? unit.traffic[lane] : left_out;
    if (!bucket.full_resident) {
      const double gather = seconds({.what = OpKind::gather, .item = item, .along = bucket.sharded_over});
      traffic.gather += gather;
      if (is_read_backward(item)) traffic.gather_again += gather;
    }
    if (!bucket.trainable) return;
    traffic.reduce += seconds({.what = OpKind::reduce, .item = item, .along = bucket.reduced_over});
    if (bucket.shared_over >= 0)
      traffic.reduce_shared += seconds(
          {.what = OpKind::reduce, .item = item, .along = bucket.shared_over, .flags = program::kOfShard});
    unit.step += seconds({.what = OpKind::step, .item = item});
    unit.carry += 2 * seconds({.what = OpKind::fetch,
                               .item = item,
                               .flags = static_cast<std::uint16_t>(program::CellKind::state)});
  }

  std::size_t lane_of(std::int16_t reduced_over) {
    const auto found = std::ranges::find(lanes_, reduced_over);
    if (found == lanes_.end()) return lanes_.push_back(reduced_over), lanes_.size() - 1;
    return static_cast<std::size_t>(found - lanes_.begin());
  }

  bool is_of_several_units(std::uint32_t item) const {
    std::set<std::uint32_t> units;
    for (const program::Segment& segment : tables_.segments)
      if (std::ranges::count(segment.buckets, item) > 0) units.insert(segment.unit);
    return units.size() > 1;
  }

  bool is_read_backward(std::uint32_t item) const {
    return std::ranges::any_of(tables_.segments, [&](const program::Segment& segment) {
      return std::ranges::count(segment.buckets, item) > std::ranges::count(segment.forward_only, item);
    });
  }

  const program::Tables& tables_;
  const simulate::Rates& rates_;
  std::vector<UnitSeconds> out_;
  std::vector<bool> taken_;
  std::vector<std::int16_t> lanes_;  // the ranks that reduce
};

}  // namespace

std::vector<UnitSeconds> unit_seconds(const program::Tables& tables, const simulate::Rates& rates) {
  return UnitPrices(tables, rates).all();
}

std::vector<UnitBytes> unit_bytes(const program::Tables& tables, const spec::Layout& layout) {
  using program::CellKind;
  std::vector<UnitBytes> out(tables.units.size());
  std::vector<bool> taken(tables.buckets.size(), false);
  const auto of = [&](CellKind kind, std::uint32_t item) {
    return static_cast<double>(program::bytes_of({kind, item, program::kOfStep}, tables));
  };
  for (const program::Segment& segment : tables.segments) {
    UnitBytes& unit = out[segment.unit];
    const program::Footprint held = program::footprint(segment, tables);
    const auto tape = static_cast<double>(held.tape_bytes);
    unit.kept += segment.recomputed ? 0 : tape;
    unit.waiting += static_cast<double>(held.work_bytes);
    for (const std::uint32_t value : segment.ends) unit.kept += of(CellKind::value, value);
    unit.running = std::max({unit.running, static_cast<double>(held.forward_peak) - tape,
                             static_cast<double>(held.backward_peak) + (segment.recomputed ? tape : 0)});
    for (const std::uint32_t item : segment.buckets) {
      if (taken[item]) continue;
      taken[item] = true;
      unit.durable += of(CellKind::shard, item);
      if (!spec::offloads(layout, spec::Offload::optimizer)) unit.durable += of(CellKind::state, item);
      if (tables.buckets[item].trainable) {
        unit.durable += of(layout.zero < 2 ? CellKind::weight_grad : CellKind::shard_grad, item);
        if (layout.zero >= 2) unit.gathered += of(CellKind::weight_grad, item);
      }
      if (!tables.buckets[item].full_resident)
        (layout.zero < 3 ? unit.durable : unit.gathered) += of(CellKind::full, item);
    }
  }
  return out;
}

spec::Run with_one_of_each_kind(const spec::Run& run, std::vector<std::size_t>& unit_like) {
  const spec::Model& model = run.model;
  std::map<std::pair<bool, std::int64_t>, std::int64_t> first;
  std::int64_t needed = 1;
  unit_like = {0};
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    const auto found = first.emplace(std::pair(model.has_experts(layer), model.window_of(layer)), layer);
    if (found.second) needed = layer + 1;
    unit_like.push_back(static_cast<std::size_t>(found.first->second) + 1);
  }
  for (std::int64_t i = 0; i < model.mtp_layers + 1; ++i)  // the head, too
    unit_like.push_back(static_cast<std::size_t>(needed + i) + 1);
  spec::Run out = run;
  out.model.layers = needed;
  return out;
}

}  // namespace tessera::planner
