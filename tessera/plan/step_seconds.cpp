#include "tessera/plan/step_seconds.hpp"

#include "tessera/simulate/report.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::plan {

double step_seconds(const program::Program& program, const simulate::Rates& rates) {
  const auto timeline = simulate::simulate(program, simulate::costs_at(rates, program));
  return simulate::report(program, timeline).step_seconds;
}

}  // namespace tessera::plan
