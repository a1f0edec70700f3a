#include "tessera/program/meetings.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "tessera/base/text.hpp"
#include "tessera/program/check_parts.hpp"
#include "tessera/program/hazards.hpp"

namespace tessera::program {

struct Meetings::Graph {
  std::vector<std::uint32_t> lane_before;   // per id
  std::vector<std::uint32_t> queue_before;  // per id: with one queue, the communication issued before
  std::vector<std::uint32_t> sender;        // per id: the send a buffered receive needs
  std::vector<std::uint32_t> node;  // per id: ops that happen at one time share a node (its lowest id)
  std::vector<std::uint32_t> first_member;  // per node, into `members`
  std::vector<std::uint32_t> members;
  std::vector<bool> is_done;  // per node

  std::span<const std::uint32_t> members_of(std::uint32_t n) const {
    return std::span(members).subspan(first_member[n], first_member[n + 1] - first_member[n]);
  }
};

Meetings::Meetings(const Program& program) : program_(program) {
  for (const Sequence& sequence : program.classes) {
    first_.push_back(num_ids_);
    num_ids_ += static_cast<std::uint32_t>(sequence.ops.size());
  }
  sender_.assign(num_ids_, kNoOp);
}

void Meetings::join_group(Place a, Place b) { groups_.emplace_back(id(a), id(b)); }

void Meetings::join_transfer(Place send, Place receive) { sender_[id(receive)] = id(send); }

Place Meetings::place(std::uint32_t id) const {
  const auto c =
      static_cast<std::uint32_t>(std::upper_bound(first_.begin(), first_.end(), id) - first_.begin() - 1);
  return {c, id - first_[c]};
}

Meetings::Graph Meetings::graph(Mode mode) const {
  Graph graph;
  graph.lane_before.assign(num_ids_, kNoOp);
  graph.queue_before.assign(num_ids_, kNoOp);
  for (std::uint32_t c = 0; c < program_.classes.size(); ++c) {
    std::map<Lane, std::uint32_t> last;
    std::uint32_t last_queued = kNoOp;
    const auto& ops = program_.classes[c].ops;
    for (std::uint32_t at = 0; at < ops.size(); ++at) {
      const std::uint32_t i = first_[c] + at;
      const auto [found, is_first] = last.try_emplace(ops[at].lane, i);
      if (!is_first) graph.lane_before[i] = std::exchange(found->second, i);
      // On whichever lane: a collective on the compute lane goes through the same queue.
      const bool is_queued = ops[at].along >= 0 || ops[at].lane.kind == LaneKind::communication;
      if (mode.one_queue && is_queued) graph.queue_before[i] = std::exchange(last_queued, i);
    }
  }
  graph.node.resize(num_ids_);
  std::iota(graph.node.begin(), graph.node.end(), 0u);
  const auto root = [&](std::uint32_t id) {
    while (graph.node[id] != id) id = graph.node[id] = graph.node[graph.node[id]];
    return id;
  };
  const auto join = [&](std::uint32_t a, std::uint32_t b) {
    const auto [low, high] = std::minmax({root(a), root(b)});
    graph.node[high] = low;
  };
  for (const auto& [a, b] : groups_) join(a, b);
  if (mode.rendezvous) {
    for (std::uint32_t i = 0; i < num_ids_; ++i)
      if (sender_[i] != kNoOp) join(i, sender_[i]);
    graph.sender.assign(num_ids_, kNoOp);
  } else {
    graph.sender = sender_;
  }
  for (std::uint32_t i = 0; i < num_ids_; ++i) graph.node[i] = root(i);
  graph.first_member.assign(num_ids_ + 1, 0);
  for (const std::uint32_t n : graph.node) ++graph.first_member[n + 1];
  std::partial_sum(graph.first_member.begin(), graph.first_member.end(), graph.first_member.begin());
  graph.members.resize(num_ids_);
  std::vector<std::uint32_t> next(graph.first_member.begin(), graph.first_member.end() - 1);
  for (std::uint32_t i = 0; i < num_ids_; ++i) graph.members[next[graph.node[i]]++] = i;
  graph.is_done.assign(num_ids_, false);
  return graph;
}

void Meetings::walk(Mode mode, const std::string& mode_text, std::vector<Problem>& out) const {
  Graph graph = this->graph(mode);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;  // node, and the node that needs it
  std::vector<std::uint32_t> missing(num_ids_, 0);
  const auto need = [&](std::uint32_t id, std::uint32_t before) {
    if (before == kNoOp) return;
    edges.emplace_back(graph.node[before], graph.node[id]);
    ++missing[graph.node[id]];
  };
  for (std::uint32_t c = 0; c < program_.classes.size(); ++c) {
    const Sequence& sequence = program_.classes[c];
    for (std::uint32_t at = 0; at < sequence.ops.size(); ++at) {
      const std::uint32_t i = first_[c] + at;
      need(i, graph.lane_before[i]);
      need(i, graph.queue_before[i]);
      need(i, graph.sender[i]);
      for (const std::uint32_t wait : sequence.waits_of(sequence.ops[at]))
        if (!(wait & kPreviousStep)) need(i, first_[c] + wait);
    }
  }
  std::vector<std::uint32_t> first_edge(num_ids_ + 1, 0), needed_by(edges.size());
  for (const auto& edge : edges) ++first_edge[edge.first + 1];
  std::partial_sum(first_edge.begin(), first_edge.end(), first_edge.begin());
  std::vector<std::uint32_t> next(first_edge.begin(), first_edge.end() - 1);
  for (const auto& [from, to] : edges) needed_by[next[from]++] = to;

  std::vector<std::uint32_t> ready;
  std::size_t num_left = 0;
  for (std::uint32_t n = 0; n < num_ids_; ++n) {
    if (graph.node[n] != n) continue;
    ++num_left;
    if (missing[n] == 0) ready.push_back(n);
  }
  for (; !ready.empty(); --num_left) {
    const std::uint32_t n = ready.back();
    ready.pop_back();
    graph.is_done[n] = true;
    for (std::uint32_t e = first_edge[n]; e < first_edge[n + 1]; ++e)
      if (--missing[needed_by[e]] == 0) ready.push_back(needed_by[e]);
  }
  if (num_left > 0) say_cycle(graph, mode_text, out);
}

void Meetings::say_cycle(const Graph& graph, const std::string& mode_text, std::vector<Problem>& out) const {
  struct Link {
    std::uint32_t id;
    std::string why;
  };
  const auto text = [&](std::uint32_t i) {
    const Place p = place(i);
    return cat(named(program_.classes[p.rank_class], p.op, program_.tables), " of class ", p.rank_class);
  };
  const auto is_open = [&](std::uint32_t i) { return i != kNoOp && !graph.is_done[graph.node[i]]; };
  // What keeps this op itself from starting.
  const auto blocker = [&](std::uint32_t i) -> Link {
    if (is_open(graph.lane_before[i])) return {graph.lane_before[i], "comes on its lane after"};
    if (is_open(graph.queue_before[i])) return {graph.queue_before[i], "comes in its queue after"};
    if (is_open(graph.sender[i])) return {graph.sender[i], "receives from"};
    const Place p = place(i);
    const Sequence& sequence = program_.classes[p.rank_class];
    for (const std::uint32_t wait : sequence.waits_of(sequence.ops[p.op]))
      if (!(wait & kPreviousStep) && is_open(first_[p.rank_class] + wait))
        return {first_[p.rank_class] + wait, "waits for"};
    return {kNoOp, ""};
  };
  std::uint32_t at = 0;
  while (!is_open(at)) ++at;
  std::vector<Link> path;
  std::vector<bool> is_seen(num_ids_, false);
  while (!is_seen[at]) {
    is_seen[at] = true;
    Link link = blocker(at);
    if (link.id == kNoOp) {  // it could start itself: one that it meets cannot
      const auto members = graph.members_of(graph.node[at]);
      link = {*std::find_if(members.begin(), members.end(), [&](auto m) { return blocker(m).id != kNoOp; }),
              "must meet"};
    }
    path.push_back({at, link.why});
    at = link.id;
  }
  std::string cycle;
  for (auto link = std::find_if(path.begin(), path.end(), [&](const Link& l) { return l.id == at; });
       link != path.end(); ++link)
    cycle += cat(text(link->id), " ", link->why, " ");
  const Place p = place(at);
  out.push_back({p.rank_class, p.op, cat("stuck with ", mode_text, ": ", cycle, text(at))});
}

}  // namespace tessera::program
