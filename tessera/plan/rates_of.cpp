#include "tessera/plan/rates_of.hpp"

#include "tessera/simulate/report.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::plan {

simulate::Rates rates_of(const spec::Run& run) {
  simulate::Rates rates;
  if (run.cluster.peak_tflops > 0) rates.flops = run.cluster.peak_tflops * 1e12;
  if (run.cluster.link_mbits > 0) rates.link_bytes = run.cluster.link_mbits * 1e6 / 8;
  return rates;
}

double step_seconds(const spec::Run& run, const program::Program& program) {
  const auto timeline = simulate::simulate(program, simulate::costs_at(rates_of(run), program));
  return simulate::report(program, timeline).step_seconds;
}

}  // namespace tessera::plan
