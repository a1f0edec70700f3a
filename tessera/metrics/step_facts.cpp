#include "tessera/metrics/step_facts.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "tessera/base/statistics.hpp"
#include "tessera/base/text.hpp"

namespace tessera::metrics {

std::int64_t StepFacts::resident_quantile(double q) const {
  return static_cast<std::int64_t>(quantile({resident_bytes.begin(), resident_bytes.end()}, q));
}

std::int64_t StepFacts::peak_bytes_of_most() const {
  return peak_bytes.empty() ? 0 : *std::ranges::max_element(peak_bytes);
}

double ExpertLoad::most_over_mean() const {
  const double sum = std::accumulate(tokens.begin(), tokens.end(), 0.0);
  return sum > 0 ? std::ranges::max(tokens) * static_cast<double>(tokens.size()) / sum : 1;
}

std::optional<double> StepFacts::largest_load() const {
  if (expert_loads.empty()) return std::nullopt;
  double most = 0;
  for (const ExpertLoad& load : expert_loads) most = std::max(most, load.most_over_mean());
  return most;
}

std::optional<double> StepFacts::idle_experts() const {
  if (expert_loads.empty()) return std::nullopt;
  double idle = 0, all = 0;
  for (const ExpertLoad& load : expert_loads) {
    idle += static_cast<double>(std::ranges::count(load.tokens, 0.0));
    all += static_cast<double>(load.tokens.size());
  }
  return idle / all;
}

std::optional<double> StepFacts::dropped_choices() const {
  if (expert_loads.empty()) return std::nullopt;
  double dropped = 0, all = 0;
  for (const ExpertLoad& load : expert_loads) {
    dropped += load.dropped;
    all += std::accumulate(load.tokens.begin(), load.tokens.end(), 0.0);
  }
  return all > 0 ? dropped / all : 0;
}

std::optional<double> StepFacts::utilisation(double flops) const {
  if (peak_flops_per_second <= 0) return std::nullopt;
  return flops / step_seconds / peak_flops_per_second;
}

std::string to_text(const EvaluationFacts& facts) {
  return cat("loss ", fixed(facts.loss, 4), ", perplexity ", fixed(facts.perplexity(), 2),
             facts.bits_per_byte() ? cat(", ", fixed(*facts.bits_per_byte(), 3), " bits a byte") : "", " (",
             facts.samples, facts.samples == 1 ? " sample, " : " samples, ", fixed(facts.seconds, 1), " s)");
}

namespace {

std::optional<double> evaluated(const StepFacts& facts, std::optional<double> (*of)(const EvaluationFacts&)) {
  return facts.evaluation ? of(*facts.evaluation) : std::nullopt;
}

std::optional<double> if_restarted(const StepFacts& facts, double value) {
  return facts.restarts > 0 ? std::optional(value) : std::nullopt;
}

}  // namespace

const std::vector<Measure>& measures() {
  using Facts = StepFacts;
  static const std::vector<Measure> list = {
      {"loss", "learning", "nats per token, mean over the valid tokens of the step",
       [](const Facts& f) -> std::optional<double> { return f.loss; }},
      {"gradient_norm", "learning", "of all gradients, before clipping",
       [](const Facts& f) -> std::optional<double> { return f.gradient_norm; }},
      {"learning_rate", "learning", "of this step",
       [](const Facts& f) -> std::optional<double> { return f.learning_rate; }},
      {"loss_scale", "learning", "factor of the loss in the backward; 1 unless the precision is fp16",
       [](const Facts& f) -> std::optional<double> { return f.loss_scale; }},
      {"evaluation_loss", "learning", "nats per token of held-out samples, after this step",
       [](const Facts& f) {
         return evaluated(f, [](const EvaluationFacts& e) -> std::optional<double> { return e.loss; });
       },
       true},
      {"evaluation_perplexity", "learning", "the exponential of that",
       [](const Facts& f) {
         return evaluated(f,
                          [](const EvaluationFacts& e) -> std::optional<double> { return e.perplexity(); });
       },
       true},
      {"evaluation_bits_per_byte", "learning", "the same loss in bits, by byte of the text",
       [](const Facts& f) {
         return evaluated(
             f, [](const EvaluationFacts& e) -> std::optional<double> { return e.bits_per_byte(); });
       },
       true},
      {"expert_load", "learning",
       "tokens of the busiest expert over the mean of its layer, in the worst layer",
       [](const Facts& f) { return f.largest_load(); }, true},
      {"idle_experts", "learning", "share of all layers' experts that no token of the step chose",
       [](const Facts& f) { return f.idle_experts(); }, true},
      {"dropped_choices", "learning", "share of the choices of experts that capacity dropped",
       [](const Facts& f) { return f.dropped_choices(); }, true},
      {"tokens_per_second", "running", "valid tokens of all ranks",
       [](const Facts& f) -> std::optional<double> { return f.tokens_per_second(); }},
      {"step_seconds", "running", "seconds of the step",
       [](const Facts& f) -> std::optional<double> { return f.step_seconds; }},
      {"exposed_communication", "running",
       "share of the step in which rank 0 communicated and did not compute",
       [](const Facts& f) -> std::optional<double> { return f.exposed_share(); }},
      {"model_flop_utilisation", "running", "FLOPs the model needs, as a share of what all ranks could do",
       [](const Facts& f) -> std::optional<double> { return f.model_utilisation(); }},
      {"hardware_flop_utilisation", "running", "the same with what is computed twice",
       [](const Facts& f) -> std::optional<double> { return f.hardware_utilisation(); }},
      {"resident_bytes_min", "running", "bytes held by the rank that holds least",
       [](const Facts& f) -> std::optional<double> { return static_cast<double>(f.resident_quantile(0)); }},
      {"resident_bytes_median", "running", "bytes held by the rank in the middle",
       [](const Facts& f) -> std::optional<double> { return static_cast<double>(f.resident_quantile(0.5)); }},
      {"resident_bytes_max", "running", "bytes held by the rank that holds most",
       [](const Facts& f) -> std::optional<double> { return static_cast<double>(f.resident_quantile(1)); }},
      {"peak_bytes", "running",
       "most bytes that tensors of a rank held at a time, of the rank that held most",
       [](const Facts& f) -> std::optional<double> { return static_cast<double>(f.peak_bytes_of_most()); }},
      {"sent_bytes", "running", "bytes that rank 0 sent to others, collectives as a ring sends them",
       [](const Facts& f) -> std::optional<double> { return static_cast<double>(f.moved.sent()); }},
      {"offloaded_bytes", "running", "bytes that rank 0 copied out of its memory",
       [](const Facts& f) -> std::optional<double> { return static_cast<double>(f.moved.offloaded); }},
      {"fetched_bytes", "running", "bytes that rank 0 copied back into its memory",
       [](const Facts& f) -> std::optional<double> { return static_cast<double>(f.moved.fetched); }},
      {"restarts", "running", "how often all ranks have been started again so far",
       [](const Facts& f) { return if_restarted(f, static_cast<double>(f.restarts)); }, true},
      {"lost_seconds", "running", "seconds that these restarts have cost: steps made again, waits and starts",
       [](const Facts& f) { return if_restarted(f, f.lost_seconds); }, true},
  };
  return list;
}

std::vector<Record> records_of(const std::vector<MovedAlong>& along) {
  std::vector<Record> out;
  for (const MovedAlong& part : along)
    out.push_back({{"axes", part.axes},
                   {"kind", part.kind},
                   {"calls", part.calls},
                   {"bytes", part.bytes},
                   {"sent_bytes", part.sent_bytes}});
  return out;
}

Record record_of(const StepFacts& facts) {
  Record record = {{"step", facts.step},
                   {"tokens", facts.tokens},
                   {"total_tokens", facts.total_tokens},
                   {"taken", facts.taken}};
  for (const Measure& measure : measures()) {
    const std::optional<double> value = measure.of(facts);
    if (value || !measure.is_rare)
      record.push_back({measure.name, value.value_or(std::numeric_limits<double>::quiet_NaN())});
  }
  if (!facts.expert_loads.empty()) {
    std::vector<Record> layers;
    for (const ExpertLoad& load : facts.expert_loads)
      layers.push_back({{"layer", load.layer}, {"tokens", load.tokens}, {"dropped", load.dropped}});
    record.push_back({"experts", layers});
  }
  record.push_back({"moved", records_of(facts.moved.along)});
  return record;
}

}  // namespace tessera::metrics
