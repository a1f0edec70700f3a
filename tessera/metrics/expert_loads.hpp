// Reads the loads of experts back from a metrics.jsonl.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tessera/metrics/step_facts.hpp"

namespace tessera::metrics {

struct StepLoads {
  std::int64_t step = 0;
  std::vector<ExpertLoad> layers;
  bool operator==(const StepLoads&) const = default;
};

// Calls `take` with each step whose line has loads: steps ascend, and all have the same layers and experts.
// A last line that is not whole, which a run may just be writing, is left out if others have loads. Throws
// UserError when the file can't be read, is empty or has no loads at all, and, naming the line, when one is
// not what `tessera train` writes.
void read_expert_loads(const std::string& path, const std::function<void(const StepLoads&)>& take);

}  // namespace tessera::metrics
