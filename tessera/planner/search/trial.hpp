// One layout as what it would run: its program compiled, simulated, and its memory replayed.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/planner/search/parts.hpp"
#include "tessera/planner/search/search.hpp"
#include "tessera/program/ir/types.hpp"

namespace tessera::planner {

struct Refined {
  Candidate candidate;
  spec::Run run;                   // as train takes it
  double seconds = 0;              // of the step: simulated, or by the closed form (is_by_form)
  double bubble = 0;               // share of the pipeline's time that idles
  double exposed = 0;              // share of a step in which a rank neither computes nor waits for its turn
  std::vector<Part> parts;         // of the step
  std::vector<double> peak_bytes;  // by class of ranks, with what libraries take
  double most_bytes() const;
};

// Micro-batches that are simulated: few, and a few more; all of them where a step has no more than both.
struct Sample {
  std::int64_t all, few, more;
  explicit Sample(const spec::Run& run);
  bool is_whole() const { return few == all; }
};

// Compiles one layout and simulates its step.
class Trial {
 public:
  Trial(const spec::Run& run, const Candidate& candidate, const Cluster& cluster, const Constants& constants);

  const Sample& sample() const { return sample_; }
  // All programs that were simulated.
  std::uint64_t ops() const;
  // Without slots: not all that it will hold.
  double least_bytes() const;
  // Seconds of few micro-batches.
  double simulate_few();
  // Seconds of the whole step, after few.
  double simulate_all();
  // Bytes of the fullest rank.
  double hold();
  Refined take_out() { return std::move(out_); }

 private:
  spec::Run of(std::int64_t micro_batches) const;
  void simulate_one(Refined& to) const;
  void take(const Refined& from);

  const Cluster& cluster_;
  const Constants constants_;
  const Sample sample_;
  program::Program program_;
  Refined first_, out_;
  std::uint64_t ops_ = 0;
};

}  // namespace tessera::planner
