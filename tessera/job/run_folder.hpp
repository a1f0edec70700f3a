// Where a run's files go when nobody says.
#pragma once

#include <span>
#include <string>

namespace tessera::job {

// runs/<name of the run file>, and after it what the command line changes of what is learnt: two runs of a
// sweep over training.learning_rate have a folder each. A run that goes on for more steps, on another layout
// or with other saves keeps its own.
std::string default_run_folder(const std::string& run_file, std::span<const std::string> overrides);

// Says that the command line makes this another run than the file's own, with both folders; empty if it does
// not.
std::string folder_note(const std::string& run_file, std::span<const std::string> overrides);

}  // namespace tessera::job
