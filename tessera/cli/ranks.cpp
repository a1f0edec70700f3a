#include <unistd.h>

#include <cstdlib>

#include "tessera/base/error.hpp"
#include "tessera/cli/commands.hpp"
#include "tessera/cli/connect.hpp"
#include "tessera/cli/joined.hpp"
#include "tessera/collective/nccl.hpp"
#include "tessera/collective/threads.hpp"
#include "tessera/launch/key_client.hpp"
#include "tessera/launch/pin.hpp"
#include "tessera/launch/spawn.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/spec/problems.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::cli {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

void join_launcher(const spec::Run& run, const std::function<void(const collective::Communicator&)>& body) {
  const int rank = std::stoi(environment("TESSERA_RANK"));
  const int size = std::stoi(environment("TESSERA_WORLD_SIZE"));
  if (run.cluster.pin) launch::pin_threads(rank, size);
  tensor::set_threads(1);
  launch::KeyClient keys(
      launch::inherited_descriptor(environment("TESSERA_STORE").substr(3), "TESSERA_STORE"), rank);
  // Our launcher starts the ranks of one machine: the rank is the local one.
  body(*connect(run, keys,
                {.rank = rank,
                 .size = size,
                 .local_rank = rank,
                 .prefix = cat(environment("TESSERA_JOB"), "/", environment("TESSERA_GENERATION"))}));
}

}  // namespace

bool started_by_launcher() { return environment("TESSERA_STORE").starts_with("fd:"); }

spec::Run load_run(const Options& options) {
  spec::Run run = spec::load(options.file, options.overrides);
  const spec::Build build{.nccl = collective::has_nccl()};
  spec::validate(run, build);  // before its sizes are multiplied
  const std::int64_t ranks = run.layout.ranks();
  const auto joined = joined_membership();
  if (joined && options.procs != 0)
    throw UserError(cat("--procs is given, but ", joined->started_by, " has already started ",
                        joined->world_size, " ranks. Leave --procs out."));
  const int given = joined ? joined->world_size : options.procs;
  if (given > 0 && ranks == 1) run.layout.dp_replicate = given;
  if (given > 0 && run.layout.ranks() != given)
    throw UserError(cat(joined ? joined->started_by + " started " : "--procs ", given,
                        joined ? " ranks, which" : "", " does not fit the layout of ", options.file,
                        ", which has ", ranks, " ranks (pp ", run.layout.pp, ", dp ", run.layout.dp(),
                        ", cp ", run.layout.cp, ", tp ", run.layout.tp,
                        "). Start as many, or change the layout, e.g. layout.dp_replicate=", given, "."));
  spec::validate(run, build);
  return run;
}

int on_ranks(const spec::Run& run, const Options& options,
             const std::function<void(const collective::Communicator&)>& body) {
  tensor::keep_freed_memory();
  if (started_by_launcher()) {
    join_launcher(run, body);
    return 0;
  }
  if (const auto joined = joined_membership()) {
    on_joined_rank(run, *joined, body);
    return 0;
  }
  const int ranks = static_cast<int>(run.layout.ranks());
  if (ranks == 1 && run.cluster.transport == spec::Transport::nccl) {
    MemoryKeyStore nobody;
    body(*connect(run, nobody, {}));
    return 0;
  }
  if (ranks == 1 || run.cluster.transport == spec::Transport::threads) {
    collective::run_ranks(ranks, body);
    return 0;
  }
  setenv(kStartedAt, cat(options.main_seconds).c_str(), 1);
  launch::SpawnOptions spawn;
  spawn.num_ranks = ranks;
  spawn.command = options.argv;
  spawn.command.front() = "/proc/self/exe";
  spawn.job = cat("local-", getpid());
  return launch::run_local_ranks(spawn);
}

}  // namespace tessera::cli
