#include "tessera/verify/verify.hpp"

#include <cstdio>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/spec/choice_names.hpp"

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

int tell(const train::Verification& verification, const Options& options) {
  const std::string text = options.json ? metrics::json_object(to_record(verification)) + "\n"
                                        : train::to_text(verification) + options.device.report();
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  return verification.passed() ? 0 : kExitNo;
}

}  // namespace

void check_has_order(const spec::Run& run) {
  if (run.layout.updates != spec::Updates::synchronous)
    throw UserError(
        cat("what a run with layout.updates = ", spec::word(run.layout.updates),
            " comes to depends on who pushes first, so it is compared with its own log: tessera verify "
            "FOLDER/run.toml --replay FOLDER/updates.jsonl. What it computes is verified with "
            "layout.updates=synchronous."));
  if (run.training.local_steps > 0)
    throw UserError(
        "one device makes no local steps by several replicas. The layout of a replica is verified with "
        "training.local_steps=0.");
}

int verify_command(const Options& options) {
  spec::Run run = job::load_run(options);
  check_has_order(run);
  if (!options.device.name.empty())
    return tell(train::verify_on_threads(run, {}, options.device.run_ranks(options.layouts.seed),
                                         options.verify_steps),
                options);
  if (!spec::traits(run.cluster.transport).uses_gpus)
    run.cluster.transport = options.procs == 0 ? spec::Transport::threads : spec::Transport::sockets;
  int verdict = 0;
  const int code = job::on_ranks(run, options, [&](const job::Rank& rank) {
    const auto verification = train::verify(run, rank.communicator, options.verify_steps);
    if (rank.communicator.rank() == 0) verdict = tell(verification, options);
  });
  return code != 0 ? code : verdict;
}

}  // namespace tessera::cli
