#include <cstdio>

#include "tessera/base/error.hpp"
#include "tessera/cli/commands/simulated.hpp"
#include "tessera/cli/draw/draw_commands.hpp"
#include "tessera/cli/draw/traced.hpp"
#include "tessera/draw/memory_picture.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/spec/choice_names.hpp"

namespace tessera::cli {
namespace {

std::string drawn(const draw::MemoryPicture& picture, const std::string& path) {
  if (path.ends_with(".svg")) return draw::to_svg(picture);
  if (path.ends_with(".html")) return draw::to_html(picture);
  throw UserError(cat("-o ", path, ": a picture of memory wants a name that ends in .svg or .html"));
}

}  // namespace

int draw_memory_command(const Options& options, const std::string& path) {
  if (is_trace(options.file) || options.file.empty() || !options.draw.measured.empty())
    throw UserError("--memory draws what a run file would hold: name one, without --schedule or --measured");
  const Simulated simulated = simulated_of(options);
  const auto timeline = simulate::simulate(simulated.program, simulated.costs);
  auto picture = draw::memory_picture(simulated.program, timeline, simulated.layout.memory_limit_mib << 20);
  const spec::Layout& layout = simulated.layout;
  picture.title =
      cat("memory of ", layout.ranks(), layout.ranks() == 1 ? " rank" : " ranks", ", zero ", layout.zero,
          ", recompute ", spec::word(layout.recompute), ", ", simulated.num_micro, " micro-batches",
          layout.pp > 1 ? cat(", ", layout.pp, " stages by ", simulated.name) : "");
  picture.notes.push_back(cat("Bytes from shapes alone. Costs: ", simulated.costs_text));
  const std::string text = drawn(picture, path);
  metrics::OutFile(path, "-o").write(text);
  std::vector<metrics::Record> panels;
  for (const auto& panel : picture.panels) {
    panels.push_back({{"title", panel.title}, {"peak_bytes", panel.peak_bytes}, {"peak", panel.peak_text}});
    if (!options.json) std::puts(cat(panel.title, ": ", panel.peak_text).c_str());
  }
  std::puts(options.json ? metrics::json_object(metrics::Record{{"file", path}, {"panels", panels}}).c_str()
                         : cat("drawn in ", path).c_str());
  return 0;
}

}  // namespace tessera::cli
