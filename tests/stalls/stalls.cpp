// Is a hang outside of steps noticed? Calls of the system that never return are put into real jobs by
// LD_PRELOAD (tests/faults) while they load weights, resume, save, close and open their data; standard output
// is a pipe that nobody reads.
//   stalls BINARY PRELOAD [tries per phase] [seed]        from the root of the tree
// Jobs have one rank, two, or two as threads in turns. A hang is named when a sentence says which rank was at
// what, within the time-out and a second of the last thing that began or ended on any rank, and the job ends;
// a standard output that takes nothing, when the job says so in that time, goes on training, and stops well
// when it is asked to. Exits with 1 when one is not.
#include <sys/ioctl.h>

#include <cstdio>
#include <fstream>

#include "tessera/base/random.hpp"
#include "tessera/base/statistics.hpp"
#include "tests/crashes/job.hpp"
#include "tests/failures/status_board_of.hpp"

namespace {

using namespace tessera;
using namespace tessera::crashes;

constexpr double kTimeoutSeconds = 3, kSlackSeconds = 1;
constexpr int kSteps = 6;
const std::vector<std::string> kPhases = {"load", "resume", "save", "close", "stdout", "data"};

enum class Ranks { one, processes, threads };

struct Trial {
  std::string phase, binary, preload;
  Ranks ranks = Ranks::one;
  int guilty = 0;
  fs::path folder;
};

// What the sentence must say.
std::string expected_words(const std::string& phase) {
  if (phase == "load") return "reading its starting weights";
  if (phase == "resume") return "reading the checkpoint";
  if (phase == "save") return "saving the checkpoint of step";
  if (phase == "close") return "closing its files";
  if (phase == "data") return "reading the data";
  return "standard output has taken nothing for 3.0 s";
}

Job job_of(const Trial& trial, int steps, const std::vector<std::string>& more) {
  Job job{{trial.binary, "train", kRunFile}, {}};
  const auto add = [&](const std::vector<std::string>& words) {
    job.command.insert(job.command.end(), words.begin(), words.end());
  };
  add(small_run(steps));
  add({"checkpoint.every=3", "--out", (trial.folder / "out").string(),
       cat("cluster.timeout_seconds=", kTimeoutSeconds)});
  if (trial.ranks == Ranks::processes) add({"--procs", "2"});
  if (trial.ranks == Ranks::threads) add({"layout.dp_replicate=2", "cluster.transport=threads"});
  add(more);
  return job;
}

// The call that hangs: the `at`-th on a path below `place` from the first that holds `from` on. In ranks as
// threads it is whichever comes to it.
void hang_at(Job& job, const Trial& trial, const fs::path& place, const std::string& from, int at) {
  job.environment["LD_PRELOAD"] = trial.preload;
  job.environment["TESSERA_FAULT_FOLDER"] = place.string();
  job.environment["TESSERA_FAULT_FROM"] = from;
  job.environment["TESSERA_FAULT_AT"] = cat(at);
  job.environment["TESSERA_FAULT_DOES"] = "hang";
  if (trial.ranks == Ranks::processes)
    job.environment["TESSERA_FAULT_WHERE"] = cat("TESSERA_RANK=", trial.guilty);
}

// One parameter file of the small run's model: what a run of one step saved.
fs::path exported_weights(const Trial& trial) {
  Trial alone = trial;
  alone.ranks = Ranks::one;
  const auto made = run(job_of(alone, 1, {}), trial.folder / "log");
  TESSERA_CHECK(made.code == 0, made.text);
  const fs::path step = checkpoint::step_folder(checkpoints_of(trial.folder / "out"), 1).path,
                 hf = trial.folder / "hf";
  const auto exported =
      run({{trial.binary, "checkpoint", "export", step.string(), hf.string()}, {}}, trial.folder / "log");
  TESSERA_CHECK(exported.code == 0, exported.text);
  fs::remove_all(trial.folder / "out");
  return hf / "model.safetensors";
}

// The number of the last write that the job counts: of the trace, at the end of an undisturbed run.
int last_write(Job job, const Trial& trial) {
  const fs::path report = trial.folder / "counted";
  job.environment["TESSERA_FAULT_REPORT"] = report.string();
  const auto undisturbed = run(job, trial.folder / "log");
  TESSERA_CHECK(undisturbed.code == 0, undisturbed.text);
  std::ifstream lines(report);
  std::string rank, call, path;
  int number = 0, last = 0;
  while (lines >> rank >> number >> call >> path)
    if (call.starts_with("write")) last = number;
  TESSERA_CHECK(last > 0, "nothing was written");
  return last;
}

Job prepared(const Trial& trial) {
  const fs::path out = trial.folder / "out";
  if (trial.phase == "load") {
    const fs::path weights = exported_weights(trial);
    Job job = job_of(trial, kSteps, {cat("model.weights=", weights.string())});
    hang_at(job, trial, weights.parent_path(), "model.safetensors", 1);
    return job;
  }
  if (trial.phase == "resume") {
    const auto before = run(job_of(trial, 3, {}), trial.folder / "log");
    TESSERA_CHECK(before.code == 0, before.text);
    Job job = job_of(trial, kSteps, {});
    hang_at(job, trial, out / "checkpoints", "manifest.json", 1);
    return job;
  }
  if (trial.phase == "data") {
    const fs::path data = trial.folder / "data" / "text";
    fs::create_directories(data.parent_path());
    std::ofstream(data) << std::string(100'000, 'x');
    Job job = job_of(trial, kSteps, {cat("data.path=", data.string())});
    hang_at(job, trial, data.parent_path(), "text", 1);
    return job;
  }
  if (trial.phase == "save") {
    Job job = job_of(trial, kSteps, {});
    hang_at(job, trial, out / "checkpoints", ".saving", 2);
    return job;
  }
  if (trial.phase == "close") {
    const fs::path trace = trial.folder / "trace" / "trace.json";
    fs::create_directories(trace.parent_path());
    Job job = job_of(trial, kSteps, {"--trace", trace.string()});
    hang_at(job, trial, trace, "", 0);
    const int at = last_write(job, trial);
    fs::remove_all(out);
    hang_at(job, trial, trace, "", at);
    return job;
  }
  return job_of(trial, 10'000'000, {"checkpoint.every=0"});
}

struct Result {
  double seconds = 0;
  bool named = false;
  std::string text;
};

Result watch_hang(const Trial& trial) {
  const Job job = prepared(trial);
  const fs::path log = trial.folder / "log", report = trial.folder / "report";
  Job reporting = job;
  reporting.environment["TESSERA_FAULT_REPORT"] = report.string();
  fs::remove(report);
  const int at = std::stoi(job.environment.at("TESSERA_FAULT_AT"));
  const pid_t process = start(reporting, log);
  // The counted call stands in the report when it begins.
  const auto has_hung = [&] { return std::ranges::count(file_text(report), '\n') >= at; };
  const double begun = now_seconds();
  while (!has_hung() && now_seconds() - begun < kPatienceSeconds && waitpid(process, nullptr, WNOHANG) == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  double hung = now_seconds();
  Result result;
  const int num_ranks = trial.ranks == Ranks::one ? 1 : 2;
  const auto board = status_board_of(process, num_ranks);
  while (file_text(log).find("no progress for") == std::string::npos &&
         now_seconds() - begun < kPatienceSeconds) {
    // The other rank may still get on: it starts, or comes to where it waits.
    for (int rank = 0; board && rank < num_ranks; ++rank)
      if (const double progress = board->log(rank).progress_seconds(); progress < now_seconds())
        hung = std::max(hung, progress);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  result.seconds = now_seconds() - hung;
  const int code = wait_for(process);
  result.text = file_text(log);
  const std::string rank = trial.ranks == Ranks::processes ? cat("rank ", trial.guilty, " ") : "rank ";
  const auto sentence = result.text.find("no progress for 3.0 s: ");
  result.named = code == kExitPeerLost && sentence != std::string::npos &&
                 result.text.find(rank, sentence) != std::string::npos &&
                 result.text.find(expected_words(trial.phase), sentence) != std::string::npos &&
                 result.seconds <= kTimeoutSeconds + kSlackSeconds;
  return result;
}

// The job says that nobody reads its lines, goes on, and stops well when it is asked to.
Result watch_stdout(const Trial& trial) {
  const Job job = prepared(trial);
  const fs::path log = trial.folder / "log", metrics = trial.folder / "out" / "metrics.jsonl";
  int ends[2];
  TESSERA_CHECK(pipe2(ends, O_CLOEXEC) == 0, "no pipe");
  fcntl(ends[1], F_SETPIPE_SZ, 4096);
  std::vector<char*> argv;
  for (const auto& word : job.command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t process = fork();
  if (process == 0) {
    setpgid(0, 0);
    dup2(ends[1], 1);
    dup2(open(log.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600), 2);
    execv(argv[0], argv.data());
    _exit(127);
  }
  const double begun = now_seconds();
  double taken = 0, told = 0;  // when the pipe last took something; when the job said that it takes nothing
  for (int before = 0, waiting = 0; told == 0 && now_seconds() - begun < kPatienceSeconds; before = waiting) {
    ioctl(ends[0], FIONREAD, &waiting);
    if (waiting != before) taken = now_seconds();
    if (file_text(log).find(expected_words("stdout")) != std::string::npos) told = now_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const auto num_steps = [&] { return std::ranges::count(file_text(metrics), '\n'); };
  const auto steps_then = num_steps();
  while (num_steps() <= steps_then + 2 && now_seconds() - begun < kPatienceSeconds)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  kill(process, SIGTERM);
  const int code = wait_for(process);
  close(ends[0]);
  close(ends[1]);
  Result result{.seconds = told - taken, .text = file_text(log)};
  const auto saved = checkpoint::step_folders(checkpoints_of(trial.folder / "out"));
  result.named = told > 0 && taken > 0 && result.seconds <= kTimeoutSeconds + kSlackSeconds &&
                 code == 128 + SIGTERM && !saved.empty() && saved.front().step == num_steps();
  return result;
}

Trial make_trial(const std::string& phase, int index, std::uint64_t seed, char** argv,
                 const fs::path& folder) {
  Trial trial{.phase = phase, .binary = argv[1], .preload = fs::absolute(argv[2]), .folder = folder};
  trial.ranks = static_cast<Ranks>((index + 1) % 3);
  if (trial.ranks == Ranks::processes && phase != "close")  // the first rank writes the trace
    trial.guilty = static_cast<int>(random_bits(seed, 0, static_cast<std::uint64_t>(index)) % 2);
  fs::remove_all(folder);
  fs::create_directories(folder);
  return trial;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::puts("usage: stalls BINARY PRELOAD [tries per phase] [seed]"), 2;
  const int tries = argc > 3 ? std::stoi(argv[3]) : 5;
  const std::uint64_t seed = argc > 4 ? std::stoull(argv[4]) : 1;
  std::string folder = (fs::temp_directory_path() / "stalls_XXXXXX").string();
  TESSERA_CHECK(mkdtemp(folder.data()), "no folder");
  std::vector<std::vector<std::string>> rows{
      {"hang in", "jobs", "named", "median s", "slowest s", "an example"}};
  int wrong = 0;
  for (const std::string& phase : kPhases) {
    std::vector<double> seconds;
    int named = 0;
    std::string example;
    for (int i = 0; i < tries; ++i) {
      const Trial trial = make_trial(phase, i, seed, argv, fs::path(folder) / "trial");
      const Result result = phase == "stdout" ? watch_stdout(trial) : watch_hang(trial);
      seconds.push_back(result.seconds);
      named += result.named;
      if (!result.named)
        std::printf("NOT NAMED: %s, ranks %d, after %.2f s:\n%s\n", phase.c_str(),
                    static_cast<int>(trial.ranks), result.seconds, result.text.c_str());
      std::fflush(stdout);
      const auto at = result.text.find(phase == "stdout" ? "warning: " : "no progress");
      if (example.empty() && at != std::string::npos)
        example = result.text.substr(at, result.text.find('\n', at) - at);
    }
    wrong += tries - named;
    rows.push_back({phase, cat(tries), cat(named), fixed(median(seconds), 2),
                    fixed(quantile(seconds, 1.0), 2), example});
  }
  std::printf("%stime-out %.0f s, named within %.0f s (seed %llu)\n", table(rows).c_str(), kTimeoutSeconds,
              kTimeoutSeconds + kSlackSeconds, static_cast<unsigned long long>(seed));
  fs::remove_all(folder);
  return wrong == 0 ? 0 : 1;
}
