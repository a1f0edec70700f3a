#include "tessera/verify/verify_layouts.hpp"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/planner/variants/layouts.hpp"
#include "tessera/planner/variants/spread.hpp"
#include "tessera/verify/shrink.hpp"

namespace tessera::cli {

namespace {

// Small enough for a thousand of its kind. Layers and batch are the layouts' choice: as many layers as the
// stages need are taken of those of the run, and the batch is this one or a sample short of it, unless it is
// to stay as it is.
spec::Run base_run(const spec::Run& given, const LayoutsOptions& own, std::string& note) {
  constexpr std::int64_t kBatch = 12;
  spec::Run run = given;
  const bool varies_batch = own.axes.empty() || std::ranges::find(own.axes, "batch") != own.axes.end();
  run.model.layers = 1;
  if (varies_batch) run.layout.micro_batch = run.training.global_batch = 1;
  run = train::shrunk_for_verification(run, note, train::kMilliseconds);
  run.model.layers = given.model.layers;
  run.cluster.transport = spec::Transport::threads;
  if (varies_batch) run.training.global_batch = kBatch;
  if (own.precision == "fp32") run.layout.precision = spec::Precision::fp32;
  return run;
}

planner::Variety variety_of(const LayoutsOptions& own) {
  planner::Variety out{.most_ranks = own.most_ranks, .seed = own.seed};
  if (!own.axes.empty()) out.axes = own.axes;
  return out;
}

metrics::Record to_record(const train::LayoutsVerification& v, const std::string& precision) {
  std::vector<metrics::Record> traits, failures;
  for (const auto& [trait, values] : v.by_trait)
    for (const auto& [value, tally] : values)
      traits.push_back({{"trait", trait},
                        {"value", value},
                        {"layouts", tally.layouts},
                        {"passed", tally.passed},
                        {"worst_relative_error", tally.worst_relative_error}});
  for (const auto& failure : v.failures)
    failures.push_back(
        {{"layout", failure.layout}, {"fault", failure.fault}, {"overrides", failure.overrides}});
  return {{"layouts", v.all.layouts},
          {"passed", v.all.passed},
          {"failed", v.all.layouts - v.all.passed},
          {"worst_relative_error", v.all.worst_relative_error},
          {"tolerance", v.tolerance},
          {"precision", precision},
          {"references", static_cast<std::int64_t>(v.references)},
          {"bits", v.bits},
          {"seconds", v.seconds},
          {"traits", traits},
          {"failures", failures}};
}

// A line now and then: how many, how long still, and what failed as soon as it does.
class ProgressLine {
 public:
  explicit ProgressLine(std::size_t total) : total_(total) {}
  void operator()(const train::LayoutsVerification& so_far) {
    constexpr double kEverySeconds = 5;
    for (; num_told_ < so_far.failures.size(); ++num_told_)
      std::fprintf(stderr, "NOT EQUAL: %s\n  %s\n", so_far.failures[num_told_].layout.c_str(),
                   so_far.failures[num_told_].fault.c_str());
    const auto done = static_cast<double>(so_far.all.layouts), total = static_cast<double>(total_);
    if (so_far.seconds < next_seconds_ && done < total) return;
    next_seconds_ = so_far.seconds + kEverySeconds;
    std::fprintf(stderr, "%lld of %zu layouts, %lld equal, %s, %s left\n",
                 static_cast<long long>(so_far.all.layouts), total_,
                 static_cast<long long>(so_far.all.passed), duration_text(so_far.seconds).c_str(),
                 duration_text(so_far.seconds / done * (total - done)).c_str());
  }

 private:
  std::size_t total_, num_told_ = 0;
  double next_seconds_ = 0;
};

}  // namespace

std::optional<std::pair<std::size_t, std::size_t>> part_of_layouts(std::string_view text) {
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto number = [](std::string_view digits) {
    std::size_t out = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out);
    return error == std::errc() && end == digits.data() + digits.size() ? out : 0;
  };
  const std::size_t part = number(text.substr(0, slash)), parts = number(text.substr(slash + 1));
  if (part == 0 || part > parts) return std::nullopt;
  return std::pair(part, parts);
}

int verify_layouts_command(const Options& options) {
  const auto& own = options.layouts;
  const spec::Run given = job::load_run(options);
  check_has_order(given);
  std::string note;
  const spec::Run base = base_run(given, own, note);
  const double begin = now_seconds();
  auto runs = own.sample > 0 ? planner::listed_layouts(base, variety_of(own))
                             : planner::layouts(base, variety_of(own));
  const std::size_t listed = runs.size();
  if (own.sample > 0) runs = planner::drawn_layouts(runs, own.sample, own.seed);
  const std::string drawn =
      own.sample > 0 ? cat(", ", runs.size(), " different ones drawn") : ", all different";
  std::fprintf(stderr, "%zu layouts on up to %lld rank(s)%s (%s)\n", listed,
               static_cast<long long>(own.most_ranks), drawn.c_str(),
               duration_text(now_seconds() - begin).c_str());
  if (const auto [part, parts] = part_of_layouts(own.part).value(); parts > 1) {
    std::vector<spec::Run> here;
    for (std::size_t i = part - 1; i < runs.size(); i += parts) here.push_back(runs[i]);
    runs = std::move(here);
    std::fprintf(stderr, "part %s: %zu of them\n", own.part.c_str(), runs.size());
  }
  const auto found = train::verify_layouts(given, runs, ProgressLine(runs.size()),
                                           options.device.run_ranks(own.seed), options.verify_steps);
  const std::string text = options.json ? metrics::json_object(to_record(found, own.precision)) + "\n"
                                        : cat(note.empty() ? "" : cat("made smaller to verify: ", note, "\n"),
                                              train::to_text(found), options.device.report());
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  return found.passed() ? 0 : kExitNo;
}

}  // namespace tessera::cli
