// Prices the few layouts that are left as what they would run: compiled programs, replayed and simulated.
#pragma once

#include <string>
#include <vector>

#include "tessera/planner/search/search.hpp"
#include "tessera/program/ir/types.hpp"
#include "tessera/simulate/rates.hpp"
#include "tessera/simulate/timeline.hpp"

namespace tessera::planner {

struct Refined {
  Candidate candidate;
  spec::Run run;                   // as train takes it
  double seconds = 0;              // of the simulated step
  double bubble = 0;               // share of the pipeline's time that idles
  double exposed = 0;              // share of a step in which a rank neither computes nor waits for its turn
  std::vector<double> peak_bytes;  // by class of ranks, with what libraries take
  double most_bytes() const;
};

// What a program's ops cost on a cluster: products at the rate that the closed form gives them, each axis
// over the links that its ranks lie on.
simulate::Rates rates_for(const Candidate& candidate, const Cluster& cluster, const Constants& constants,
                          const program::Tables& tables);

// Of the fastest candidates, those that spec::problems knows nothing against and whose programs fit: at most
// `count`, fastest first. `over` is told the median ratio of a program's bytes to those of the closed form,
// of programs that do not fit; 0: all fit.
std::vector<Refined> refine(const spec::Run& run, const Found& found, const Cluster& cluster,
                            const Limits& limits, const Constants& constants, std::size_t count,
                            double* over = nullptr);

// The same of one layout as the run has it, whether it fits or not. Of many micro-batches a few are
// simulated, and the others take as long as one more does.
Refined refine_one(const spec::Run& run, const Cluster& cluster, const Constants& constants);

}  // namespace tessera::planner
