// A page of gauges and counters in Prometheus' text form, on the loopback address only.
#pragma once

#include <memory>

#include "tessera/metrics/step_facts.hpp"

namespace tessera::metrics {

class Endpoint {
 public:
  // Listens on 127.0.0.1 and answers GET /metrics, nothing else; port 0: any free one. Throws UserError when
  // the port is taken or not allowed.
  explicit Endpoint(int port);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  int port() const;
  // From now on the page shows this step, all numbers of it at once.
  void update(const StepFacts& facts);

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tessera::metrics
