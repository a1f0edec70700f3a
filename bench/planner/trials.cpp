// Random clusters of which one number is raised, and random keys that are pinned:
//   build/release/plan_trials monotone [COUNT [SEED]]   300 clusters; more of anything may not make the best
//                                                       step longer
//   build/release/plan_trials pins [COUNT [SEED]]       200 cases; each is kept, or refused by name
// Prints what was violated, and fails if anything was.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tessera/planner/testing/trials.hpp"

int main(int argc, char** argv) {
  using namespace tessera;
  const std::string_view what = argc > 1 ? argv[1] : "monotone";
  const bool is_monotone = what == "monotone";
  const int count = argc > 2 ? std::atoi(argv[2]) : is_monotone ? 300 : 200;
  const auto seed = static_cast<std::uint64_t>(argc > 3 ? std::atoll(argv[3]) : 1);
  int violated = 0;
  for (int i = 0; i < count; ++i) {
    const std::string found =
        is_monotone ? planner::monotone_violation(seed, i) : planner::pin_violation(seed, i);
    if (!found.empty()) std::printf("%d: %s\n", i, found.c_str()), ++violated;
    std::fflush(stdout);
  }
  std::printf("%d of %d violated\n", violated, count);
  return violated > 0;
}
