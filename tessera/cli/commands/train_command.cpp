#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <memory>
#include <thread>

#include "tessera/base/bytes_moved.hpp"
#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/queued_writer.hpp"
#include "tessera/base/process/restart_log.hpp"
#include "tessera/base/text.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/folder/folder_lock.hpp"
#include "tessera/cli/commands/commands.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/families/families.hpp"
#include "tessera/job/joined.hpp"
#include "tessera/job/run_folder.hpp"
#include "tessera/job/start/start.hpp"
#include "tessera/job/warnings.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/metrics/step_facts.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/memory/memory.hpp"
#include "tessera/planner/variants/fixes.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/train/loop.hpp"
#include "tessera/train/servers/with_servers.hpp"

namespace tessera::cli {

namespace {

// What is over of the start, since the main of the process that the user started: this one, or its launcher;
// since the start of this process where the ranks were started again.
PhaseTimer start_of(const Options& options, const RestartLog* restarts) {
  if (!job::started_by_launcher()) return PhaseTimer(options.main_seconds);
  if (restarts && restarts->count() > 0) {
    PhaseTimer timer(process_start_seconds(getpid()));
    timer.end("loading", options.main_seconds);
    return timer;
  }
  const char* launcher = std::getenv(job::kStartedAt);
  PhaseTimer timer(launcher ? std::strtod(launcher, nullptr) : options.main_seconds);
  timer.end("launcher", process_start_seconds(getpid()));
  timer.end("loading", options.main_seconds);
  return timer;
}

// What was moved in a step, where anything was.
std::string moved_text(const BytesMoved& moved) {
  std::vector<std::vector<std::string>> rows = {{"a step moves, on rank 0", "", "calls", "arrays", "sent"}};
  const auto size = [](std::int64_t bytes) { return bytes_text(static_cast<double>(bytes)); };
  for (const MovedAlong& part : moved.along)
    rows.push_back({part.axes, part.kind, cat(part.calls), size(part.bytes), size(part.sent_bytes)});
  if (moved.offloaded > 0) rows.push_back({"memory", "offloaded", "", size(moved.offloaded), ""});
  if (moved.fetched > 0) rows.push_back({"memory", "fetched", "", size(moved.fetched), ""});
  return rows.size() == 1 ? "" : table(rows);
}

std::string restarts_text(std::int64_t restarts, double lost_seconds) {
  return restarts == 0 ? ""
                       : cat("started again ", restarts,
                             restarts == 1 ? " time: " : " times: ", duration_text(lost_seconds),
                             " lost (steps made again, waits and starts)\n");
}

std::string summary_text(const train::Summary& s, const spec::Run& run, const std::string& folder, bool json,
                         const RestartLog* log) {
  const std::int64_t restarts = log ? log->count() : 0;
  const double lost_seconds = log ? log->lost_seconds(now_seconds()) : 0;
  if (json) {
    std::vector<metrics::Record> start_parts;
    for (const auto& phase : s.start.phases())
      start_parts.push_back({{"name", phase.name}, {"seconds", phase.seconds}});
    metrics::Record record = {{"steps", s.steps},
                              {"resumed_after", s.resumed_after},
                              {"parameters", s.parameters},
                              {"ranks", s.ranks},
                              {"first_loss", s.first_loss},
                              {"last_loss", s.last_loss},
                              {"mean_loss_of_last_ten", s.mean_loss_of_last_ten},
                              {"tokens_per_second", s.tokens_per_second},
                              {"step_seconds", s.step_seconds},
                              {"seconds", s.seconds},
                              {"steps_not_taken", s.steps_not_taken},
                              {"restarts", restarts},
                              {"lost_seconds", lost_seconds},
                              {"incomplete", s.incomplete},
                              {"peak_bytes", s.peak_bytes},
                              {"moved", metrics::records_of(s.moved.along)},
                              {"offloaded_bytes", s.moved.offloaded},
                              {"fetched_bytes", s.moved.fetched},
                              {"start_seconds", s.start.total_seconds()},
                              {"start_parts", start_parts},
                              {"lossy", spec::lossy_text(run.layout)},
                              {"folder", folder}};
    if (s.evaluation)
      record.insert(record.end(),
                    {{"evaluation_loss", s.evaluation->loss},
                     {"evaluation_perplexity", s.evaluation->perplexity()},
                     {"evaluation_bits_per_byte",
                      s.evaluation->bits_per_byte().value_or(std::numeric_limits<double>::quiet_NaN())}});
    return metrics::json_object(record) + "\n";
  }
  const std::string lossy = spec::lossy_text(run.layout), again = restarts_text(restarts, lost_seconds);
  if (s.steps == 0 && s.resumed_after < run.training.steps)
    return cat("stopped before a step was made\n", again);
  if (s.steps == 0)
    return cat("nothing is left to train: ", s.resumed_after, " steps were made and are saved (", folder,
               "). A larger training.steps goes on from there, another --out begins anew.\n", again);
  return cat("trained ", s.steps, " steps in ", duration_text(s.seconds), ": loss ", fixed(s.first_loss, 4),
             " -> ", fixed(s.mean_loss_of_last_ten, 4), " (",
             s.steps > 10 ? "mean of the last ten" : "mean of all", "), ", count_text(s.tokens_per_second),
             " tokens/s\n", s.evaluation ? cat("evaluated: ", metrics::to_text(*s.evaluation), "\n") : "",
             again, moved_text(s.moved), lossy.empty() ? "" : cat("lossy traffic: ", lossy, "\n"),
             "metrics in ", folder, "/metrics.jsonl\n");
}

// Whether all was taken in time: a reader that takes nothing holds up neither a run that starts nor one that
// has ended.
bool print(const std::string& text, int descriptor, double patience_seconds) {
  QueuedWriter out({.descriptor = descriptor});
  out.write(text);
  return out.wait(patience_seconds);
}

// A trace shows the ops of a step that all ranks make.
void check_trace(const spec::Run& run, const Options& options) {
  if (options.trace.empty()) return;
  if (run.layout.updates != spec::Updates::synchronous)
    throw UserError(
        "--trace shows a step that all ranks make together, and with layout.updates = bounded or "
        "asynchronous there is none. Leave --trace out; updates.jsonl in the folder of the run says who "
        "updated when.");
  if (run.training.local_steps > 0)
    throw UserError(
        "--trace shows a step that all ranks make together, and with training.local_steps there is none. "
        "Leave --trace out.");
}

// By the process that the user started, or the first of those that another launcher did.
void tell_warnings(const spec::Run& run, const Options& options) {
  const auto joined = job::joined_membership(options.joins);
  if (job::started_by_launcher() || (joined && joined->rank != 0)) return;
  const int cores = joined ? 0 : static_cast<int>(std::thread::hardware_concurrency());
  for (const std::string& warning : job::warnings_of(run, cores, joined ? joined->started_by : ""))
    std::fputs(cat("warning: ", warning, "\n").c_str(), stderr);
  if (const std::string note = job::folder_note(options.file, options.overrides);
      options.out.empty() && !note.empty())
    std::fputs(cat("note: ", note, "\n").c_str(), stderr);
}

// With --json standard output belongs to the JSON object.
void tell_outlook(const job::Outlook& outlook, const spec::Run& run, const job::Start& start,
                  const std::string& name, const std::string& folder, const Options& options) {
  constexpr double kPatienceSeconds = 1;
  print(job::first_screen(outlook, run, start, name, folder), options.json ? STDERR_FILENO : STDOUT_FILENO,
        kPatienceSeconds);
}

}  // namespace

int train_command(Options options) {
  const spec::Run run = job::load_run(options);
  check_trace(run, options);
  tell_warnings(run, options);
  if (run.layout.memory_limit_mib > 0 && !job::started_by_launcher())
    planner::hold_to_memory_limit(run, plan::compile(families::step_request(run)));
  const std::string name = std::filesystem::path(options.file).stem().string();
  const std::string folder =
      options.out.empty() ? job::default_run_folder(options.file, options.overrides) : options.out;
  const std::string checkpoints =
      run.checkpoint.folder.empty() ? cat(folder, "/checkpoints") : run.checkpoint.folder;
  std::vector<checkpoint::NamedFolder> folders = {{folder, "--out"}};
  if (run.checkpoint.saves() || !run.checkpoint.folder.empty())
    folders.push_back({checkpoints, run.checkpoint.folder.empty() ? "--out" : "checkpoint.folder"});
  // Held by whoever lives longest: the launcher of local ranks, else the first rank, which tells the others
  // when it is refused.
  std::vector<std::unique_ptr<checkpoint::FolderLock>> locks;
  const auto lock = [&] {
    locks = checkpoint::lock_folders(folders);
    for (const auto& each : locks)
      if (!each->warning().empty()) std::fputs(cat("warning: ", each->warning(), "\n").c_str(), stderr);
  };
  const auto joined = job::joined_membership(options.joins);
  job::Start start = job::start_on_host(run, joined);
  start.checkpoints = checkpoints;
  start.from = options.from;
  start.trace = options.trace;
  if (!joined && !job::started_by_launcher()) {
    tell_outlook(job::expect_can_start(run, start), run, start, name, folder, options);
    lock();
  }
  const auto body = [&](const job::Rank& rank) {
    if (joined && joined->local_rank == 0) {
      const job::Outlook outlook = job::expect_can_start(run, start);
      if (joined->rank == 0) tell_outlook(outlook, run, start, name, folder, options);
    }
    if (joined && joined->rank == 0) lock();
    const bool is_together = run.layout.updates == spec::Updates::synchronous;
    // What this job has saved goes before what it began with.
    const bool resumes_own = rank.restarts && rank.restarts->is_own();
    const auto train_here = is_together ? train::train : train::train_with_servers;
    const auto summary = train_here(run, rank.communicator,
                                    {.name = name,
                                     .folder = folder,
                                     .trace = options.trace,
                                     .checkpoints = checkpoints,
                                     .from = resumes_own ? "" : options.from,
                                     .accepted = {.changed_data = options.accept_changed_data,
                                                  .reset_optimizer = options.reset_optimizer},
                                     .lines = !options.json,
                                     .resident_bytes = rank.resident_bytes,
                                     .peak_bytes = rank.peak_bytes,
                                     .start = start_of(options, rank.restarts),
                                     .log = rank.log,
                                     .attendance = rank.attendance,
                                     .stop = rank.stop,
                                     .restarts = rank.restarts});
    if (is_together ? rank.communicator.rank() != 0 : !summary.is_told_here) return;
    if (!print(summary_text(summary, run, folder, options.json, rank.restarts), STDOUT_FILENO,
               run.cluster.timeout_seconds / 2))
      std::fputs("warning: standard output takes nothing; the summary is lost\n", stderr);
    if (rank.restarts) rank.restarts->complete();
  };
  options.newest_state = [&checkpoints] { return checkpoint::newest_step(checkpoints); };
  return job::on_ranks(run, options, body, job::Stops::between_steps);
}

}  // namespace tessera::cli
