#include <cstdio>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/folder/folder_lock.hpp"
#include "tessera/checkpoint/folder/save_request.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/metrics/field.hpp"

namespace tessera::cli {

int save_command(const Options& options) {
  const std::string& folder = options.checkpoint.folder;
  const auto is_running = [&] { return checkpoint::is_locked(folder); };
  const auto answer = checkpoint::ask_for_save(folder, is_running);
  if (answer.step == 0) throw UserError(cat("the job in '", folder, "' goes on, but ", answer.words));
  if (options.json)
    std::puts(metrics::json_object(metrics::Record{{"step", answer.step}, {"folder", answer.words}}).c_str());
  else
    std::puts(cat("saved step ", answer.step, " in ", answer.words).c_str());
  return 0;
}

}  // namespace tessera::cli
