#include "tessera/train/trace/traced_ops.hpp"

#include <algorithm>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/program/ir/text.hpp"

namespace tessera::train {
namespace {

using metrics::argument;
using program::OpKind;

simulate::RanOp ran_op(const metrics::Event& event, const std::string& path) {
  const auto step = argument<std::int64_t>(event, "step");
  const auto name = argument<std::string>(event, "what");
  const auto what = name ? program::op_kind_named(*name) : std::nullopt;
  if (!step || !what)
    throw UserError(
        cat("trace '", path, "': event '", event.name,
            "' does not say its step and what it is. Make the trace anew with tessera train --trace"));
  return {.kind = {.what = *what == OpKind::receive ? OpKind::send : *what,
                   .segment = argument<std::int64_t>(event, "segment").value_or(-1),
                   .ranks = argument<std::int64_t>(event, "ranks").value_or(1)},
          .size = argument<std::int64_t>(event, "bytes").value_or(0),
          .lane = event.row,
          .word = argument<std::string>(event, "op").value_or(event.name),
          .group = argument<std::int64_t>(event, "group").value_or(0),
          .step = *step,
          .span = {event.start_seconds, event.start_seconds + event.duration_seconds}};
}

}  // namespace

std::vector<simulate::RanOp> ran_ops(std::span<const metrics::Event> events, const std::string& path) {
  std::vector<simulate::RanOp> all, out;
  for (const auto& event : events) all.push_back(ran_op(event, path));
  std::ranges::copy_if(all, std::back_inserter(out), [](const auto& op) { return op.step > 1; });
  return out.empty() ? all : out;
}

simulate::Profile read_profile(std::span<const std::string> traces) {
  std::vector<simulate::RanOp> all;
  std::int64_t steps = 0;
  for (const auto& path : traces) {
    std::int64_t last = 0;
    for (auto& op : ran_ops(metrics::read_trace(path).events, path)) {
      last = std::max(last, op.step);
      op.step += steps;  // steps of different runs must not meet
      all.push_back(std::move(op));
    }
    steps += last;
  }
  return simulate::Profile(all);
}

}  // namespace tessera::train
