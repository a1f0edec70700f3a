#include "tessera/job/ranks.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <optional>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/descriptor.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/files/queued_writer.hpp"
#include "tessera/base/process/activity.hpp"
#include "tessera/checkpoint/huggingface/tensor_files.hpp"
#include "tessera/collective/attendance.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/collective/transports/transports.hpp"
#include "tessera/families/families.hpp"
#include "tessera/job/connect.hpp"
#include "tessera/job/joined.hpp"
#include "tessera/job/rank_describer.hpp"
#include "tessera/launch/pin.hpp"
#include "tessera/launch/spawn.hpp"
#include "tessera/launch/store/key_client.hpp"
#include "tessera/launch/store/open_files.hpp"
#include "tessera/launch/store/peers.hpp"
#include "tessera/launch/watch/heartbeat.hpp"
#include "tessera/launch/watch/signals.hpp"
#include "tessera/launch/watch/status_board.hpp"
#include "tessera/launch/watch/watchdog.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/spec/problems.hpp"
#include "tessera/tensor/arena.hpp"
#include "tessera/tensor/tensor.hpp"
#include "tessera/tensor/told.hpp"

namespace tessera::job {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

using Body = std::function<void(const Rank&)>;

// Our launcher sets all of its variables or none.
[[noreturn]] void refuse_variable(const char* name) {
  const std::string found = environment(name);
  throw UserError(cat("TESSERA_STORE=", environment("TESSERA_STORE"),
                      " is for ranks that tessera starts itself, and ", name,
                      found.empty() ? " is not set" : cat(" is '", found, "'"),
                      ". Unset TESSERA_STORE; to join ranks on several hosts, set it to host:port."));
}

Descriptor handed_down(const char* name) {
  const std::string text = environment(name);
  if (!text.starts_with("fd:")) refuse_variable(name);
  return launch::inherited_descriptor(text.substr(3), name);
}

int number_handed_down(const char* name, int least, int most) {
  const std::string text = environment(name);
  int out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < least || out > most)
    refuse_variable(name);
  return out;
}

// Of the error under way, written down for whoever watches; returns its exit code.
int failed(ActivityLog& log) {
  const auto told = tensor::told(std::current_exception());
  log.fail(told.text, told.exit_code);
  return told.exit_code;
}

// Whoever waits for a rank that is gone is told so over sockets; a GPU would wait for ever.
bool replicas_may_be_lost(const spec::Run& run) {
  return run.training.local_steps > 0 && !spec::traits(run.cluster.transport).uses_gpus;
}

// Of a run that trains: as SpawnOptions has it.
std::function<std::optional<int>(int)> dispensable_part(const spec::Run& run) {
  if (run.layout.updates != spec::Updates::synchronous)
    return [layout = run.layout](int rank) { return layout.worker_of(rank); };
  if (!replicas_may_be_lost(run)) return {};
  // The first replica tells and saves.
  return [layout = run.layout](int rank) {
    const int replica = layout.replica_of(rank);
    return replica == 0 ? std::nullopt : std::optional(replica);
  };
}

launch::RankDescriber of_run(const spec::Run& run) {
  const auto compile = [replica = run.of_replica()] {
    return plan::compile(families::step_request(replica));
  };
  return run.training.local_steps > 0 ? describer_of_replicas(run.layout, compile) : describer_of(compile);
}

