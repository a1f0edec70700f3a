#include <cstdio>

#include "tessera/base/error.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/tensor/arena.hpp"
#include "tessera/train/servers/replay.hpp"

namespace tessera::cli {

int replay_command(const Options& options) {
  const spec::Run run = job::load_run(options);
  tensor::use_arena();
  const auto replayed = train::replay(run, train::read_update_log(options.replay));
  const metrics::Record record = {{"passed", replayed.passed()},
                                  {"updates", replayed.pushes},
                                  {"workers", replayed.workers},
                                  {"bits", replayed.bits},
                                  {"expected_bits", replayed.expected_bits},
                                  {"first_other", replayed.first_other ? *replayed.first_other : 0},
                                  {"most_ahead", replayed.most_ahead},
                                  {"mean_versions", replayed.mean_versions}};
  const std::string text = options.json ? metrics::json_object(record) + "\n" : train::to_text(replayed);
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  return replayed.passed() ? 0 : kExitNo;
}

}  // namespace tessera::cli
