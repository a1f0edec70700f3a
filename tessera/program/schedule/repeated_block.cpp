#include "tessera/program/schedule/repeated_block.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <limits>
#include <vector>

#include "tessera/base/error.hpp"

namespace tessera::program {
namespace {

constexpr std::int64_t kPeriod = 6;  // two stages, each with a forward, an input and a weight half

struct Slot {
  std::int64_t time;
  Task task;  // of micro-batch 0
};

// A rank's six slots for the first micro-batch. Weight halves take what the others leave free, as soon as
// they can.
std::vector<Slot> slots_of(const VBlock& block, std::int64_t num_ranks, std::int64_t rank) {
  const std::int64_t last = num_ranks - 1;
  const auto down = static_cast<std::uint32_t>(rank),
             up = static_cast<std::uint32_t>(2 * num_ranks - 1 - rank);
  const std::int64_t forward_down = block.forward_down * rank;
  const std::int64_t turn = block.forward_down * last + 1, top = turn + block.forward_up * last;
  const std::int64_t forward_up = turn + block.forward_up * (last - rank);
  const std::int64_t first_input = top + 1 + block.before_inputs;
  const std::int64_t input_down = first_input + block.input_down * rank;
  const std::int64_t input_up =
      first_input + block.input_down * last + 1 + block.before_last_inputs + block.input_up * (last - rank);
  std::vector<Slot> out = {{forward_down, {OpKind::forward, down, 0}},
                           {forward_up, {OpKind::forward, up, 0}},
                           {input_down, {OpKind::backward_input, up, 0}},
                           {input_up, {OpKind::backward_input, down, 0}}};
  std::array<bool, kPeriod> taken{};
  for (const Slot& slot : out) {
    bool& is_taken = taken[static_cast<std::size_t>(slot.time % kPeriod)];
    TESSERA_CHECK(!is_taken, "two halves at a time on rank ", rank, " of ", num_ranks);
    is_taken = true;
  }
  for (const Slot input : {out[2], out[3]}) {
    std::int64_t time = input.time + 1;
    while (taken[static_cast<std::size_t>(time % kPeriod)]) ++time;
    taken[static_cast<std::size_t>(time % kPeriod)] = true;
    out.push_back({time, {OpKind::backward_weight, input.task.stage, 0}});
  }
  return out;
}

// A rank on its way through its tasks, one in each slot.
struct Progress {
  std::vector<Task> tasks;  // forwards and input halves, in the order of the block
  std::size_t next = 0;
  std::deque<Task> weights;  // halves that may run at any time
  std::int64_t held = 0, most = 0;
};

// The slot after which each forward and each input half is done.
class Finished {
 public:
  explicit Finished(const Order& order)
      : num_micro_(static_cast<std::size_t>(order.num_micro)),
        slots_(2 * order.rank_of_stage.size() * num_micro_, kNever) {}
  std::int64_t& of(OpKind what, std::uint32_t stage, std::int32_t micro) {
    const std::size_t half = what == OpKind::forward ? 0 : 1;
    return slots_[(2 * stage + half) * num_micro_ + static_cast<std::size_t>(micro)];
  }
  bool can_run(const Task& task, std::int64_t slot) {
    const bool is_forward = task.what == OpKind::forward;
    const bool is_end = is_forward ? task.stage == 0 : 2 * (task.stage + 1) * num_micro_ == slots_.size();
    return (is_end || of(task.what, is_forward ? task.stage - 1 : task.stage + 1, task.micro) <= slot) &&
           (is_forward || of(OpKind::forward, task.stage, task.micro) <= slot);
  }

 private:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();
  std::size_t num_micro_;
  std::vector<std::int64_t> slots_;
};

// The same forwards and input halves in their order, each as soon as it can run; weight halves fill the slots
// in which it cannot, or make room. No rank holds more than before.
Order squeezed(const Order& order) {
  const auto peaks = peak_activations(order);
  Order out{order.num_micro, order.rank_of_stage, std::vector<std::vector<Task>>(order.ranks.size())};
  std::vector<Progress> ranks(order.ranks.size());
  std::size_t left = 0;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].most = peaks[rank];
    std::ranges::copy_if(order.ranks[rank], std::back_inserter(ranks[rank].tasks),
                         [](const Task& task) { return task.what != OpKind::backward_weight; });
    left += order.ranks[rank].size();
  }
  Finished finished(order);
  for (std::int64_t slot = 0; left > 0; ++slot) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      Progress& rank = ranks[i];
      const Task* task = rank.next < rank.tasks.size() ? &rank.tasks[rank.next] : nullptr;
      const bool has_room = task && (task->what != OpKind::forward || rank.held < rank.most);
      if (has_room && finished.can_run(*task, slot)) {
        finished.of(task->what, task->stage, task->micro) = slot + 1;
        out.ranks[i].push_back(*task);
        if (task->what == OpKind::forward)
          ++rank.held;
        else
          rank.weights.push_back({OpKind::backward_weight, task->stage, task->micro});
        ++rank.next;
      } else if (!rank.weights.empty()) {
        out.ranks[i].push_back(rank.weights.front());
        rank.weights.pop_front();
        --rank.held;
      } else {
        continue;
      }
      --left;
    }
  }
  return out;
}

}  // namespace

Order repeated_block(const Pipeline& pipeline, const VBlock& block) {
  TESSERA_CHECK(pipeline.num_virtual == 2, "a V has two stages per rank");
  Order out{pipeline.num_micro, vee(pipeline.num_ranks), {}};
  for (std::uint32_t rank = 0; rank < pipeline.num_ranks; ++rank) {
    std::vector<Slot> all;
    for (const Slot& slot : slots_of(block, pipeline.num_ranks, rank))
      for (std::int32_t micro = 0; micro < pipeline.num_micro; ++micro)
        all.push_back({slot.time + kPeriod * micro, {slot.task.what, slot.task.stage, micro}});
    std::ranges::sort(all, {}, &Slot::time);
    auto& tasks = out.ranks.emplace_back();
    for (const Slot& slot : all) tasks.push_back(slot.task);
  }
  return squeezed(out);
}

}  // namespace tessera::program
