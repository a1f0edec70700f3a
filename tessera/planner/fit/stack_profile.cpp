#include "tessera/planner/fit/stack_profile.hpp"

#include <nlohmann/json.hpp>

#include "tessera/base/error.hpp"
#include "tessera/base/json_depth.hpp"

namespace tessera::planner {
namespace {

constexpr int kVersion = 1;

std::string table_of(const StackProfile& profile) {
  std::string out = profile.columns + "\n";
  for (const std::string& record : profile.records) out += record + "\n";
  return out;
}

}  // namespace

std::string to_json(const StackProfile& profile) {
  nlohmann::ordered_json out;
  out["tessera_stack_profile"] = kVersion;
  out["stack"] = profile.stack;
  const Fit fit = fit_of(profile);
  const auto intervals = fit.intervals();
  for (std::size_t i = 0; i < kKnobs.size(); ++i)
    out["constants"][kKnobs[i].name] = {{"value", intervals[i].seconds},
                                        {"low", intervals[i].low},
                                        {"high", intervals[i].high},
                                        {"multiplies", kKnobs[i].what}};
  out["columns"] = profile.columns;
  out["runs"] = profile.records;
  return out.dump(1) + "\n";
}

StackProfile parse_profile(std::string_view text, const std::string& name) {
  constexpr int kDeepest = 8;
  const auto refuse = [&](const std::string& why) -> UserError {
    return UserError(cat(name, " is no stack profile: ", why, ". tessera plan calibrate writes one."));
  };
  if (json_depth(text) > kDeepest) throw refuse("it is nested too deeply");
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("tessera_stack_profile"))
    throw refuse("it is no JSON object with tessera_stack_profile");
  if (json["tessera_stack_profile"] != kVersion) throw refuse(cat("its version is not ", kVersion));
  StackProfile out;
  try {
    out.stack = json.at("stack").get<std::string>();
    out.columns = json.at("columns").get<std::string>();
    out.records = json.at("runs").get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& error) {
    throw refuse(error.what());
  }
  return out;
}

Fit fit_of(const StackProfile& profile) {
  std::vector<MeasuredRun> runs;
  for (MeasuredRun& run : read_runs(table_of(profile), profile.stack))
    if (run.unusable.empty() && run.seconds > 0) runs.push_back(std::move(run));
  return Fit(std::move(runs));
}

}  // namespace tessera::planner
