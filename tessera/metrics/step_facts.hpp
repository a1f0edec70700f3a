// The numbers of a step that has ended: the one list that lines, the display, metrics.jsonl, event files and
// the endpoint show.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/bytes_moved.hpp"
#include "tessera/metrics/field.hpp"

namespace tessera::metrics {

// Of held-out samples.
struct EvaluationFacts {
  double loss = 0;                        // nats per valid token
  std::optional<double> bytes_per_token;  // of the text that the tokens stand for, if that is known
  std::int64_t samples = 0;
  double seconds = 0;

  double perplexity() const { return std::exp(loss); }
  std::optional<double> bits_per_byte() const {
    return bytes_per_token ? std::optional(loss / std::numbers::ln2 / *bytes_per_token) : std::nullopt;
  }
};

// "loss 2.3412, perplexity 10.39, 3.378 bits a byte (64 samples, 1.2 s)"
std::string to_text(const EvaluationFacts& facts);

// How many tokens of a step chose each expert of a layer, and how many choices were dropped.
struct ExpertLoad {
  std::int64_t layer = 0;
  std::vector<double> tokens;  // by expert
  double dropped = 0;
  double most_over_mean() const;
  bool operator==(const ExpertLoad&) const = default;
};

struct StepFacts {
  std::int64_t step = 0;  // counted from 1
  std::int64_t steps = 0;
  double loss = 0;
  double tokens = 0;              // valid, of all ranks
  std::int64_t total_tokens = 0;  // of all steps of the run so far, earlier starts included, valid or not
  double gradient_norm = 0;
  double learning_rate = 0;
  double loss_scale = 1;  // fp16: factor of the loss in the backward
  double step_seconds = 0;
  double left_seconds = 0;
  double exposed_seconds = 0;                 // communication was under way, and no compute
  double model_flops = 0;                     // what the model needs, all ranks
  double hardware_flops = 0;                  // what was done: recomputation too
  double peak_flops_per_second = 0;           // of all ranks together; 0: not known yet
  std::vector<std::int64_t> resident_bytes;   // by rank
  std::vector<std::int64_t> peak_bytes;       // by rank: the most that its tensors held during its last step
  BytesMoved moved;                           // by rank 0
  std::int64_t steps_not_taken = 0;           // so far
  std::int64_t restarts = 0;                  // so far, of all ranks
  double lost_seconds = 0;                    // by these restarts
  bool taken = true;                          // false: the norm was not finite, so the parameters stayed
  std::optional<EvaluationFacts> evaluation;  // after this step, if there was one
  std::vector<ExpertLoad> expert_loads;       // by layer, of those that have experts

  double tokens_per_second() const { return tokens / step_seconds; }
  double exposed_share() const { return exposed_seconds / step_seconds; }
  // Shares of the peak; none while it isn't known.
  std::optional<double> model_utilisation() const { return utilisation(model_flops); }
  std::optional<double> hardware_utilisation() const { return utilisation(hardware_flops); }
  std::int64_t resident_quantile(double q) const;
  std::int64_t peak_bytes_of_most() const;  // over the ranks
  // Of experts: the largest load of any, over the mean of its layer; the share without a token; the share of
  // choices that were dropped. None without experts.
  std::optional<double> largest_load() const;
  std::optional<double> idle_experts() const;
  std::optional<double> dropped_choices() const;

 private:
  std::optional<double> utilisation(double flops) const;
};

// A number that every output shows under one name.
struct Measure {
  std::string name;   // the field of metrics.jsonl
  std::string group;  // learning or running: which part of a page it belongs to
  std::string about;  // one line, with the unit
  std::optional<double> (*of)(const StepFacts&);
  bool is_rare = false;  // left out of lines of steps that don't have it
};
const std::vector<Measure>& measures();

// What was called along each axis set, in each kind.
std::vector<Record> records_of(const std::vector<MovedAlong>& along);

// The line of metrics.jsonl.
Record record_of(const StepFacts& facts);

}  // namespace tessera::metrics
