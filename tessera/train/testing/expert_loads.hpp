// Loads of experts, even and as uneven as they come, as choices in a file that runs replay.
#pragma once

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/data/batch_plan.hpp"
#include "tessera/train/source/choice_file.hpp"
#include "tessera/train/testing/small_runs.hpp"

namespace tessera::train {

inline constexpr std::int64_t kReplayedSteps = 4;

// The experts of a token, from its sample and its position.
using Choose = std::function<std::vector<std::int64_t>(std::int64_t sample, std::int64_t position)>;

struct LoadCase {
  std::string name;
  Choose choose;
  std::function<void(spec::Run&)> change = [](spec::Run&) {};
};

inline std::vector<LoadCase> load_cases() {
  constexpr std::int64_t kExperts = 8;
  const auto spread = [](std::int64_t, std::int64_t p) {
    return std::vector{2 * p % kExperts, (2 * p + 1) % kExperts};
  };
  const auto one_each = [](spec::Run& run) { run.model.experts_per_token = 1; };
  return {
      {"balanced", spread},
      {"one hot expert",
       [](auto, auto p) {
         return std::vector{std::int64_t{3}, (4 + p % 7) % kExperts};
       }},
      {"one hot rank",
       [](auto, auto p) {
         return std::vector{p % 2, 1 - p % 2};
       }},
      {"unequal numbers of tokens from ranks", spread, [](auto& run) { run.training.global_batch = 7; }},
      {"experts without a token",
       [](auto, auto p) {
         return std::vector{2 * p % kExperts, (2 * p + 2) % kExperts};
       }},
      {"ranks without a token",
       [](auto s, auto p) {
         return std::vector{p % 4, (p + 1 + s % 2) % 4};
       }},
      {"bursts from step to step",
       [](auto s, auto p) {
         return std::vector{s / 8 % kExperts, (s / 8 + 1 + p % 3) % kExperts};
       }},
      {"all tokens to one expert", [](auto, auto) { return std::vector<std::int64_t>{5}; }, one_each},
      {"an empty micro-batch on some ranks", spread, [](auto& run) { run.training.global_batch = 5; }},
      {"capacity that drops half", spread, [](auto& run) { run.model.capacity_factor = 0.5; }},
      {"as many choices as experts",
       [](auto, auto p) {
         std::vector<std::int64_t> all(kExperts);
         for (std::int64_t i = 0; i < kExperts; ++i) all[static_cast<std::size_t>(i)] = (p + i) % kExperts;
         return all;
       },
       [](auto& run) { run.model.experts_per_token = kExperts; }},
      {"as many ranks as experts",
       [](auto, auto p) {
         return std::vector{p % 4, (p + 1) % 4};
       },
       [](auto& run) { run.model.experts = 4; }},
  };
}

// Four ranks, of which each holds two experts; or two share the slices of four.
inline std::vector<spec::Layout> expert_layouts() {
  spec::Layout whole, sliced;
  whole.dp_shard = 4, whole.ep = 4;
  sliced.dp_shard = 2, sliced.tp = 2, sliced.ep = 2, sliced.etp = 2;
  return {whole, sliced};
}

inline spec::Run load_run(const LoadCase& c, const spec::Layout& layout, const std::string& path) {
  spec::Run run = with_experts(small_run(1), 8);
  run.model.vocab = 60;
  run.model.balance = spec::Balance::sequence;
  run.model.balance_weight = 0.1;
  run.training.steps = kReplayedSteps;
  run.layout = layout;
  run.layout.micro_batch = layout.tp;
  c.change(run);
  run.training.replay_choices = path;
  return run;
}

inline void write_choice_file(const spec::Run& run, const Choose& choose) {
  const std::string& path = run.training.replay_choices;
  std::filesystem::remove(path);
  const ChoiceShape shape = choice_shape(run.model, run.training);
  make_choice_file(path, shape);
  ChoiceWriter writer(path);
  for (std::int64_t sample = 0; sample < shape.samples; ++sample)
    for (std::int64_t layer = 0; layer < shape.layers; ++layer)
      for (std::int64_t position = 0; position < shape.positions; ++position)
        writer.write(static_cast<std::uint64_t>(sample), layer, position, choose(sample, position));
}

// Rows of one micro-batch, by rank: those that leave it, and those that come to its experts.
struct Rows {
  std::vector<std::int64_t> leaving, arriving;
};

// By the definition: tokens of a micro-batch lie on the ranks of tp in equal shares.
inline Rows rows_of(const spec::Run& run, const Choose& choose, std::int64_t first, std::int64_t micro) {
  const auto& l = run.layout;
  const std::int64_t held = run.model.experts / l.ep, sequence = run.model.sequence;
  Rows out{std::vector<std::int64_t>(static_cast<std::size_t>(l.ranks())),
           std::vector<std::int64_t>(static_cast<std::size_t>(l.ranks()))};
  for (std::int64_t data = 0; data < l.dp_shard; ++data) {
    const auto samples = data::samples_of(static_cast<std::uint64_t>(first), run.training.global_batch, data,
                                          l.dp_shard, l.micro_batch, micro);
    const std::int64_t tokens = std::ssize(samples) * sequence;
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> taken;  // by sample and expert
    for (std::int64_t token = 0; token < tokens; ++token) {
      const auto sample = static_cast<std::int64_t>(samples[static_cast<std::size_t>(token / sequence)]);
      const std::int64_t rank = data * l.tp + token / (tokens / l.tp);
      for (const std::int64_t expert : choose(sample, token % sequence)) {
        const double most = std::ceil(run.model.capacity_factor *
                                      static_cast<double>(sequence * run.model.experts_per_token) /
                                      static_cast<double>(run.model.experts));
        if (run.model.capacity_factor > 0 && static_cast<double>(++taken[{sample, expert}]) > most) continue;
        out.leaving[static_cast<std::size_t>(rank)] += l.etp;
        for (std::int64_t slice = 0; slice < l.etp; ++slice)
          ++out.arriving[static_cast<std::size_t>(expert / held * l.etp + slice)];
      }
    }
  }
  return out;
}

}  // namespace tessera::train
