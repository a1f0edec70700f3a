// The rates by which a run is priced that nobody has measured.
#pragma once

#include "tessera/simulate/rates.hpp"
#include "tessera/spec/spec.hpp"

namespace tessera::plan {

// The assumed ones, with the FLOP/s of a device and the speed of its link that the run file tells.
inline simulate::Rates rates_of(const spec::Run& run) {
  simulate::Rates rates;
  if (run.cluster.peak_tflops > 0) rates.flops = run.cluster.peak_tflops * 1e12;
  if (run.cluster.link_mbits > 0) rates.link_bytes = run.cluster.link_mbits * 1e6 / 8;
  return rates;
}

}  // namespace tessera::plan
