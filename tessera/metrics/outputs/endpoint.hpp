// A page of gauges and counters in Prometheus' text form.
#pragma once

#include <memory>

#include "tessera/base/listen_address.hpp"
#include "tessera/metrics/step_facts.hpp"

namespace tessera::metrics {

class Endpoint {
 public:
  // Listens there and answers GET /metrics, nothing else. Throws UserError when the address is not of this
  // host, or the port is taken or not allowed.
  explicit Endpoint(const ListenAddress& address);
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
