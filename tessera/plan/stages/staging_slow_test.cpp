// Is `auto` the fastest schedule of a run, by the step that would be executed?
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/base/text.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/stages/staging.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/simulate/rates.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/spec/choice_names.hpp"

namespace tessera::plan {
namespace {

using spec::Schedule;

double simulated(const spec::Run& run, std::string* note = nullptr) {
  const program::Program program = compile(run, note);
  return simulate::simulate(program, simulate::costs_at({}, program)).makespan;
}

// Micro-batches of a whole rank that are held at most, over all ranks.
double held(const spec::Run& run) {
  const program::Order order = stage(run).order;
  return static_cast<double>(std::ranges::max(program::peak_activations(order))) *
         static_cast<double>(order.ranks.size()) / static_cast<double>(order.rank_of_stage.size());
}

void expect_fastest(spec::Run run) {
  const std::string what = cat("vocab ", run.model.vocab, ", layers ", run.model.layers, ", pp ",
                               run.layout.pp, ", micro-batches ", run.training.global_batch, ", virtual ",
                               run.layout.virtual_stages, ", limit ", run.layout.max_activations);
  run.layout.schedule = "auto"_schedule;
  std::string note;
  const double automatic = simulated(run, &note);
  const double limit =
      static_cast<double>(run.layout.max_activations) / static_cast<double>(run.layout.num_virtual());
  EXPECT_TRUE(limit == 0 || held(run) <= limit) << what;
  run.layout.max_activations = 0;
  run.layout.virtual_stages = 0;
  for (const Schedule schedule : {"gpipe"_schedule, "1f1b"_schedule, "interleaved"_schedule, "zb-h1"_schedule,
                                  "zb-v"_schedule, "dualpipe-v"_schedule, "bfs"_schedule}) {
    run.layout.schedule = schedule;
    if (limit > 0 && held(run) > limit) continue;
    EXPECT_LE(automatic, 1.001 * simulated(run)) << what << ", " << spec::word(schedule) << "; " << note;
  }
}

TEST(AutomaticRun, IsNoSlowerThanAFixedScheduleThatHoldsNoMore) {
  for (const int vocab : {256, 8000, 32000})
    for (const int layers : {6, 8, 11})
      for (const int pp : {2, 3, 4})
        for (const int num_micro : {4, 16})
          for (const int limit : {0, 2 * pp}) {
            spec::Run run;
            run.model.layers = layers;
            run.model.vocab = vocab;
            run.layout.pp = pp;
            run.layout.max_activations = limit;
            run.training.global_batch = num_micro;
            expect_fastest(run);
          }
}

TEST(AutomaticRun, SoItIsWithMoreStagesPerRank) {
  for (const int num_virtual : {3, 4})
    for (const int vocab : {256, 32000}) {
      spec::Run run;
      run.model.layers = 14;
      run.model.vocab = vocab;
      run.layout.pp = 3;
      run.layout.virtual_stages = num_virtual;
      run.training.global_batch = 6;
      expect_fastest(run);
    }
}

}  // namespace
}  // namespace tessera::plan
