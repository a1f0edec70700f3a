// What is lost when a job is told to stop? SIGTERM, SIGHUP, SIGUSR1 and SIGINT are sent to real jobs of two
// ranks while they train, to one process of them or to all.
//   signals BINARY {local | all | torchrun | mpirun | srun} TRIALS ...     from the root of the tree
// local: to the launcher of `tessera train --procs`, to one rank, or to both in turns; all: to every process
// of a job that tessera, torchrun or mpirun started, as systemd does; torchrun, mpirun: to that program;
// srun: to the step by scancel, or to srun (within tests/slurm/with-slurm). Signals come in turns. Exits with
// 1 when a finished step was lost, a job outlived its grace or left processes behind, or its exit code is not
// 128 + the signal where the code is ours to choose.
#include <sys/prctl.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "tessera/base/random.hpp"
#include "tessera/base/statistics.hpp"
#include "tests/crashes/job.hpp"

namespace {

using namespace tessera;
using namespace tessera::crashes;

constexpr double kGraceSeconds = 30, kStartSeconds = 300;
constexpr int kSignals[] = {SIGTERM, SIGHUP, SIGUSR1, SIGINT};
enum class By { local, torchrun, mpirun, srun };

std::vector<std::string> starter(By by) {
  switch (by) {
    case By::local:
      return {};
    case By::torchrun:
      return {".venv/bin/python",    ".venv/bin/torchrun",
              "--standalone",        "--no-python",
              "--nproc-per-node",    "2",
              "--signals-to-handle", "SIGTERM,SIGINT,SIGHUP,SIGUSR1"};
    case By::mpirun:
      // Its ranks have so long between SIGTERM and SIGKILL, and it waits that long even when they have ended.
      return {"/usr/bin/mpirun",
              "--allow-run-as-root",
              "--oversubscribe",
              "--mca",
              "odls_base_sigkill_timeout",
              "5",
              "-n",
              "2"};
    case By::srun:
      return {"/usr/bin/srun", "--disable-status", "-n", "2"};
  }
  return {};
}

Job job_of(By by, const std::string& binary, const fs::path& out) {
  Job job{starter(by), {}};
  const auto add = [&](const std::vector<std::string>& words) {
    job.command.insert(job.command.end(), words.begin(), words.end());
  };
  add({binary, "train", kRunFile});
  add(small_run(10'000'000));
  add({"checkpoint.every=0", "--out", out.string(), cat("cluster.grace_seconds=", kGraceSeconds)});
  if (by == By::local) add({"--procs", "2"});
  return job;
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> out;
  std::istringstream text(file_text(cat("/proc/", parent, "/task/", parent, "/children")));
  for (pid_t child; text >> child;) out.push_back(child);
  return out;
}

// Parents first.
std::vector<pid_t> tree_of(pid_t root) {
  std::vector<pid_t> out{root};
  for (std::size_t i = 0; i < out.size(); ++i)
    for (const pid_t child : children_of(out[i])) out.push_back(child);
  return out;
}

std::int64_t steps_told(const fs::path& out) {
  const std::string text = file_text(out / "metrics.jsonl");
  return std::ranges::count(text, '\n');
}

struct Trial {
  std::string column;
  By by = By::local;
  int signal = SIGTERM;
  std::uint64_t index = 0, seed = 1;
};

void send(const Trial& trial, pid_t job) {
  const auto ranks = children_of(job);
  if (trial.column == "all") {
    for (const pid_t process : tree_of(job)) kill(process, trial.signal);
  } else if (trial.column == "local" && trial.index / 4 % 3 != 0 && !ranks.empty()) {
    kill(ranks[random_bits(trial.seed, trial.index, 1) % ranks.size()], trial.signal);
    if (trial.index / 4 % 3 == 2) kill(job, trial.signal);
  } else if (trial.by == By::srun && trial.signal == SIGTERM && trial.index / 4 % 2 == 0) {
    std::system("scancel --user=$(id -un)");
  } else if (trial.by == By::srun &&
             (trial.index / 4 % 2 == 0 || trial.signal == SIGTERM || trial.signal == SIGHUP)) {
    // srun itself answers SIGTERM and SIGHUP by killing its tasks.
    std::system(cat("scancel --signal=", trial.signal, " --user=$(id -un)").c_str());
  } else {
    kill(job, trial.signal);
  }
}

struct Result {
  std::int64_t made = 0, saved = 0;
  double seconds = 0;  // from the signal to the end
  int code = 0;
  std::string problem;
};

Result run_trial(const Trial& trial, const std::string& binary, const fs::path& folder) {
  const fs::path out = folder / "out", log = folder / "log";
  fs::remove_all(out);
  const pid_t job = start(job_of(trial.by, binary, out), log);
  const double begun = now_seconds();
  while (steps_told(out) < 3) {
    TESSERA_CHECK(waitpid(job, nullptr, WNOHANG) == 0 && now_seconds() - begun < kStartSeconds,
                  "the job did not train: ", file_text(log));
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  std::this_thread::sleep_for(std::chrono::microseconds(random_bits(trial.seed, trial.index, 0) % 300'000));
  Result result;
  const double struck = now_seconds();
  send(trial, job);
  result.code = wait_for(job);
  // torchrun may end before its ranks do; they come to this process, which is a subreaper.
  while (!children_of(getpid()).empty() && now_seconds() - struck < kPatienceSeconds)
    if (waitpid(-1, nullptr, WNOHANG) <= 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  result.seconds = now_seconds() - struck;
  result.made = steps_told(out);
  const auto saved = checkpoint::step_folders(checkpoints_of(out));
  if (!saved.empty()) result.saved = saved.front().step;
  if (!saved.empty()) result.problem = complaint_of([&] { content_of(saved.front().path); });
  if (result.saved != result.made) result.problem += cat(" ", result.made - result.saved, " steps lost");
  if (result.seconds > kGraceSeconds) result.problem += " late";
  for (const pid_t left : children_of(getpid())) {
    result.problem += " a process is left";
    kill(left, SIGKILL);
    waitpid(left, nullptr, 0);
  }
  const bool is_ours = trial.by == By::local;
  if (is_ours && result.code != 128 + trial.signal) result.problem += cat(" exit code ", result.code);
  if (!result.problem.empty())
    std::printf("%s, signal %d, trial %llu:%s\n%s\n", trial.column.c_str(), trial.signal,
                static_cast<unsigned long long>(trial.index), result.problem.c_str(),
                file_text(log).substr(0, 4000).c_str());
  std::fflush(stdout);
  return result;
}

By by_of(const std::string& column, std::uint64_t index) {
  if (column == "torchrun") return By::torchrun;
  if (column == "mpirun") return By::mpirun;
  if (column == "srun") return By::srun;
  constexpr By kInTurns[] = {By::local, By::torchrun, By::mpirun};
  return column == "all" ? kInTurns[index / 4 % 3] : By::local;
}

// Adds rows, one for each signal; returns how many trials went wrong.
int run_column(const std::string& column, std::uint64_t trials, const std::string& binary,
               const fs::path& folder, std::vector<std::vector<std::string>>& rows) {
  int wrong = 0;
  struct Tally {
    std::int64_t lost = 0, made = 0;
    std::vector<double> seconds;
    std::map<int, int> codes;
    int wrong = 0;
  };
  std::map<int, Tally> tallies;
  for (std::uint64_t i = 0; i < trials; ++i) {
    const Trial trial{column, by_of(column, i), kSignals[i % 4], i};
    const Result result = run_trial(trial, binary, folder);
    Tally& tally = tallies[trial.signal];
    tally.lost += result.made - result.saved;
    tally.made += result.made;
    tally.seconds.push_back(result.seconds);
    ++tally.codes[result.code];
    tally.wrong += !result.problem.empty();
    wrong += !result.problem.empty();
  }
  for (const auto& [signal, tally] : tallies) {
    std::vector<std::string> codes;
    for (const auto& [code, times] : tally.codes) codes.push_back(cat(code, " x ", times));
    rows.push_back({column, cat("SIG", sigabbrev_np(signal)), cat(tally.seconds.size()), cat(tally.made),
                    cat(tally.lost), fixed(median(tally.seconds), 2), fixed(quantile(tally.seconds, 1.0), 2),
                    join(codes, ", "), cat(tally.wrong)});
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4 || argc % 2 != 0)
    return std::puts("usage: signals BINARY {local | all | torchrun | mpirun | srun} TRIALS ..."), 2;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  for (const int signal : kSignals) ::signal(signal, SIG_DFL);  // a shell in the background ignores some
  std::string folder = (fs::temp_directory_path() / "signals_XXXXXX").string();
  TESSERA_CHECK(mkdtemp(folder.data()), "no folder");
  std::vector<std::vector<std::string>> rows{{"sent to", "signal", "trials", "steps finished", "steps lost",
                                              "median s", "slowest s", "exit codes", "wrong"}};
  int wrong = 0;
  for (int i = 2; i + 1 < argc; i += 2) {
    wrong += run_column(argv[i], std::stoull(argv[i + 1]), argv[1], folder, rows);
    std::printf("%s\n", table(rows).c_str());
    std::fflush(stdout);
  }
  fs::remove_all(folder);
  return wrong == 0 ? 0 : 1;
}
