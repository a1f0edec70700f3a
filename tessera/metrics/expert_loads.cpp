#include "tessera/metrics/expert_loads.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "tessera/base/error.hpp"
#include "tessera/base/files/mapped_file.hpp"
#include "tessera/base/json_depth.hpp"

namespace tessera::metrics {
namespace {

using LineJson = nlohmann::json;

constexpr int kMostDepthOfLine = 16;
constexpr double kMostTokens = 1e15;  // so that sums stay finite
constexpr std::int64_t kMostWhole = 1'000'000'000'000'000;

void expect_of_line(bool condition, const char* why) {
  if (!condition) throw UserError(why);
}

double counted(const LineJson& value, const char* why) {
  expect_of_line(value.is_number() && value.get<double>() >= 0 && value.get<double>() <= kMostTokens, why);
  return value.get<double>();
}

std::int64_t whole(const LineJson& object, const char* key, std::int64_t least, const char* why) {
  const auto found = object.find(key);
  expect_of_line(found != object.end() && found->is_number_integer(), why);
  const auto out = found->get<std::int64_t>();
  expect_of_line(out >= least && out <= kMostWhole, why);
  return out;
}

ExpertLoad load_of(const LineJson& layer) {
  expect_of_line(layer.is_object(), "has a layer of \"experts\" that is no object");
  ExpertLoad out{.layer = whole(layer, "layer", 0, "has \"experts\" without the number of their \"layer\"")};
  constexpr char kNoTokens[] = "has a layer of \"experts\" without a list of \"tokens\", numbers from 0 on";
  const auto tokens = layer.find("tokens");
  expect_of_line(tokens != layer.end() && tokens->is_array() && !tokens->empty(), kNoTokens);
  out.tokens.reserve(tokens->size());
  for (const LineJson& each : *tokens) out.tokens.push_back(counted(each, kNoTokens));
  if (const auto dropped = layer.find("dropped"); dropped != layer.end())
    out.dropped = counted(*dropped, "has a layer of \"experts\" whose \"dropped\" is no number from 0 on");
  return out;
}

// None of a line without experts, as of steps that a full disk has lost.
std::optional<StepLoads> loads_of(std::string_view line) {
  expect_of_line(json_depth(line) <= kMostDepthOfLine, "is nested too deeply");
  const LineJson json = LineJson::parse(line, nullptr, /*allow_exceptions=*/false);
  expect_of_line(json.is_object(), "is broken: it is no JSON object");
  StepLoads out{.step = whole(json, "step", 1, "has no \"step\", a number from 1 on")};
  const auto experts = json.find("experts");
  if (experts == json.end()) return std::nullopt;
  expect_of_line(experts->is_array() && !experts->empty(), "has \"experts\" that are no list of layers");
  for (const LineJson& layer : *experts) out.layers.push_back(load_of(layer));
  return out;
}

bool are_alike(const std::vector<ExpertLoad>& a, const std::vector<ExpertLoad>& b) {
  return std::ranges::equal(a, b, [](const ExpertLoad& x, const ExpertLoad& y) {
    return x.layer == y.layer && x.tokens.size() == y.tokens.size();
  });
}

}  // namespace

void read_expert_loads(const std::string& path, const std::function<void(const StepLoads&)>& take) {
  const MappedFile file(path);
  const std::string_view text = file.text();
  if (text.find_first_not_of(" \t\r\n") == text.npos)
    throw UserError(cat("'", path, "' is empty: no step has ended yet"));
  std::optional<StepLoads> last;
  std::size_t number = 1;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1, ++number) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    if (last && end == text.size() && !LineJson::accept(line)) break;
    try {
      std::optional<StepLoads> loads = loads_of(line);
      if (!loads) continue;
      if (last && loads->step <= last->step)
        throw UserError(cat("is of step ", loads->step, ", but stands after step ", last->step));
      if (last && !are_alike(loads->layers, last->layers))
        throw UserError("has other layers or experts than the lines before");
      last = std::move(loads);
    } catch (const UserError& error) {
      throw UserError(cat("'", path, "', line ", number, ": ", error.what(),
                          ". Give a metrics.jsonl as tessera train has written it."));
    }
    take(*last);
  }
  if (!last)
    throw UserError(cat("'", path, "': this run has no experts; no line has \"experts\" with their loads. ",
                        "Give the metrics.jsonl of a model with model.experts above 0."));
}

}  // namespace tessera::metrics
