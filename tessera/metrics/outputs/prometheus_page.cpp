#include "tessera/metrics/outputs/prometheus_page.hpp"

#include <cmath>

#include "tessera/base/text.hpp"

namespace tessera::metrics {
namespace {

std::string value_of(double x) {
  if (std::isnan(x)) return "NaN";
  return std::isinf(x) ? (x > 0 ? "+Inf" : "-Inf") : cat(x);
}

std::string heading(const std::string& name, const char* type, const std::string& about) {
  return cat("# HELP tessera_", name, " ", about, "\n# TYPE tessera_", name, " ", type, "\n");
}

std::string sample(const std::string& name, const char* type, const std::string& about, double value) {
  return cat(heading(name, type, about), "tessera_", name, " ", value_of(value), "\n");
}

}  // namespace

void PrometheusPage::update(const StepFacts& facts) {
  const std::lock_guard lock(mutex_);
  for (const Measure& measure : measures())
    if (const auto value = measure.of(facts)) gauges_[measure.name] = *value;
  gauges_["steps_wanted"] = static_cast<double>(facts.steps);
  gauges_["left_seconds"] = facts.left_seconds;
  steps_ += 1;
  not_taken_ += facts.taken ? 0 : 1;
  tokens_ += facts.tokens;
  for (const MovedAlong& part : facts.moved.along) {
    Moved& moved = moved_[{part.axes, part.kind}];
    moved.calls += static_cast<double>(part.calls);
    moved.bytes += static_cast<double>(part.bytes);
  }
}

std::string PrometheusPage::text() const {
  const std::lock_guard lock(mutex_);
  std::string out;
  const auto add_gauge = [&](const std::string& name, const std::string& about) {
    if (const auto found = gauges_.find(name); found != gauges_.end())
      out += sample(name, "gauge", about, found->second);
  };
  for (const Measure& measure : measures()) add_gauge(measure.name, measure.about);
  add_gauge("steps_wanted", "steps of the whole run");
  add_gauge("left_seconds", "seconds until the run ends, at its present pace");
  out += sample("steps_total", "counter", "steps done", steps_);
  out += sample("steps_not_taken_total", "counter", "steps done whose gradients were not finite", not_taken_);
  out += sample("tokens_total", "counter", "valid tokens of all ranks", tokens_);
  const auto add_moved = [&](const std::string& name, const std::string& about, double Moved::*number) {
    out += heading(name, "counter", about);
    for (const auto& [labels, moved] : moved_)
      out += cat("tessera_", name, "{axes=\"", labels.first, "\",kind=\"", labels.second, "\"} ",
                 value_of(moved.*number), "\n");
  };
  add_moved("moved_calls_total", "calls of rank 0, by axis set and kind", &Moved::calls);
  add_moved("moved_bytes_total", "bytes of the whole arrays of these calls", &Moved::bytes);
  return out;
}

}  // namespace tessera::metrics
