#include "tessera/metrics/endpoint.hpp"

#include <CivetServer.h>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <functional>
#include <string_view>

#include "tessera/base/error.hpp"

namespace tessera::metrics {

namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Registry;

// The server behind Exposer knows many methods and would look for files: only one request is let through.
int refuse_all_but_get_metrics(mg_connection* connection) {
  const auto* request = mg_get_request_info(connection);
  const bool is_get = std::string_view(request->request_method) == "GET";
  const bool is_metrics = std::string_view(request->local_uri) == "/metrics";
  if (is_get && is_metrics) return 0;
  const int status = is_get ? 404 : 405;
  mg_send_http_error(connection, status, "%s", is_get ? "only /metrics is here" : "only GET is allowed");
  return status;
}

CivetCallbacks callbacks() {
  CivetCallbacks out;
  out.begin_request = refuse_all_but_get_metrics;
  // What it would write to standard error is told by us.
  out.log_message = [](const mg_connection*, const char*) { return 1; };
  return out;
}

std::unique_ptr<prometheus::Exposer> listen(int port) try {
  const CivetCallbacks hooks = callbacks();
  return std::make_unique<prometheus::Exposer>(cat("127.0.0.1:", port), /*num_threads=*/1, &hooks);
} catch (const CivetException&) {
  throw UserError(cat("--prometheus ", port, ": cannot listen on 127.0.0.1:", port,
                      "; another program has that port. Name another one, or 0 for any that is free."));
}

Gauge& add_gauge(Registry& registry, const std::string& name, const std::string& about) {
  return prometheus::BuildGauge().Name("tessera_" + name).Help(about).Register(registry).Add({});
}

Counter& add_counter(Registry& registry, const std::string& name, const std::string& about) {
  return prometheus::BuildCounter().Name("tessera_" + name).Help(about).Register(registry).Add({});
}

}  // namespace

struct Endpoint::Parts {
  explicit Parts(int port) : exposer(listen(port)) {
    for (const Measure& measure : measures())
      gauges.push_back(&add_gauge(*registry, measure.name, measure.about));
    exposer->RegisterCollectable(registry);
  }

  std::shared_ptr<Registry> registry = std::make_shared<Registry>();
  std::vector<Gauge*> gauges;  // by measure
  Gauge& steps_wanted = add_gauge(*registry, "steps_wanted", "steps of the whole run");
  Gauge& left_seconds =
      add_gauge(*registry, "left_seconds", "seconds until the run ends, at its present pace");
  Counter& steps = add_counter(*registry, "steps_total", "steps done");
  Counter& not_taken =
      add_counter(*registry, "steps_not_taken_total", "steps done whose gradients were not finite");
  Counter& tokens = add_counter(*registry, "tokens_total", "valid tokens of all ranks");
  std::unique_ptr<prometheus::Exposer> exposer;  // last: its threads read the registry
};

Endpoint::Endpoint(int port) : parts_(std::make_unique<Parts>(port)) {}
Endpoint::~Endpoint() = default;

int Endpoint::port() const { return parts_->exposer->GetListeningPorts().at(0); }

void Endpoint::update(const StepFacts& facts) {
  for (std::size_t i = 0; i < parts_->gauges.size(); ++i)
    if (const auto value = measures()[i].of(facts)) parts_->gauges[i]->Set(*value);
  parts_->steps_wanted.Set(static_cast<double>(facts.steps));
  parts_->left_seconds.Set(facts.left_seconds);
  parts_->steps.Increment();
  parts_->not_taken.Increment(facts.taken ? 0 : 1);
  parts_->tokens.Increment(facts.tokens);
}

}  // namespace tessera::metrics
