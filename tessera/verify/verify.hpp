// Compares a layout with one device in fp64: loss, every gradient, the norm, the parameters after some steps,
// and the replicas bit by bit.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/collective/group.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/spec/spec.hpp"
#include "tessera/train/session.hpp"
#include "tessera/verify/compare.hpp"

namespace tessera::train {

struct Verification {
  std::vector<Comparison> comparisons;
  double worst_relative_error = 0;
  bool replicas_equal = true;
  bool numbers_equal = true;  // loss and norm, on all ranks
  double tolerance = 1e-10;
  std::int64_t num_ranks = 1, num_micro = 1, num_steps = kVerifySteps;
  std::string schedule;  // of the pipeline, if there is one
  std::string bits;      // of what the layout came to (bits_text)
  std::string shrunk;    // how the model was made smaller; empty: it wasn't
  std::string fault;     // what went wrong first, where it lies, and what that usually means; empty: nothing
  bool passed() const { return worst_relative_error <= tolerance && replicas_equal && numbers_equal; }
};

// What one device comes to: computed once for all layouts of equal mathematics.
class References {
 public:
  // Of so many steps, which all that is compared with it makes too.
  explicit References(int num_steps = kVerifySteps) : num_steps_(num_steps) {}
  int num_steps() const { return num_steps_; }
  struct Reference {
    Outcome outcome;
    std::vector<std::string> order;  // of parameters, as computed
  };
  const Reference& of(const spec::Run& run);
  std::size_t size() const { return known_.size(); }

 private:
  int num_steps_;
  std::map<std::string, Reference> known_;  // by the text of the run on one device
};

// Verifies on the ranks of a communicator, which are as many as the layout has; the result is whole on rank
// 0.
Verification verify(const spec::Run& run, const collective::Communicator& communicator,
                    int num_steps = kVerifySteps);

// The same with threads as ranks. Tests change the groups of steps, to see that it is noticed.
Verification verify_on_threads(const spec::Run& run, const StepGroups& step_groups = {},
                               const collective::RunRanks& run_ranks = collective::run_ranks,
                               int num_steps = kVerifySteps);

// The same of a run that is small already and in the precision to verify, against a reference that may be
// known.
Verification verify_as_it_is(const spec::Run& run, References& references, const StepGroups& step_groups = {},
                             const collective::RunRanks& run_ranks = collective::run_ranks);

// The same with any program of that run, right or wrong.
Verification verify_program(const spec::Run& run, const program::Program& program, References& references,
                            const StepGroups& step_groups = {},
                            const collective::RunRanks& run_ranks = collective::run_ranks);

// What a layout may be off: 1e-10 in fp64, 1e-4 in fp32.
double tolerance_of(spec::Precision precision);

// Every comparison as a table, and a verdict.
std::string to_text(const Verification& verification);

}  // namespace tessera::train
