#include "tessera/cli/commands/checkpoint_output.hpp"

#include <cstdio>
#include <filesystem>
#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/tools/summary.hpp"
#include "tessera/metrics/display/frame.hpp"

namespace tessera::cli {

checkpoint::Checkpoint opened_checkpoint(const std::string& folder, Links links) {
  if (!checkpoint::is_checkpoint(folder))
    if (const auto found = checkpoint::listed_checkpoints(folder); !found.empty())
      throw UserError(cat("'", folder, "' holds ", found.size(), " checkpoint", found.size() == 1 ? "" : "s",
                          " of a run; name one, the newest is '", found.front().folder.path, "'"));
  return checkpoint::Checkpoint(folder, links);
}

std::string size_text(std::uint64_t bytes) { return bytes_text(static_cast<double>(bytes)); }

void print_lines(const std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    metrics::StyledLine line;
    line.add(text.substr(begin, end - begin));
    std::puts(line.rendered(std::numeric_limits<int>::max(), false).c_str());
    begin = end + 1;
  }
  std::fflush(stdout);
}

}  // namespace tessera::cli
