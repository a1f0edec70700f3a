// Two rank processes of examples/kjv-small.toml with and without overlap, seen in their traces.
#pragma once

#include <algorithm>

#include "tessera/cli/testing/binary_fixture.hpp"
#include "tessera/metrics/trace/trace.hpp"

namespace tessera::cli {

inline constexpr int kSteps = 6;

struct Steps {
  double hidden_share = 0;           // of the all-reduce time, under compute
  std::vector<double> step_seconds;  // from the first op of a step to its last, the first step left out
};

inline std::vector<double> step_seconds(const std::vector<metrics::Event>& events) {
  std::vector<double> begin(kSteps + 1, 1e300), end(kSteps + 1, 0);
  for (const auto& event : events) {
    const auto step = static_cast<std::size_t>(std::get<std::int64_t>(event.args.at(0).value));
    begin[step] = std::min(begin[step], event.start_seconds);
    end[step] = std::max(end[step], event.start_seconds + event.duration_seconds);
  }
  std::vector<double> out;
  for (std::size_t step = 2; step <= kSteps; ++step) out.push_back(end[step] - begin[step]);
  return out;
}

inline Steps traced_run(bool overlap) {
  const std::string trace =
      (std::filesystem::temp_directory_path() / cat("tessera-overlap-", getpid(), ".json")).string();
  const std::string command =
      cat(binary(), " train examples/kjv-small.toml --procs 2 training.steps=", kSteps,
          " training.global_batch=8 layout.overlap=", overlap, " --json --trace ", trace, " --out ", trace,
          ".out > /dev/null");
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  const auto events = metrics::read_trace(trace).events;
  std::filesystem::remove(trace);
  std::filesystem::remove_all(trace + ".out");
  Steps out{.step_seconds = step_seconds(events)};
  double hidden = 0, reducing = 0;
  for (const std::int64_t rank : {0, 1}) {
    std::vector<metrics::Event> reductions;
    for (const auto& event : metrics::events_of(events, rank, "communication dp"))
      if (event.name.front() == 'r') reductions.push_back(event), reducing += event.duration_seconds;
    hidden += metrics::overlap_seconds(reductions, metrics::events_of(events, rank, "compute"));
  }
  out.hidden_share = reducing > 0 ? hidden / reducing : 0;
  return out;
}

}  // namespace tessera::cli
