#include "tessera/planner/search/step_bound.hpp"

#include <algorithm>
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
  }

  double seconds() const {
    double pipeline = 0, end = 0, updated = 0;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      const double drained =
          before(rank, &StageSeconds::input) + (splits_ ? 0 : before(rank, &StageSeconds::weight));
      const double own = filled(rank) + computed(rank, drained);
      pipeline = std::max(pipeline, own);
      end = std::max(end, tail(rank) - drained);
      updated = std::max(updated, update(rank));
    }
    return delay() + pipeline + std::max(end, 0.0) + updated;
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

  // Until the first weights are there, beyond the time in which the pipeline is filled.
  double delay() const {
    double out = 0;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      double gathered = 0, ran = 0, late = 0;
      const Row& units = stages_[rank].units;
      for (std::size_t i = 0; i < units.size(); ++i) {
        const UnitSeconds& unit = units[i];
        gathered += unit.gather;
        if (layout_.zero < 3 || ran == 0) late = std::max(late, gathered - ran);
        ran += unit.forward + unit.exchange_forward;
      }
      out = std::max(out, late - filled(rank));
    }
    return out;
  }

  // Gradients that are still on their way when the rank has computed all.
  double tail(std::size_t rank) const {
    double ran = 0, reduced = 0, shared = 0;
    const Row& units = stages_[rank].units;
    for (std::size_t i = units.size(); i-- > 0;) {
      const UnitSeconds& unit = units[i];
      ran += unit.again + unit.input + unit.weight + unit.exchange_backward;
      reduced = std::max(reduced, ran) + unit.reduce;
      shared = std::max(shared, reduced) + unit.reduce_shared;
    }
    return std::max(0.0, shared - ran);
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
};

}  // namespace

StageSeconds stage_of(const spec::Layout& layout, const Row& units) {
  StageSeconds out{.units = units};
  double gathered = 0, reduced = 0, exchanged_forward = 0, exchanged_backward = 0, last = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const UnitSeconds& unit = units[i];
    out.forward += unit.forward, out.input += unit.again + unit.input, out.weight += unit.weight;
    out.step += unit.step, out.carry += unit.carry;
    exchanged_forward += unit.exchange_forward, exchanged_backward += unit.exchange_backward;
    gathered += unit.gather + unit.gather_again, reduced += unit.reduce;
    last = std::max(last, unit.gather + unit.gather_again);
  }
  if (layout.pp == 1) {  // next to the other micro-batch of a pair
    const double more = std::max(0.0, exchanged_forward + exchanged_backward - out.forward - out.backward());
    out.input += more;
  } else {
    out.forward += exchanged_forward, out.input += exchanged_backward;
  }
  // What is gathered last for a forward is there for its backward.
  const double linked = (layout.zero == 3 ? gathered - last : 0) + (layout.zero >= 2 ? reduced : 0);
  out.input += std::max(0.0, linked - out.forward - out.backward());
  return out;
}

double step_bound(const Candidate& candidate, std::vector<StageSeconds> stages, double hop) {
  return StepBound(candidate, std::move(stages), hop).seconds();
}

}  // namespace tessera::planner
