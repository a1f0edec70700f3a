#include "tessera/verify/verify.hpp"

#include <cstdio>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/metrics/field.hpp"

namespace tessera::cli {

namespace {

metrics::Record to_record(const train::Verification& v) {
  std::vector<metrics::Record> tensors;
  for (const auto& c : v.comparisons)
    tensors.push_back({{"name", c.what},
                       {"kind", c.kind},
                       {"relative_error", c.error},
                       {"zero_in_theory", c.zero_in_theory},
                       {"finite", c.is_finite}});
  return {{"passed", v.passed()},
          {"worst_relative_error", v.worst_relative_error},
          {"tolerance", v.tolerance},
          {"replicas_bit_equal", v.replicas_equal},
          {"numbers_equal", v.numbers_equal},
          {"ranks", v.num_ranks},
          {"micro_batches", v.num_micro},
          {"schedule", v.schedule},
          {"bits", v.bits},
          {"shrunk", v.shrunk},
          {"fault", v.fault},
          {"tensors", tensors}};
}

}  // namespace

int verify_command(const Options& options) {
  spec::Run run = job::load_run(options);
  run.cluster.transport = options.procs == 0 ? spec::Transport::threads : spec::Transport::sockets;
  bool passed = true;
  const int code = job::on_ranks(run, options, [&](const job::Rank& rank) {
    const auto verification = train::verify(run, rank.communicator);
    if (rank.communicator.rank() != 0) return;
    passed = verification.passed();
    std::fputs(
        (options.json ? metrics::json_object(to_record(verification)) + "\n" : train::to_text(verification))
            .c_str(),
        stdout);
    std::fflush(stdout);
  });
  return code != 0 ? code : passed ? 0 : kExitNo;
}

}  // namespace tessera::cli
