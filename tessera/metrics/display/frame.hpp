// What a person who watches a run sees. The lines of the live display, as a function of what is known and of
// the terminal.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/metrics/display/styled_line.hpp"
#include "tessera/metrics/step_facts.hpp"

namespace tessera::metrics {

struct Canvas {
  int width = 80, height = 24;
  bool colours = true;
  bool unicode = true;  // block and braille characters; else ASCII
};

// What doesn't change during a run.
struct RunTitle {
  std::string name;
  std::string about;        // size and layout, in a line
  std::string place;        // where the numbers are written; may be empty
  std::string peak_source;  // how the peak that FLOP utilisation is a share of is known
  std::int64_t steps = 0;
  std::int64_t ranks = 1;
};

struct Watched {
  RunTitle title;
  std::optional<StepFacts> last;
  std::vector<double> losses;     // of all steps
  double since_step_seconds = 0;  // since the last step ended, or the run began
  std::string note;               // what was told last; may be empty
  std::string ending;             // empty: it goes on
};

// At most canvas.height - 1 lines, to be cut at canvas.width columns.
std::vector<StyledLine> frame(const Watched& watched, const Canvas& canvas);

}  // namespace tessera::metrics