// Returns the exit code: the error is told by the launcher, which reads it from the board.
int join_launcher(const spec::Run& run, const Body& body, Stops stops) {
  const int size = number_handed_down("TESSERA_WORLD_SIZE", 1, std::numeric_limits<int>::max()),
            rank = number_handed_down("TESSERA_RANK", 0, size - 1);
  if (run.cluster.pin) launch::pin_threads(rank, size);
  tensor::set_threads(1);
  launch::StatusBoard board(handed_down("TESSERA_BOARD"), size);
  ActivityLog& log = board.log(rank);
  std::optional<launch::StopOnSignals> signals;
  if (stops == Stops::between_steps)
    signals.emplace(board.stop_request(), launch::StopOptions{.grace_seconds = 0, .tells = false});
  const launch::Heartbeat heartbeat(log);
  try {
    launch::KeyClient keys(handed_down("TESSERA_STORE"), rank);
    const auto peers = launch::local_peers(keys);
    // Our launcher starts the ranks of one machine: the rank is the local one.
    const auto connect_as = [&](const std::string& prefix) {
      return connect(run, {keys, *peers}, {.rank = rank, .size = size, .local_rank = rank, .prefix = prefix});
    };
    const std::string job = environment("TESSERA_JOB");
    const bool is_newcomer = !environment("TESSERA_NEWCOMER").empty();
    const auto communicator = connect_as(job);
    const collective::Attendance attendance{
        keys, [&](const std::string& name) { return connect_as(cat(job, "/", name)); }, is_newcomer};
    try {
      body({.communicator = *communicator,
            .log = &log,
            .stop = &board.stop_request(),
            .restarts = &board.restart_log(),
            .attendance = replicas_may_be_lost(run) ? &attendance : nullptr,
            .resident_bytes = [&board] { return board.resident_bytes(); },
            .peak_bytes = [&board] { return board.peak_bytes(); }});
    } catch (...) {
      return failed(log);  // before the connections end, or peers would seem to fail first
    }
    const During finished(&log, Doing::finished);
    return 0;
  } catch (...) {
    return failed(log);
  }
}

// Watches the ranks of this process, where nobody else does. One that hangs can't be ended by itself, so the
// process is.
class OwnWatch {
 public:
  OwnWatch(launch::StatusBoard& board, int num_ranks, double timeout_seconds, launch::RankDescriber describer)
      : watchdog_(num_ranks, timeout_seconds, std::move(describer), end_process),
        heartbeat_(board.log(0), [=, this, &board] {
          for (int rank = 0; rank < num_ranks; ++rank) {
            auto state = board.log(rank).state();
            state.beat_seconds = now_seconds();
            watchdog_.hear(rank, to_bytes(state, now_seconds()));
          }
        }) {}

 private:
  [[noreturn]] static void end_process(const std::string& message) {
    constexpr double kPatienceSeconds = 1;
    QueuedWriter errors({.descriptor = STDERR_FILENO});
    errors.write(message);
    errors.wait(kPatienceSeconds);
    _exit(kExitPeerLost);
  }

  launch::Watchdog watchdog_;
  launch::Heartbeat heartbeat_;
};

// Ranks of this process.
int run_here(const spec::Run& run, const Body& body, Stops stops) {
  const int ranks = static_cast<int>(run.layout.ranks());
  launch::StatusBoard board(ranks);
  std::optional<launch::StopOnSignals> signals;
  if (stops == Stops::between_steps)
    signals.emplace(board.stop_request(), launch::StopOptions{.grace_seconds = run.cluster.grace_seconds});
  const OwnWatch watch(board, ranks, run.cluster.timeout_seconds, of_run(run));
  const auto run_one = [&](const collective::Communicator& communicator) {
    ActivityLog& log = board.log(communicator.rank());
    body({.communicator = communicator,
          .log = &log,
          .stop = &board.stop_request(),
          .resident_bytes = [&board] { return std::vector{board.log(0).resident_bytes()}; },
          .peak_bytes = [&board] { return board.peak_bytes(); }});
    const During finished(&log, Doing::finished);
  };
  if (spec::traits(run.cluster.transport).uses_gpus) {
    MemoryKeyStore nobody;
    MemoryConnector no_peers;
    run_one(*connect(run, {nobody, no_peers}, {}));
  } else {
    collective::run_ranks(ranks, run_one);
  }
  return board.stop_request().exit_code();
}

// A file in memory that children inherit; it goes with the last of them.
Descriptor memory_file(const char* name, const std::string& text) {
  Descriptor out(memfd_create(name, 0));
  if (!out) throw UserError(cat("no memory to hand the run file to the ranks: ", system_reason()));
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = write(out.number(), text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR)
      throw UserError(cat("no memory to hand the run file to the ranks: ", system_reason()));
    if (n > 0) done += static_cast<std::size_t>(n);
  }
  return out;
}

// The run of a rank whose launcher has written it down. All ranks share the descriptor, so each opens the
// file anew to read from its start.
spec::Run run_handed_down(const std::string& name) {
  return spec::parse(file_text(cat("/proc/self/fd/", environment(kRun).substr(3))), name);
}

}  // namespace

