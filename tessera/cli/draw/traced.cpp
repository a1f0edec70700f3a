#include "tessera/cli/draw/traced.hpp"

#include "tessera/base/error.hpp"
#include "tessera/metrics/trace/trace.hpp"
#include "tessera/program/ir/text.hpp"

namespace tessera::cli {

using metrics::argument;

TracedRun read_traced(const std::string& path) {
  metrics::Trace trace = metrics::read_trace(path);
  TracedRun out{.ops = {}, .program = std::move(trace.program)};
  for (const auto& event : trace.events) {
    const auto step = argument<std::int64_t>(event, "step");
    const auto what = program::op_kind_named(argument<std::string>(event, "what").value_or(""));
    if (!step || !what)
      throw UserError(cat("trace '", path, "': event '", event.name, "' does not say its ",
                          step ? "kind" : "step",
                          ". Draw a trace that this version's tessera train --trace has written."));
    draw::Traced op{.rank = event.process, .lane = event.row, .step = *step};
    if (const auto segment = argument<std::int64_t>(event, "segment"))
      op.segment = static_cast<std::uint32_t>(*segment);
    op.bar = {
        .word = argument<std::string>(event, "op").value_or(event.name),
        .what = *what,
        .micro = static_cast<std::int32_t>(argument<std::int64_t>(event, "micro").value_or(program::kOfStep)),
        .start = event.start_seconds,
        .end = event.start_seconds + event.duration_seconds,
        .waits = argument<std::string>(event, "waits").value_or("")};
    out.ops.push_back(std::move(op));
  }
  if (out.ops.empty())
    throw UserError(
        cat("trace '", path, "' has no events: the run that began it was ended before its last step"));
  return out;
}

}  // namespace tessera::cli
