#include "tessera/program/passes/generate.hpp"

#include <algorithm>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/mesh/mesh.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/program/passes/servers.hpp"
#include "tessera/program/passes/updates.hpp"
#include "tessera/program/schedule/walk_order.hpp"

namespace tessera::program {
namespace {

// A send or a receive, and where it stands.
struct Crossing {
  Op op;
  std::uint32_t slot = 0;          // tasks before it
  std::uint32_t posted_after = 0;  // receive: tasks that have ended by then
};

// What one position on the stage axis computes, sends and receives, with the numbers and steps around it.
// Backwards of segments that keep no tape follow their recomputation.
class RankDraft {
 public:
  RankDraft(const Tables& tables, const Staging& staging, const GenerateOptions& options,
            const std::vector<Task>& tasks, const std::vector<bool>& with_next,
            std::span<const Crossing> crossings)
      : tables_(tables),
        staging_(staging),
        options_(options),
        tasks_(tasks),
        with_next_(with_next),
        crossings_(crossings),
        trains_(std::ranges::any_of(tasks, [](const Task& task) { return task.what != OpKind::forward; })),
        num_ahead_(trains_ && !crossings.empty() ? num_ahead() : 0) {}

  Draft run() {
    for (const Role role : {Role::tokens, Role::positions, Role::tokens_ahead}) sum(role);
    compute_with_crossings();
    wait_in_step_before();
    sum(Role::loss);
    if (!trains_) {
      end_values();
      return std::move(draft_);
    }
    for (const Role role : {Role::norm, Role::finite}) sum(role);
    return std::move(draft_);
  }

 private:
  void push(const Op& op) { draft_.ops.push_back(op); }

  // Tasks that the step before can run: the forwards ahead of the first backward, but for the last of them.
  // Not where blocks are opened: their collectives keep to the order of the steps.
  std::size_t num_ahead() const {
    const bool is_delayed = tables_.steps_overlap && std::ranges::all_of(tables_.buckets, &Bucket::delayed);
    const bool is_opened = std::ranges::any_of(tables_.values, [](const Value& value) {
      return !value.exchange.forward.empty() || !value.exchange.backward.empty();
    });
    if (!is_delayed || is_opened) return 0;
    std::size_t forwards = 0;
    while (tasks_[forwards].what == OpKind::forward) ++forwards;
    return forwards - std::min<std::size_t>(forwards, 1);
  }

  // A forward ahead comes when as many backwards are left as there are forwards ahead from it on: a rank then
  // holds no more activations than within a step.
  void wait_in_step_before() {
    if (num_ahead_ == 0) return;
    std::vector<std::size_t> backwards;
    for (std::size_t t = 0; t < tasks_.size(); ++t)
      if (tasks_[t].what != OpKind::forward) backwards.push_back(t);
    std::size_t first = 0;  // op of the task
    for (std::size_t t = 0; t < num_ahead_; first = last_op_of_[t++] + 1) {
      while (draft_.ops[first].lane != kAheadLane) ++first;
      const std::size_t behind = backwards[backwards.size() - 1 - num_ahead_ + t];
      draft_.waits.push_back({static_cast<std::uint32_t>(first), last_op_of_[behind] | kPreviousStep});
    }
  }

  // All group ops of a set share a lane: ranks would otherwise meet in different orders.
  void sum(Role role) {
    for (std::uint32_t number = 0; number < tables_.numbers.size(); ++number) {
      if (tables_.numbers[number].role != role) continue;
      for (const std::int16_t set : sum_sets(tables_.numbers[number], tables_))
        push({.what = OpKind::sum,
              .lane = options_.residency.overlap ? communication(set) : kCompute,
              .item = number,
              .along = set});
    }
  }

  // Without backwards a value that is not sent on ends with the last forward that reads it.
  void end_values() {
    std::map<std::pair<std::uint32_t, std::int32_t>, std::uint32_t> last_reader;
    for (std::uint32_t at = 0; at < draft_.ops.size(); ++at)
      if (const Op& op = draft_.ops[at]; op.what == OpKind::forward)
        for (const std::uint32_t value : tables_.segments[op.item].reads) last_reader[{value, op.micro}] = at;
    Insertion insertion(draft_);
    for (const auto& [cell, reader] : last_reader)
      insertion.after(reader, {.what = OpKind::free,
                               .item = cell.first,
                               .micro = cell.second,
                               .flags = static_cast<std::uint16_t>(CellKind::value)});
    insertion.apply();
  }

