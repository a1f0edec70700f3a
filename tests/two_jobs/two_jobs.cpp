// Checks what happens when two jobs are given one folder. Jobs of `tessera train` are started in pairs:
//   - the second into the folder of the first, or both at once: one must continue, and the other be refused
//     soon and with the name of the holder; then the holder is killed, and what it left must not delay the
//     next pair;
//   - both with a lock that keeps nobody out (tests/faults/preload.cpp), as on a file system without locks:
//     they save every step into one folder, and every checkpoint that is found there, while they run and at
//     the end, must be whole.
//   two_jobs BINARY LIBRARY [pairs] [commits] [seconds]      from the root of the tree
// `seconds` is how soon the refused job must have ended. Exits with 1 when any of this does not hold.
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <optional>

#include "tessera/checkpoint/folder/folder_lock.hpp"
#include "tests/crashes/job.hpp"

namespace {

using namespace tessera;
using namespace tessera::crashes;

struct Trial {
  std::string binary, library;
  fs::path folder;
  double bound_seconds = 1;
};

struct Pairs {
  const char* name;
  std::vector<std::string> options;  // of both jobs
  bool at_once = false;
  bool shares_checkpoints_only = false;
  int tried = 0, refused = 0, named = 0, late = 0, held_up = 0;
  double slowest_seconds = 0, most_processor_seconds = 0;  // of the refused job, from its start to its end
};

Job forever(const Trial& trial, const fs::path& out, const std::vector<std::string>& more) {
  Job job = training(trial.binary, out, 1'000'000, {"cluster.timeout_seconds=60"});
  job.command.insert(job.command.end(), more.begin(), more.end());
  return job;
}

bool wait_until(const std::function<bool()>& is_so) {
  const double begun = now_seconds();
  while (!is_so()) {
    if (now_seconds() - begun > kPatienceSeconds) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// Of all children that were waited for.
double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

bool has_ended(pid_t job) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(job), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == job;
}

bool holds(pid_t job, const fs::path& folder) {
  return file_text(folder / checkpoint::kLockName).find(cat("process ", job, " ")) != std::string::npos;
}

void try_pair(const Trial& trial, Pairs& pairs) {
  const fs::path out = trial.folder / "out",
                 other = pairs.shares_checkpoints_only ? trial.folder / "other" : out;
  std::vector<std::string> options = pairs.options;
  if (pairs.shares_checkpoints_only)
    options.push_back("checkpoint.folder=" + (trial.folder / "shared").string());
  const fs::path shared = pairs.shares_checkpoints_only ? trial.folder / "shared" : out;
  const fs::path logs[] = {trial.folder / "first", trial.folder / "second"};
  ++pairs.tried;
  pid_t jobs[2] = {start(forever(trial, out, options), logs[0]), 0};
  bool is_taken = true;
  if (!pairs.at_once) is_taken = wait_until([&] { return holds(jobs[0], shared) || has_ended(jobs[0]); });
  const double begun = now_seconds();
  jobs[1] = start(forever(trial, other, options), logs[1]);
  const bool one_ends = wait_until([&] { return has_ended(jobs[0]) || has_ended(jobs[1]); });
  const double seconds = now_seconds() - begun;
  const int refused = has_ended(jobs[1]) ? 1 : 0, holder = 1 - refused;
  if (!is_taken || !one_ends || has_ended(jobs[holder]) || !holds(jobs[holder], shared)) ++pairs.held_up;
  if (has_ended(jobs[refused])) {
    const double before = processor_seconds();
    const int code = wait_for(jobs[refused]);
    pairs.most_processor_seconds = std::max(pairs.most_processor_seconds, processor_seconds() - before);
    const std::string text = file_text(logs[refused]);
    pairs.refused += code == kExitUserError;
    pairs.named += text.find(cat("is in use by process ", jobs[holder], " of user ")) != std::string::npos;
    if (code != kExitUserError) std::printf("%s: exit code %d: %s\n", pairs.name, code, text.c_str());
  }
  pairs.slowest_seconds = std::max(pairs.slowest_seconds, seconds);
  pairs.late += seconds > trial.bound_seconds;
  for (const int i : {holder, refused}) {
    kill(-jobs[i], SIGKILL);
    if (i == holder || !one_ends) wait_for(jobs[i]);
  }
  std::fflush(stdout);
}

// Checkpoints of two jobs that the lock did not keep apart.
struct Commits {
  int rounds = 0, said = 0, looked_at = 0, torn = 0, given_up = 0, ended = 0;
  std::set<std::pair<std::int64_t, ino_t>> seen;  // of this round
};

std::optional<ino_t> inode_of(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0 ? std::optional(found.st_ino) : std::nullopt;
}

// One that is taken away meanwhile proves nothing.
void look_at_all(const std::string& checkpoints, Commits& commits) {
  for (const auto& [step, path] : checkpoint::step_folders(checkpoints)) {
    const auto inode = inode_of(path);
    if (!inode || !commits.seen.emplace(step, *inode).second) continue;
    const std::string complaint = complaint_of([&] { content_of(path); });
    if (inode_of(path) != inode) continue;
    ++commits.looked_at;
    commits.torn += !complaint.empty();
    if (!complaint.empty()) std::printf("torn: %s\n", complaint.c_str());
  }
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

void run_unlocked(const Trial& trial, Commits& commits) {
  constexpr int kSteps = 60;
  const fs::path out = trial.folder / "unlocked", logs[] = {trial.folder / "first", trial.folder / "second"};
  fs::remove_all(out);
  commits.seen.clear();
  pid_t jobs[2];
  for (const int i : {0, 1}) {
    Job job = training(trial.binary, out, kSteps, {cat("checkpoint.keep_last=", 2 * (commits.rounds % 2))});
    job.environment = {{"LD_PRELOAD", trial.library}, {"TESSERA_FAULT_LOCKS", "granted"}};
    jobs[i] = start(job, logs[i]);
  }
  const double begun = now_seconds();
  while ((!has_ended(jobs[0]) || !has_ended(jobs[1])) && now_seconds() - begun < kPatienceSeconds)
    look_at_all(checkpoints_of(out), commits);
  for (const int i : {0, 1}) {
    const int code = wait_for(jobs[i]);
    const std::string text = file_text(logs[i]);
    // The other job may have taken the place of the last checkpoint, attempt by attempt.
    const bool ends_badly = code != 0 && text.find("the last of this run, could not be saved") == text.npos;
    commits.ended += ends_badly;
    if (ends_badly) std::printf("ended with %d: %s\n", code, text.c_str());
    commits.said += count_of(text, "saved the checkpoint of step");
    commits.given_up += count_of(text, "it is given up");
  }
  look_at_all(checkpoints_of(out), commits);
  ++commits.rounds;
  std::fflush(stdout);
}

// Where there are no locks, that is said, and the job goes on.
bool is_told_without_locks(const Trial& trial) {
  Job job = training(trial.binary, trial.folder / "without", 2);
  job.environment = {{"LD_PRELOAD", trial.library}, {"TESSERA_FAULT_LOCKS", "none"}};
  const Ended ended = run(job, trial.folder / "log");
  const bool told = ended.text.find("is not known, as its file system has no locks") != std::string::npos;
  std::printf("without locks: exit code %d, %s\n", ended.code, told ? "told" : "NOT told");
  return ended.code == 0 && told;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::puts("usage: two_jobs BINARY LIBRARY [pairs] [commits] [seconds]"), 2;
  Trial trial{.binary = argv[1], .library = argv[2]};
  const int wanted_pairs = argc > 3 ? std::stoi(argv[3]) : 200,
            wanted_commits = argc > 4 ? std::stoi(argv[4]) : 1000;
  if (argc > 5) trial.bound_seconds = std::stod(argv[5]);
  std::string folder = (fs::canonical(fs::temp_directory_path()) / "two_jobs_XXXXXX").string();
  TESSERA_CHECK(mkdtemp(folder.data()), "no folder");
  trial.folder = folder;

  const std::vector<std::string> threads = {"cluster.transport=threads"};
  Pairs all[] = {{"one process each, one after the other", threads},
                 {"two ranks each, one after the other", {}},
                 {"one checkpoint.folder, other --out", {}, false, true},
                 {"two ranks each, at once", {}, true}};
  for (int i = 0; i < wanted_pairs; ++i) try_pair(trial, all[i % std::ssize(all)]);
  std::vector<std::vector<std::string>> rows{{"two jobs", "pairs", "refused", "holder named", "slowest s",
                                              "most processor s", cat("over ", trial.bound_seconds, " s"),
                                              "held up"}};
  int wrong = 0;
  for (const Pairs& each : all) {
    rows.push_back({each.name, cat(each.tried), cat(each.refused), cat(each.named),
                    fixed(each.slowest_seconds, 2), fixed(each.most_processor_seconds, 2), cat(each.late),
                    cat(each.held_up)});
    wrong += each.tried - each.refused + each.tried - each.named + each.late + each.held_up;
  }
  std::printf("%s", table(rows).c_str());
  std::fflush(stdout);

  if (wanted_commits > 0 && !is_told_without_locks(trial)) ++wrong;
  Commits commits;
  while (commits.said < wanted_commits && commits.ended == 0) run_unlocked(trial, commits);
  std::printf(
      "with a lock that keeps nobody out: %d commits in %d rounds, %d of them looked at, %d torn, %d saves "
      "given up, %d jobs ended\n",
      commits.said, commits.rounds, commits.looked_at, commits.torn, commits.given_up, commits.ended);
  wrong += commits.torn + commits.ended + commits.given_up + (commits.said < wanted_commits ? 1 : 0);
  if (wrong == 0) fs::remove_all(folder);
  return wrong == 0 ? 0 : 1;
}
