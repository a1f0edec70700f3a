#include <cstdio>
#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/cli/draw/draw_commands.hpp"
#include "tessera/draw/experts/experts_picture.hpp"
#include "tessera/metrics/expert_loads.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/metrics/out_file.hpp"

namespace tessera::cli {
namespace {

// The file and the folder of its run, not where these lie.
std::string source_of(const std::filesystem::path& path) {
  return (path.parent_path().filename() / path.filename()).string();
}

draw::LoadHistory history_of(const std::string& path) {
  draw::LoadHistory out;
  metrics::read_expert_loads(path, [&](const metrics::StepLoads& loads) {
    std::vector<draw::LayerTokens> layers;
    for (const metrics::ExpertLoad& each : loads.layers) layers.push_back({each.layer, each.tokens});
    out.add(loads.step, layers);
  });
  return out;
}

metrics::Record to_record(const draw::LoadHistory& history, const std::string& path) {
  const auto number = [](auto x) { return static_cast<std::int64_t>(x); };
  std::vector<metrics::Record> layers;
  for (const draw::WorstLoad& worst : history.worst_of_layers())
    layers.push_back({{"layer", worst.layer},
                      {"worst_load", worst.load},
                      {"expert", number(worst.expert)},
                      {"step", worst.step}});
  return {{"file", path},
          {"experts", number(history.num_experts())},
          {"steps", history.num_steps()},
          {"steps_per_column", history.steps_per_column()},
          {"experts_per_row", number(history.grid().experts_per_row)},
          {"last_worst_load", history.of_last_step().worst},
          {"last_mean_load", history.of_last_step().mean},
          {"layers", layers}};
}

}  // namespace

int draw_experts_command(const Options& options, const std::string& path) {
  if (options.file.empty() || !options.overrides.empty() || !options.simulate.schedule.empty() ||
      !options.draw.measured.empty() || options.draw.memory || options.draw.layout)
    throw UserError(
        "--experts draws the metrics.jsonl of a run: name it alone, without keys of a run file, --schedule, "
        "--measured, --memory or --layout");
  if (!path.ends_with(".svg"))
    throw UserError(cat("-o ", path, ": a picture of experts wants a name that ends in .svg"));
  const draw::ExpertsPicture picture{.source = source_of(options.file), .history = history_of(options.file)};
  const std::string text = draw::to_svg(picture);  // before the file is emptied
  metrics::OutFile(path, "-o").write(text);
  std::puts(options.json ? metrics::json_object(to_record(picture.history, path)).c_str()
                         : cat(picture.title(), "\n", picture.summary(), "\ndrawn in ", path).c_str());
  return 0;
}

}  // namespace tessera::cli
