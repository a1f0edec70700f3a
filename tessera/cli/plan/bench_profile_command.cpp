#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/cli/plan/plan_commands.hpp"
#include "tessera/cli/plan/this_machine.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/planner/fit/own_runs.hpp"
#include "tessera/planner/fit/stack_profile.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::cli {
namespace {

std::string quoted(const std::string& word) {
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// The seconds of a step that `tessera train` reports; 0: it failed.
double measured_step(const PlanOptions& options, const std::vector<std::string>& keys, int ranks,
                     const std::string& folder) {
  std::string command =
      cat(quoted(std::filesystem::read_symlink("/proc/self/exe").string()), " train ", quoted(options.file));
  for (const std::string& key : options.overrides) command += " " + quoted(key);
  for (const std::string& key : keys) command += " " + quoted(key);
  command += cat(" training.steps=8 checkpoint.every_minutes=0 evaluation.every=0 --procs ", ranks,
                 " --json --out ", quoted(folder), " --from none 2>/dev/null");
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  if (!pipe) throw UserError("no process can be started here to measure with");
  std::string text;
  std::array<char, 4096> part;
  while (const std::size_t got = std::fread(part.data(), 1, part.size(), pipe.get()))
    text.append(part.data(), got);
  const auto begin = text.rfind("\n{", text.size() > 2 ? text.size() - 2 : 0);
  const auto json =
      nlohmann::json::parse(begin == std::string::npos ? text : text.substr(begin + 1), nullptr, false);
  return json.is_object() && json.contains("step_seconds") ? json["step_seconds"].get<double>() : 0;
}

}  // namespace

int bench_profile_command(const PlanOptions& options) {
  const spec::Run base =
      job::load_run({.file = options.file, .overrides = options.overrides}, spec::any_build());
  const planner::Cluster cluster = this_machine(2, base.layout.precision);
  planner::StackProfile profile{.stack = "tessera/this-machine", .columns = planner::own_columns()};
  // As different as ten runs on one and two ranks can be.
  const std::vector<std::pair<int, std::vector<std::string>>> kinds = {
      {1, {"layout.micro_batch=1"}},
      {1, {"layout.micro_batch=4"}},
      {1, {"layout.micro_batch=2", "layout.recompute=full"}},
      {2, {"layout.dp=2", "layout.micro_batch=1"}},
      {2, {"layout.dp=2", "layout.micro_batch=4", "layout.zero=1"}},
      {2, {"layout.dp=2", "layout.micro_batch=2", "layout.zero=3"}},
      {2, {"layout.tp=2", "layout.micro_batch=2"}},
      {2, {"layout.tp=2", "layout.micro_batch=4", "layout.recompute=full"}},
      {2, {"layout.pp=2", "layout.micro_batch=1"}},
      {2, {"layout.pp=2", "layout.micro_batch=2", "layout.schedule=zb-h1"}}};
  const std::string folder =
      (std::filesystem::temp_directory_path() / cat("tessera-profile-", ::getpid())).string();
  // A layout that this model can't have is left out.
  std::vector<std::optional<spec::Run>> runs;
  for (const auto& [ranks, keys] : kinds) {
    std::vector<std::string> overrides = options.overrides;
    overrides.insert(overrides.end(), keys.begin(), keys.end());
    try {
      runs.emplace_back(job::load_run({.file = options.file, .overrides = overrides}, spec::any_build()));
    } catch (const UserError&) {
      runs.emplace_back();
    }
  }
  // The faster of two, some time apart: others use the machine too.
  constexpr int kRounds = 2;
  std::vector<double> fastest(kinds.size(), 0);
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (!runs[i]) continue;
      const double seconds = measured_step(options, kinds[i].second, kinds[i].first, folder);
      if (seconds > 0) fastest[i] = fastest[i] > 0 ? std::min(fastest[i], seconds) : seconds;
      std::fprintf(stderr, "%zu of %zu: %s, %.3f s a step\n", round * kinds.size() + i + 1,
                   kRounds * kinds.size(), join(kinds[i].second, " ").c_str(), seconds);
    }
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    planner::Cluster own = cluster;
    own.nodes.front().count = kinds[i].first;
    if (fastest[i] > 0) profile.records.push_back(planner::own_record(*runs[i], own, fastest[i]));
  }
  std::filesystem::remove_all(folder);
  if (profile.records.empty())
    throw UserError(cat("no run of ", options.file, " could be measured: does tessera train take it?"));
  const std::string out = options.out.empty() ? "machine" : options.out;
  metrics::OutFile(out + ".json", "--out").write(planner::to_json(profile));
  metrics::OutFile(out + ".toml", "--out").write(to_text(cluster));
  std::printf(
      "%s.json: a stack profile of %zu runs (--stack); %s.toml: this machine as 2 ranks (--cluster)\n",
      out.c_str(), profile.records.size(), out.c_str());
  return 0;
}

}  // namespace tessera::cli
