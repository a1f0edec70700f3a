#include "tessera/planner/search/step_bound.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace tessera::planner {
namespace {

// A step of the stages of one layout.
class StepBound {
 public:
  StepBound(const Candidate& candidate, std::vector<StageSeconds> stages, double hop)
      : layout_(candidate.layout),
        micros_(candidate.work.micro_batches()),
        stages_(std::move(stages)),
        hop_(hop) {
    const std::string_view name = spec::entry(layout_.schedule).name;
    splits_ = name == "zb-h1" || name == "zb-v";
    waits_ = name == "1f1b";
    is_v_ = spec::entry(layout_.schedule).num_virtual == 2;
    if (ranks() == 1 && micros_ > 1 && (layout_.tp_overlap || layout_.ep_overlap)) together_ = 2;
  }

  double seconds() const {
    double pipeline = 0, end = 0, updated = 0, lanes = 0;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      const double drained =
          before(rank, &StageSeconds::input) + (splits_ ? 0 : before(rank, &StageSeconds::weight));
      const double own = filled(rank) + computed(rank, drained);
      pipeline = std::max(pipeline, own);
      end = std::max(end, tail(rank) - drained);
      lanes = std::max(lanes, reduced(rank));
      updated = std::max(updated, update(rank));
    }
    return std::max(delay() + pipeline + std::max(end, 0.0), lanes) + updated;
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(layout_.pp); }
  bool is_on(std::size_t stage, std::size_t rank) const {
    if (!is_v_) return stage % ranks() == rank;
    return stage == rank || stage == 2 * ranks() - 1 - rank;
  }

  // The stages before a rank's first, with a transfer each.
  double before(std::size_t rank, double StageSeconds::*part) const {
    double out = 0;
    for (std::size_t stage = 0; stage < rank; ++stage) out += stages_[stage].*part;
    return out + (part == &StageSeconds::weight ? 0 : hop_ * static_cast<double>(rank));
  }
  double filled(std::size_t rank) const { return before(rank, &StageSeconds::forward); }

  // All micro-batches, and until the first stage has its last gradient.
  double computed(std::size_t rank, double drained) const {
    double forward = 0, input = 0, weight = 0;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (!is_on(stage, rank)) continue;
      forward += stages_[stage].forward, input += stages_[stage].input, weight += stages_[stage].weight;
    }
    const double crossing = waits_ && ranks() > 1 ? 2 * hop_ * (micros_ - 1) : 0;
    const double all = micros_ * (forward + input + weight) + crossing;
    return splits_ ? std::max(all, micros_ * (forward + input) + drained) : all + drained;
  }

  // Until a lane of a rank has reduced everything: it idles until the first backward is behind its last unit.
  double reduced(std::size_t rank) const {
    double each = 0;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage)
      if (is_on(stage, rank)) each += stages_[stage].reduced;
    double idle = filled(rank);
    if (ranks() == 1) {
      const UnitSeconds& last = stages_[rank].units[stages_[rank].units.size() - 1];
      idle += stages_[rank].forward + last.again + last.input + last.weight;
    }
    return idle + micros_ * each;
  }

  // Until the first weights are there, beyond the time in which the pipeline is filled.
  double delay() const {
    double out = 0;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      double ran = 0, late = 0;
      std::array<double, kLanes> gathered = {};
      const Row& units = stages_[rank].units;
      for (std::size_t i = 0; i < units.size(); ++i) {
        const UnitSeconds& unit = units[i];
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
          gathered[lane] += unit.traffic[lane].gather;
          if (layout_.zero < 3 || ran == 0) late = std::max(late, gathered[lane] - ran);
        }
        ran += together_ * (unit.forward + unit.exchange_forward);
      }
      out = std::max(out, late - filled(rank));
    }
    return out;
  }

  // Gradients that are still on their way when the rank has computed all.
  double tail(std::size_t rank) const {
    double ran = 0;
    std::array<double, kLanes> reduced = {}, shared = {};
    const Row& units = stages_[rank].units;
    for (std::size_t i = units.size(); i-- > 0;) {
      const UnitSeconds& unit = units[i];
      ran += together_ * (unit.again + unit.input + unit.weight + unit.exchange_backward);
      for (std::size_t lane = 0; lane < kLanes; ++lane) {
        if (unit.traffic[lane].reduce == 0) continue;
        reduced[lane] = std::max(reduced[lane], ran) + unit.traffic[lane].reduce;
        shared[lane] = std::max(shared[lane], reduced[lane]) + unit.traffic[lane].reduce_shared;
      }
    }
    return std::max(0.0, *std::ranges::max_element(shared) - ran);
  }

  double update(std::size_t rank) const {
    double step = 0, carry = 0;
    for (std::size_t stage = 0; stage < stages_.size(); ++stage)
      if (is_on(stage, rank)) step += stages_[stage].step, carry += stages_[stage].carry;
    return spec::offloads(layout_, spec::Offload::optimizer) ? std::max(step, carry) : step;
  }

  const spec::Layout& layout_;
  const double micros_;
  const std::vector<StageSeconds> stages_;
  const double hop_;  // a value or a gradient from one rank to the next
  bool splits_ = false, waits_ = false, is_v_ = false;
  double together_ = 1;  // micro-batches that pass a unit before the next unit has its turn
};

}  // namespace

StageSeconds stage_of(const spec::Layout& layout, const Row& units) {
  StageSeconds out{.units = units};
  double exchanged_forward = 0, exchanged_backward = 0;
  std::array<double, kLanes> gathered = {}, reduced = {}, last = {};
  for (std::size_t i = 0; i < units.size(); ++i) {
    const UnitSeconds& unit = units[i];
    out.forward += unit.forward, out.input += unit.again + unit.input, out.weight += unit.weight;
    out.step += unit.step, out.carry += unit.carry;
    exchanged_forward += unit.exchange_forward, exchanged_backward += unit.exchange_backward;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const Traffic& traffic = unit.traffic[lane];
      const double both = traffic.gather + traffic.gather_again;
      gathered[lane] += both, reduced[lane] += traffic.reduce, last[lane] = std::max(last[lane], both);
    }
  }
  if (layout.pp == 1) {  // next to the other micro-batch of a pair
    const double more = std::max(0.0, exchanged_forward + exchanged_backward - out.forward - out.backward());
    out.input += more;
  } else {
    out.forward += exchanged_forward, out.input += exchanged_backward;
  }
  if (layout.zero >= 2) out.reduced = *std::ranges::max_element(reduced);
  if (layout.zero < 3) return out;
  double awaited = 0;  // what is gathered last for a forward is there for its backward
  for (std::size_t lane = 0; lane < kLanes; ++lane) awaited = std::max(awaited, gathered[lane] - last[lane]);
  out.input += std::max(0.0, awaited - out.forward - out.backward());
  return out;
}

double step_bound(const Candidate& candidate, std::vector<StageSeconds> stages, double hop) {
  return StepBound(candidate, std::move(stages), hop).seconds();
}

}  // namespace tessera::planner
