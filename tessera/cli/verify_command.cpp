#include "tessera/train/verify.hpp"

#include <cstdio>

#include "tessera/base/text.hpp"
#include "tessera/cli/commands.hpp"
#include "tessera/metrics/field.hpp"

namespace tessera::cli {

namespace {

constexpr int kExitNotEqual = 1;

std::string to_json(const train::Verification& v) {
  std::string tensors;
  for (const auto& c : v.comparisons) {
    const std::vector<metrics::Field> fields = {{"name", c.what},
                                                {"kind", c.kind},
                                                {"relative_error", c.error},
                                                {"zero_in_theory", std::int64_t{c.zero_in_theory}}};
    tensors += (tensors.empty() ? "" : ", ") + metrics::json_object(fields);
  }
  return cat("{\"passed\": ", v.passed(), ", \"worst_relative_error\": ", v.worst_relative_error,
             ", \"tolerance\": ", v.tolerance, ", \"replicas_bit_equal\": ", v.replicas_equal,
             ", \"ranks\": ", v.num_ranks, ", \"micro_batches\": ", v.num_micro,
             ", \"shrunk\": ", metrics::json_quoted(v.shrunk), ", \"tensors\": [", tensors, "]}");
}

}  // namespace

int verify_command(const Options& options) {
  spec::Run run = load_run(options);
  if (options.procs == 0) run.cluster.transport = spec::Transport::threads;
  bool passed = true;
  const int code = on_ranks(run, options, [&](const collective::Communicator& communicator) {
    const auto verification = train::verify(run, communicator);
    if (communicator.rank() != 0) return;
    passed = verification.passed();
    std::fputs(options.json ? (to_json(verification) + "\n").c_str() : train::to_text(verification).c_str(),
               stdout);
    std::fflush(stdout);
  });
  return code != 0 ? code : passed ? 0 : kExitNotEqual;
}

}  // namespace tessera::cli