  void cross(const Crossing& crossing) {
    if (crossing.op.what == OpKind::receive && crossing.posted_after > 0)
      draft_.waits.push_back(
          {static_cast<std::uint32_t>(draft_.ops.size()), last_op_of_[crossing.posted_after - 1]});
    push(crossing.op);
  }

  void compute_with_crossings() {
    std::size_t next = 0;
    for (std::uint32_t t = 0; t <= tasks_.size(); ++t) {
      for (; next < crossings_.size() && crossings_[next].slot == t; ++next) cross(crossings_[next]);
      if (t == tasks_.size()) break;
      const auto mine = turns_of(tasks_[t], t < num_ahead_);
      const auto others = with_next_[t] ? turns_of(tasks_[++t]) : std::vector<Turn>();
      last_op_of_.resize(t + 1);
      for (std::size_t i = 0; i < std::max(mine.size(), others.size()); ++i) {
        if (i < mine.size()) last_op_of_[others.empty() ? t : t - 1] = take(mine[i]);
        if (i < others.size()) last_op_of_[t] = take(others[i]);
      }
    }
  }

  // The work of a segment, and the exchanges of what it has made.
  using Turn = std::vector<Op>;

  // The place of its last op.
  std::uint32_t take(const Turn& turn) {
    for (const Op& op : turn) push(op);
    return static_cast<std::uint32_t>(draft_.ops.size() - 1);
  }

  void exchange(CellKind kind, std::uint32_t value, std::int32_t micro, Turn& turn) const {
    const Exchange& of_value = tables_.values[value].exchange;
    for (const Collective& call : kind == CellKind::value ? of_value.forward : of_value.backward)
      turn.push_back({.what = OpKind::exchange,
                      .lane = options_.residency.overlap ? communication(call.over) : kCompute,
                      .item = value,
                      .micro = micro,
                      .along = call.over,
                      .flags = static_cast<std::uint16_t>(kind)});
  }

  std::vector<Turn> turns_of(const Task& task, bool is_ahead = false) const {
    const std::uint32_t first = staging_.first_segment[task.stage],
                        end = staging_.first_segment[task.stage + 1];
    std::vector<Turn> out;
    if (task.what == OpKind::forward) {
      for (std::uint32_t segment = first; segment < end; ++segment) {
        const bool keeps_tape = trains_ && !tables_.segments[segment].recomputed;
        Turn& turn = out.emplace_back();
        turn.push_back(
            {.what = task.what,
             .lane = is_ahead ? kAheadLane : kCompute,
             .item = segment,
             .micro = task.micro,
             .flags = static_cast<std::uint16_t>((keeps_tape ? 0 : kNoTape) | (is_ahead ? kAhead : 0))});
        for (const std::uint32_t value : tables_.segments[segment].writes)
          exchange(CellKind::value, value, task.micro, turn);
      }
      return out;
    }
    for (std::uint32_t segment = end; segment-- > first;) {
      Turn& turn = out.emplace_back();
      if (tables_.segments[segment].recomputed && task.what != OpKind::backward_weight)
        turn.push_back({.what = OpKind::recompute, .item = segment, .micro = task.micro});
      turn.push_back({.what = task.what, .item = segment, .micro = task.micro});
      if (task.what == OpKind::backward_weight) continue;
      for (const std::uint32_t value : tables_.segments[segment].reads)
        exchange(CellKind::gradient, value, task.micro, turn);
    }
    return out;
  }

