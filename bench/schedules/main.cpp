// How fast are programs made, checked and simulated? Processor seconds of each part on one thread (other work
// on the machine does not count), the median of some rounds.
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/program/check/check.hpp"
#include "tessera/program/passes/chain.hpp"
#include "tessera/program/schedule/schedules.hpp"
#include "tessera/simulate/simulate.hpp"

namespace {

using namespace tessera;

struct Case {
  const char* name;
  program::Order (*order)(const program::Pipeline&);
  std::uint32_t num_ranks, num_virtual;
  std::int32_t num_micro;
};

double now() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void measure(const Case& c, int rounds) {
  std::vector<double> compile, check, simulate;
  std::size_t num_ops = 0;
  for (int round = 0; round < rounds; ++round) {
    const double start = now();
    const program::Costs costs = program::even_costs(c.num_ranks, c.num_virtual, {});
    const program::Program program =
        program::chain(c.order({c.num_ranks, c.num_virtual, c.num_micro, costs}), costs);
    const double compiled = now();
    const auto problems = program::check(program);
    const double checked = now();
    TESSERA_CHECK(problems.empty(), program::to_text(problems));
    const auto timeline = simulate::simulate(program, simulate::table_costs(program));
    const double simulated = now();
    TESSERA_CHECK(timeline.makespan > 0, "nothing ran");
    compile.push_back(compiled - start);
    check.push_back(checked - compiled);
    simulate.push_back(simulated - checked);
    num_ops = 0;
    for (const auto& sequence : program.classes) num_ops += sequence.ops.size();
  }
  std::printf("%-12s %5u %7u %7d %9zu %9.3f %9.3f %9.3f %9.3f\n", c.name, c.num_ranks, c.num_virtual,
              c.num_micro, num_ops, median(compile), median(check), median(simulate),
              median(compile) + median(check) + median(simulate));
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::stoi(argv[1]) : 3;
  std::printf("%-12s %5s %7s %7s %9s %9s %9s %9s %9s\n", "schedule", "ranks", "virtual", "micro", "ops",
              "compile", "check", "simulate", "all");
  measure({"1f1b", program::one_forward_one_backward, 16, 1, 128}, rounds);
  measure({"zb-v", program::zero_bubble_v, 16, 2, 128}, rounds);
  measure({"interleaved", program::interleaved, 64, 4, 1024}, rounds);
}
