#include "tessera/program/passes/servers.hpp"

#include <algorithm>
#include <functional>

namespace tessera::program {
namespace {

// An exchange between workers and servers.
bool is_met(const Op& op) {
  return op.what == OpKind::gather || (op.what == OpKind::reduce && !(op.flags & kOfShard));
}

bool is_of_shard(const Op& op) {
  return op.what == OpKind::step || (op.what == OpKind::reduce && (op.flags & kOfShard));
}

// The ops that are kept, in their order, with the waits between them.
Draft only(const Draft& draft, const std::function<bool(const Op&)>& keeps) {
  Draft out;
  std::vector<std::uint32_t> new_place(draft.ops.size(), kUnused);
  for (std::size_t at = 0; at < draft.ops.size(); ++at) {
    if (!keeps(draft.ops[at])) continue;
    new_place[at] = static_cast<std::uint32_t>(out.ops.size());
    out.ops.push_back(draft.ops[at]);
  }
  for (const ExtraWait& wait : draft.waits) {
    const std::uint32_t op = new_place[wait.op], earlier = new_place[wait.earlier & ~kPreviousStep];
    if (op != kUnused && earlier != kUnused)
      out.waits.push_back({op, earlier | (wait.earlier & kPreviousStep)});
  }
  return out;
}

void add_turns(Draft& server) {
  const auto is_push = [](const Op& op) { return op.what == OpKind::reduce; };
  const auto is_update = [](const Op& op) { return op.what == OpKind::step; };
  const auto place = [&](auto is_first) {
    return static_cast<std::uint32_t>(std::ranges::find_if(server.ops, is_first) - server.ops.begin());
  };
  for (Op& op : server.ops) op.lane = kCompute;
  Insertion insertion(server);
  const auto turn = [&](std::uint32_t at, Service service) {
    if (at < server.ops.size())
      insertion.before(at, {.what = OpKind::turn, .item = static_cast<std::uint32_t>(service)});
  };
  turn(0, Service::pull);
  turn(place(is_push), Service::push);
  turn(place(is_update), Service::update);
  insertion.apply();
}

}  // namespace

Draft part_servers(Draft& draft, bool takes_turns) {
  Draft server =
      only(draft, [](const Op& op) { return is_met(op) || is_of_shard(op) || op.what == OpKind::sum; });
  draft = only(draft, [](const Op& op) { return !is_of_shard(op); });
  for (Op& op : draft.ops)
    if (is_met(op)) op.flags |= kOfWorker;
  for (Op& op : server.ops)
    if (is_met(op)) op.flags = static_cast<std::uint16_t>((op.flags & ~kEndsSource) | kOfServer);
  if (takes_turns) add_turns(server);
  return server;
}

}  // namespace tessera::program
