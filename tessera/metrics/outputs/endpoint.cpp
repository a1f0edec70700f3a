#include "tessera/metrics/outputs/endpoint.hpp"

#include <CivetServer.h>
#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/exposer.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <mutex>
#include <string_view>
#include <vector>

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
  // A connection takes a thread until it has asked or its time is over; a few more may wait, the others are
  // not let in.
  const std::vector<std::string> options = {"listening_ports",    cat("127.0.0.1:", port),
                                            "num_threads",        "4",
                                            "request_timeout_ms", "1000",
                                            "connection_queue",   "16",
                                            "listen_backlog",     "16"};
  return std::make_unique<prometheus::Exposer>(options, &hooks);
} catch (const CivetException&) {
  throw UserError(cat("--prometheus ", port, ": cannot listen on port ", port,
                      " of 127.0.0.1 (taken, or not allowed). Name another one, or 0 for any that is free."));
}

Gauge& add_gauge(Registry& registry, const std::string& name, const std::string& about) {
  return prometheus::BuildGauge().Name("tessera_" + name).Help(about).Register(registry).Add({});
}

prometheus::Family<Counter>& counters(Registry& registry, const std::string& name, const std::string& about) {
  return prometheus::BuildCounter().Name("tessera_" + name).Help(about).Register(registry);
}

Counter& add_counter(Registry& registry, const std::string& name, const std::string& about) {
  return counters(registry, name, about).Add({});
}

// All numbers of the page; a reader sees those of one step, never half of an update.
class Page : public prometheus::Collectable {
 public:
  Page() {
    for (const Measure& measure : measures())
      gauges_.push_back(&add_gauge(registry_, measure.name, measure.about));
  }

  std::vector<prometheus::MetricFamily> Collect() const override {
    const std::lock_guard lock(mutex_);
    return registry_.Collect();
  }

  void update(const StepFacts& facts) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < gauges_.size(); ++i)
      if (const auto value = measures()[i].of(facts)) gauges_[i]->Set(*value);
    steps_wanted_.Set(static_cast<double>(facts.steps));
    left_seconds_.Set(facts.left_seconds);
    steps_.Increment();
    not_taken_.Increment(facts.taken ? 0 : 1);
    tokens_.Increment(facts.tokens);
    for (const MovedAlong& part : facts.moved.along) {
      const prometheus::Labels labels = {{"axes", part.axes}, {"kind", part.kind}};
      moved_calls_.Add(labels).Increment(static_cast<double>(part.calls));
      moved_bytes_.Add(labels).Increment(static_cast<double>(part.bytes));
    }
  }

 private:
  mutable std::mutex mutex_;
  Registry registry_;
  std::vector<Gauge*> gauges_;  // by measure
  Gauge& steps_wanted_ = add_gauge(registry_, "steps_wanted", "steps of the whole run");
  Gauge& left_seconds_ =
      add_gauge(registry_, "left_seconds", "seconds until the run ends, at its present pace");
  Counter& steps_ = add_counter(registry_, "steps_total", "steps done");
  Counter& not_taken_ =
      add_counter(registry_, "steps_not_taken_total", "steps done whose gradients were not finite");
  Counter& tokens_ = add_counter(registry_, "tokens_total", "valid tokens of all ranks");
  prometheus::Family<Counter>& moved_calls_ =
      counters(registry_, "moved_calls_total", "calls of rank 0, by axis set and kind");
  prometheus::Family<Counter>& moved_bytes_ =
      counters(registry_, "moved_bytes_total", "bytes of the whole arrays of these calls");
};

}  // namespace

struct Endpoint::Parts {
  explicit Parts(int port) : exposer(listen(port)) { exposer->RegisterCollectable(page); }

  std::shared_ptr<Page> page = std::make_shared<Page>();
  std::unique_ptr<prometheus::Exposer> exposer;  // last: its threads read the page
};

Endpoint::Endpoint(int port) : parts_(std::make_unique<Parts>(port)) {}
Endpoint::~Endpoint() = default;

int Endpoint::port() const { return parts_->exposer->GetListeningPorts().at(0); }

void Endpoint::update(const StepFacts& facts) { parts_->page->update(facts); }

}  // namespace tessera::metrics