  const Tables& tables_;
  const Staging& staging_;
  const GenerateOptions& options_;
  const std::vector<Task>& tasks_;
  const std::vector<bool>& with_next_;  // tasks that take turns with the next one
  const std::span<const Crossing> crossings_;
  const bool trains_;
  const std::size_t num_ahead_;            // tasks
  std::vector<std::uint32_t> last_op_of_;  // per task
  Draft draft_;
};

// The sends and receives of each position, in the one order in which all must see them.
std::vector<std::vector<Crossing>> crossings_of(const Tables& tables, const Order& order,
                                                const Staging& staging, std::span<const Transfer> transfers) {
  std::vector<std::vector<Crossing>> out(order.ranks.size());
  const auto num_ranks = static_cast<std::int64_t>(order.ranks.size());
  for (const Transfer& t : transfers) {
    const std::uint32_t to_stage = t.is_gradient ? t.stage - 1 : t.stage + 1;
    const std::uint32_t from = order.rank_of_stage[t.stage], to = order.rank_of_stage[to_stage];
    // Between stages lies the value that the first segment of the later one reads.
    const std::uint32_t later = staging.first_segment[std::max(t.stage, to_stage)];
    TESSERA_CHECK(tables.segments[later].reads.size() == 1, "stages must meet at one value");
    const std::int16_t along = t.is_gradient ? tables.gradients_over : tables.values_over;
    // The shorter way round the ring.
    std::int64_t hop = (static_cast<std::int64_t>(to) - from + num_ranks) % num_ranks;
    if (2 * hop > num_ranks) hop -= num_ranks;
    const auto kind = static_cast<std::uint16_t>(t.is_gradient ? CellKind::gradient : CellKind::value);
    Op op{.what = OpKind::send,
          .lane = communication(along, 0),
          .item = tables.segments[later].reads[0],
          .micro = t.micro,
          .along = along,
          .hop = static_cast<std::int16_t>(hop),
          .flags = static_cast<std::uint16_t>(kind | kEndsSource)};
    out[from].push_back({op, t.sender_slot});
    op.what = OpKind::receive;
    op.lane = communication(along, 1);
    op.hop = static_cast<std::int16_t>(-hop);
    op.flags = kind;
    out[to].push_back({op, t.receiver_slot, t.posted_after});
  }
  return out;
}

}  // namespace

Program generate(const Tables& tables, const Order& order, const Staging& staging,
                 const GenerateOptions& options) {
  TESSERA_CHECK(staging.first_segment.size() == order.rank_of_stage.size() + 1 &&
                    staging.first_segment.back() == tables.segments.size(),
                "stages must be dealt all segments");
  const bool is_trained = std::ranges::any_of(tables.buckets, &Bucket::trainable);
  TESSERA_CHECK(is_trained, "nothing to train: no bucket is trainable");
  const Walk walked =
      walk(order, staging.costs, {.receives_ahead = options.receives_ahead, .in_pairs = options.take_turns});
  if (!walked.stuck.empty()) throw UserError(cat("this order of tasks gets stuck: ", walked.stuck));
  const auto crossings = crossings_of(tables, order, staging, walked.transfers);
  Program program{tables, {}};
  const mesh::Mesh mesh = mesh_of(tables);
  auto& class_of_rank = program.tables.class_of_rank;
  class_of_rank.assign(static_cast<std::size_t>(mesh.size()), 0);
  if (tables.stage_axis >= 0) {
    const mesh::AxisSet stages = mesh.along(tables.axes[tables.stage_axis].name);
    for (std::size_t rank = 0; rank < class_of_rank.size(); ++rank)
      class_of_rank[rank] = static_cast<std::uint32_t>(stages.coordinate(static_cast<mesh::Rank>(rank)));
  }
  std::vector<Sequence> servers;
  for (std::size_t position = 0; position < order.ranks.size(); ++position) {
    Draft draft = RankDraft(program.tables, staging, options, order.ranks[position],
                            walked.with_next[position], crossings[position])
                      .run();
    add_residency(draft, program.tables, options.residency);
    if (options.priority) prioritise(draft, program.tables, *options.priority);
    add_updates(draft, program.tables);
    add_offload(draft, program.tables, options.offload);
    if (tables.has_servers())
      servers.push_back(part_servers(draft, options.take_server_turns).finish(program.tables));
    program.classes.push_back(draft.finish(program.tables));
  }
  for (std::size_t rank = 0; rank < class_of_rank.size(); ++rank)
    if (is_server(tables, static_cast<mesh::Rank>(rank)))
      class_of_rank[rank] += static_cast<std::uint32_t>(program.classes.size());
  for (Sequence& server : servers) program.classes.push_back(std::move(server));
  return program;
}

Program data_parallel(const Tables& tables, const GenerateOptions& options, bool split_backward) {
  const auto num_segments = static_cast<std::uint32_t>(tables.segments.size());
  Order order{tables.num_micro, std::vector<std::uint32_t>(num_segments, 0), {{}}};
  auto& tasks = order.ranks[0];
  for (std::int32_t micro = 0; micro < tables.num_micro; ++micro) {
    for (std::uint32_t segment = 0; segment < num_segments; ++segment)
      tasks.push_back({OpKind::forward, segment, micro});
    for (std::uint32_t segment = num_segments; segment-- > 0;) {
      tasks.push_back({split_backward ? OpKind::backward_input : OpKind::backward, segment, micro});
      if (split_backward) tasks.push_back({OpKind::backward_weight, segment, micro});
    }
  }
  Staging staging{{}, {std::vector<StageCost>(num_segments)}};
  for (std::uint32_t segment = 0; segment <= num_segments; ++segment)
    staging.first_segment.push_back(segment);
  return generate(tables, order, staging, options);
}

}  // namespace tessera::program
