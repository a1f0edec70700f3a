// The numbers of a run in Prometheus' text format, version 0.0.4.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "tessera/metrics/step_facts.hpp"

namespace tessera::metrics {

// One thread updates the page while others read it.
class PrometheusPage {
 public:
  // From now on the page shows this step, all numbers of it at once.
  void update(const StepFacts& facts);
  // Gauges have no value before the first step, and are left out until then.
  std::string text() const;

 private:
  struct Moved {
    double calls = 0, bytes = 0;
  };
  mutable std::mutex mutex_;
  std::map<std::string, double> gauges_;  // by the name of their measure
  double steps_ = 0, not_taken_ = 0, tokens_ = 0;
  std::map<std::pair<std::string, std::string>, Moved> moved_;  // by axes and kind
};

}  // namespace tessera::metrics