// What would make the layout one of so many ranks.
std::string advice_for(const spec::Layout& layout, int given) {
  const std::int64_t others = layout.pp * layout.cp * layout.tp, dp = given / others - layout.servers;
  if (given % others != 0 || dp < 1)
    return cat("Start ", layout.ranks(), ". Other numbers must be multiples of pp * cp * tp = ", others,
               ", with the factor as layout.dp", layout.servers > 0 ? " and layout.servers together." : ".");
  return cat("Start ", layout.ranks(), ", or change the layout: layout.dp=", dp,
             layout.dp() > 1 ? " in the place of dp_replicate and dp_shard." : ".");
}

namespace {

spec::Run loaded(const JobOptions& options, const spec::Build& build,
                 const std::optional<launch::Membership>& joined) {
  if (started_by_launcher() && environment(kRun).starts_with("fd:")) return run_handed_down(options.file);
  spec::Run run = spec::load(options.file, options.overrides, checkpoint::described, build);
  const std::int64_t ranks = run.layout.ranks();
  if (joined && options.procs != 0)
    throw UserError(cat("--procs is given, but ", joined->started_by, " has already started ",
                        joined->world_size, " ranks. Leave --procs out."));
  const int given = joined ? joined->world_size : options.procs;
  if (given > 0 && ranks == 1) (run.layout.zero > 0 ? run.layout.dp_shard : run.layout.dp_replicate) = given;
  if (given > 0 && run.layout.ranks() != given)
    throw UserError(cat(joined ? joined->started_by + " started " : "--procs ", given,
                        joined ? " ranks, which" : "", " does not fit the layout of ", options.file,
                        ", which has ", ranks, " ranks (pp ", run.layout.pp, ", dp ", run.layout.dp(),
                        run.layout.servers > 0 ? cat(", servers ", run.layout.servers) : "", ", cp ",
                        run.layout.cp, ", tp ", run.layout.tp, "). ", advice_for(run.layout, given)));
  spec::validate(run, build);
  return run;
}

}  // namespace

spec::Run load_run(const JobOptions& options) {
  return loaded(options, collective::this_build(), joined_membership(options.joins));
}

spec::Run load_run(const JobOptions& options, const spec::Build& build) {
  return loaded(options, build, std::nullopt);
}

int on_ranks(const spec::Run& run, const JobOptions& options, const Body& body, Stops stops) {
  tensor::use_arena();
  launch::raise_open_files();
  std::signal(SIGPIPE, SIG_IGN);  // who read our output may leave: the training goes on
  if (started_by_launcher()) return join_launcher(run, body, stops);
  if (const auto joined = joined_membership(options.joins))
    return on_joined_rank(run, *joined, body, of_run(run), stops);
  const int ranks = static_cast<int>(run.layout.ranks());
  const bool restarts = stops == Stops::between_steps && options.newest_state && run.cluster.restarts > 0;
  if ((ranks == 1 && !restarts) || spec::traits(run.cluster.transport).is_one_process)
    return run_here(run, body, stops);
  setenv(kStartedAt, cat(options.main_seconds).c_str(), 1);
  launch::SpawnOptions spawn;
  spawn.num_ranks = ranks;
  spawn.command = options.argv;
  spawn.command.front() = "/proc/self/exe";
  spawn.job = cat("local-", getpid());
  spawn.timeout_seconds = run.cluster.timeout_seconds;
  spawn.describer = of_run(run);
  if (stops != Stops::between_steps) return launch::run_local_ranks(spawn);
  const Descriptor resolved = memory_file("tessera-run", spec::to_text(run));
  setenv(kRun, cat("fd:", resolved.number()).c_str(), 1);
  spawn.dispensable_part = dispensable_part(run);
  if (replicas_may_be_lost(run)) spawn.part_restarts = run.cluster.restarts;
  if (restarts) spawn.restarts = run.cluster.restarts;
  spawn.newest_state = options.newest_state;
  spawn.grace_seconds = run.cluster.grace_seconds;
  return launch::run_local_ranks(spawn);
}

}  // namespace tessera::job
