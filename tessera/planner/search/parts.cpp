#include "tessera/planner/search/parts.hpp"

#include <algorithm>
#include <array>

namespace tessera::planner {
namespace {

using program::Op;
using program::OpKind;

enum Kind {
  kForward,
  kBackward,
  kRecompute,
  kCollectives,
  kPipeline,
  kExchanges,
  kData,
  kOptimizer,
  kNumKinds
};
constexpr std::array<const char*, kNumKinds> kNames = {"forwards",
                                                       "backwards",
                                                       "recomputation",
                                                       "collectives within blocks",
                                                       "waiting for other stages",
                                                       "waiting for exchanges of blocks",
                                                       "waiting for weights and reductions",
                                                       "optimizer"};

Kind kind_of(const Op& op) {
  switch (op.what) {
    case OpKind::forward:
      return kForward;
    case OpKind::backward:
    case OpKind::backward_input:
    case OpKind::backward_weight:
      return kBackward;
    case OpKind::recompute:
      return kRecompute;
    case OpKind::step:
    case OpKind::offload:
    case OpKind::fetch:
      return kOptimizer;
    case OpKind::send:
    case OpKind::receive:
      return kPipeline;
    case OpKind::exchange:
      return kExchanges;
    case OpKind::gather:
    case OpKind::reduce:
    case OpKind::sum:
    case OpKind::turn:
    case OpKind::free:
      break;
  }
  return kData;
}

class OfClass {
 public:
  OfClass(const program::Program& program, const simulate::OpCosts& costs, const simulate::Timeline& timeline,
          std::size_t rank_class)
      : sequence_(program.classes[rank_class]),
        costs_(costs),
        of_op_(costs.of_op[rank_class]),
        spans_(timeline.classes[rank_class]) {}

  std::vector<Part> all(double step_seconds) {
    double until = 0;
    for (std::uint32_t at = 0; at < sequence_.ops.size(); ++at) {
      const Op& op = sequence_.ops[at];
      if (op.lane.kind != program::LaneKind::compute || spans_[at].end <= until) continue;
      if (spans_[at].start > until) seconds_[waited_for(op)] += spans_[at].start - until;
      add(at, spans_[at].end - std::max(spans_[at].start, until));
      until = spans_[at].end;
    }
    seconds_[kData] += std::max(0.0, step_seconds - until);
    std::vector<Part> out;
    for (std::size_t i = 0; i < kNumKinds; ++i) out.push_back({kNames[i], seconds_[i]});
    return out;
  }

  double computed() const {
    double out = 0;
    for (std::uint32_t at = 0; at < sequence_.ops.size(); ++at)
      if (program::is_compute(sequence_.ops[at].what)) out += spans_[at].end - spans_[at].start;
    return out;
  }

 private:
  Kind waited_for(const Op& op) const {
    double last = -1;
    Kind out = is_compute(op.what) ? kPipeline : kData;
    for (const std::uint32_t wait : sequence_.waits_of(op)) {
      if (wait & program::kPreviousStep || spans_[wait].end <= last) continue;
      last = spans_[wait].end;
      const Kind kind = kind_of(sequence_.ops[wait]);
      out = kind >= kPipeline ? kind : out;
    }
    return out;
  }

  // Collectives inside of an op take their share of its time.
  void add(std::uint32_t at, double seconds) {
    double all = 0, collectives = 0;
    for (const program::Phase& phase : costs_.costs[of_op_[at]].phases) {
      all += phase.seconds;
      if (phase.axes >= 0) collectives += phase.seconds;
    }
    const Op& op = sequence_.ops[at];
    const double share = is_compute(op.what) && all > 0 ? collectives / all : 0;
    seconds_[kCollectives] += share * seconds;
    seconds_[kind_of(op)] += (1 - share) * seconds;
  }

  const program::Sequence& sequence_;
  const simulate::OpCosts& costs_;
  const std::vector<std::uint32_t>& of_op_;
  const std::vector<program::Span>& spans_;
  std::array<double, kNumKinds> seconds_ = {};
};

}  // namespace

std::vector<Part> parts_of(const program::Program& program, const simulate::OpCosts& costs,
                           const simulate::Timeline& timeline, double step_seconds) {
  std::size_t busiest = 0;
  double most = -1;
  for (std::size_t c = 0; c < program.classes.size(); ++c)
    if (const double computed = OfClass(program, costs, timeline, c).computed(); computed > most)
      most = computed, busiest = c;
  return OfClass(program, costs, timeline, busiest).all(step_seconds);
}

std::vector<Part> parts_of(const Estimate& e, double step_seconds) {
  std::vector<Part> out = {{"products", e.products},
                           {"attention", e.attention},
                           {"element-wise work", e.elementwise},
                           {"head and loss", e.head},
                           {"recomputation", e.recompute},
                           {"tensor parallelism's collectives", e.tensor},
                           {"context parallelism's exchanges", e.context},
                           {"exchanges of experts", e.experts},
                           {"pipeline bubble", e.bubble},
                           {"sends between stages", e.sends},
                           {"reductions and gathers of data parallelism", e.data},
                           {"optimizer", e.optimizer},
                           {"time that depends on nothing", e.fixed}};
  double rest = step_seconds;
  for (const Part& part : out) rest -= part.seconds;
  out.push_back({"uneven stages, and what overlaps", rest});
  return out;
}

}  // namespace tessera::planner
