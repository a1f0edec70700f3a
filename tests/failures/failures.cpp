// Checks what happens when a rank dies or hangs. Ranks of real `tessera train` jobs are killed (SIGKILL) or
// stopped (SIGSTOP) at instants spread over rendezvous, forward, backward, collective and optimizer; then the
// same is done to torchrun.
//   failures BINARY [tries per kind] [torchrun's tries per kind] [seed]      from the root of the tree
// Exits with 1 when a job of Tessera ended late, named another rank, or left something behind.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/random.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/program/ir/types.hpp"
#include "tessera/spec/load.hpp"
#include "tests/failures/status_board_of.hpp"

namespace {

using namespace tessera;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int kRanks = 4;
constexpr double kTimeoutSeconds = 2.0;
constexpr double kLimitSeconds = 3.0;
const char* const kConfig = "examples/tiny.toml";
enum class Phase { rendezvous, forward, backward, collective, optimizer };
constexpr const char* kPhases[] = {"rendezvous", "forward", "backward", "collective", "optimizer"};

struct Try {
  int signal = SIGKILL;
  Phase phase = Phase::forward;
  int rank = 0;
  double delay_seconds = 0;
};

Try make_try(int signal, std::uint64_t index, std::uint64_t seed) {
  const auto draw = [&](std::uint64_t i) {
    return random_bits(seed, static_cast<std::uint64_t>(signal) << 32 | index, i);
  };
  return {signal, static_cast<Phase>(index % 5), static_cast<int>(draw(0) % kRanks),
          static_cast<double>(draw(1) % 1000) * 0.5e-3};
}

struct Result {
  double seconds = 0;  // from the strike to the end of the job
  int code = 0;
  bool named = false;
  int orphans = 0;
  std::string left, text;
};

pid_t start(const std::vector<std::string>& command, const fs::path& errors) {
  std::vector<char*> argv;
  for (const auto& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child != 0) return child;
  const int out = open("/dev/null", O_WRONLY), err = open(errors.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  dup2(out, 1);
  dup2(err, 2);
  execv(argv[0], argv.data());
  _exit(127);
}

// The descendants of a process by the value of a variable that their starter set, such as their rank.
std::map<int, pid_t> ranks_of(pid_t parent, const std::string& variable) {
  std::map<int, pid_t> out;
  std::stringstream children(file_text(cat("/proc/", parent, "/task/", parent, "/children")));
  for (pid_t child; children >> child;) {
    const std::string environment = file_text(cat("/proc/", child, "/environ"));
    for (std::size_t at = 0; at < environment.size(); at = environment.find('\0', at) + 1) {
      const std::string entry(environment.c_str() + at);
      if (entry.starts_with(variable)) out[std::stoi(entry.substr(variable.size()))] = child;
      if (environment.find('\0', at) == std::string::npos) break;
    }
  }
  return out;
}

bool is_in(Phase phase, const RankState& state, const program::Sequence& sequence) {
  const Activity* now = state.now();
  if (phase == Phase::rendezvous)
    return !now || now->doing == Doing::starting || now->doing == Doing::meeting;
  for (const auto& lane : state.lanes) {
    const Activity& at = lane.recent.back();
    if (!at.under_way() || at.op < 0 || at.step < 2) continue;
    const auto what = sequence.ops[static_cast<std::size_t>(at.op)].what;
    if ((phase == Phase::forward && what == program::OpKind::forward) ||
        (phase == Phase::backward && what == program::OpKind::backward) ||
        (phase == Phase::collective && at.doing == Doing::communicating) ||
        (phase == Phase::optimizer && what == program::OpKind::step))
      return true;
  }
  return false;
}

// Without a pause: phases are short.
template <typename Condition>
void spin_until(const Condition& condition) {
  const double deadline = now_seconds() + 120;
  while (!condition()) TESSERA_CHECK(now_seconds() < deadline, "the phase to strike in did not come");
}

// What a job may leave: files and sockets in the folder of temporary things, which is this trial's own, and
// shared memory.
std::set<std::string> leftovers() {
  std::set<std::string> out;
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path()))
    out.insert(entry.path().string());
  for (const auto& entry : fs::directory_iterator("/dev/shm"))
    if (const auto name = entry.path().filename().string(); name.find("tessera") != std::string::npos ||
                                                            name.find("gloo") != std::string::npos ||
                                                            name.find("torch") != std::string::npos)
      out.insert(entry.path().string());
  return out;
}

// Strikes, waits for the end, looks at what is left. Orphans come to this process, which is a subreaper.
Result strike(const Try& t, pid_t launcher, pid_t victim, const fs::path& errors,
              const std::set<std::string>& before) {
  Result result;
  const double struck = now_seconds();
  kill(victim, t.signal);
  int status = 0;
  constexpr double kPatience = 90;
  while (waitpid(launcher, &status, WNOHANG) == 0 && now_seconds() - struck < kPatience)
    std::this_thread::sleep_for(2ms);
  result.seconds = now_seconds() - struck;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::this_thread::sleep_for(20ms);
  while (true) {  // dead orphans are reaped silently: they ended, only after their parent
    const pid_t orphan = waitpid(-1, nullptr, WNOHANG);
    if (orphan > 0) continue;
    if (orphan < 0) break;
    std::stringstream children(file_text(cat("/proc/", getpid(), "/task/", getpid(), "/children")));
    for (pid_t child; children >> child; ++result.orphans) kill(child, SIGKILL);
    while (waitpid(-1, nullptr, 0) > 0) continue;
  }
  for (const auto& path : leftovers())
    if (!before.contains(path)) result.left += path + " ";
  result.text = file_text(errors);
  return result;
}

Result try_tessera(const Try& t, const std::string& binary, const program::Sequence& sequence,
                   const fs::path& folder) {
  const auto before = leftovers();
  const fs::path errors = folder / "errors";
  const pid_t launcher =
      start({binary, "train", kConfig, "training.steps=1000000", "--procs", cat(kRanks), "--out",
             (folder / "out").string(), cat("cluster.timeout_seconds=", kTimeoutSeconds)},
            errors);
  std::map<int, pid_t> ranks;
  while (static_cast<int>((ranks = ranks_of(launcher, "TESSERA_RANK=")).size()) < kRanks) {
    TESSERA_CHECK(waitpid(launcher, nullptr, WNOHANG) == 0,
                  "the job ended before it began: ", file_text(errors));
    std::this_thread::sleep_for(1ms);
  }
  const auto board = status_board_of(launcher, kRanks);
  TESSERA_CHECK(board != nullptr, "the launcher has no board");
  std::this_thread::sleep_for(std::chrono::duration<double>(t.delay_seconds));
  if (t.phase != Phase::rendezvous)
    spin_until([&] { return is_in(t.phase, board->log(t.rank).state(), sequence); });
  Result result = strike(t, launcher, ranks.at(t.rank), errors, before);
  const bool kills = t.signal == SIGKILL;
  result.named = result.text.find(kills ? cat("rank ", t.rank, " failed first (signal 9")
                                        : cat(" s: rank ", t.rank, " is ")) != std::string::npos;
  return result;
}

Result try_torchrun(const Try& t, const fs::path& folder) {
  const auto before = leftovers();
  const fs::path errors = folder / "errors", phases = folder / "phases";
  std::ofstream(phases) << std::string(kRanks, '\0');
  const pid_t launcher = start({".venv/bin/python", ".venv/bin/torchrun", "--standalone", "--nproc-per-node",
                                cat(kRanks), "tests/failures/ddp.py", phases.string(), cat(kTimeoutSeconds)},
                               errors);
  const int file = open(phases.c_str(), O_RDONLY);
  const auto* phase =
      static_cast<const volatile char*>(mmap(nullptr, kRanks, PROT_READ, MAP_SHARED, file, 0));
  close(file);
  const char wanted = static_cast<char>(static_cast<int>(t.phase) + 1);
  spin_until([&] { return phase[t.rank] != 0; });
  std::this_thread::sleep_for(std::chrono::duration<double>(t.delay_seconds));
  if (t.phase != Phase::rendezvous) spin_until([&] { return phase[t.rank] == wanted; });
  Result result = strike(t, launcher, ranks_of(launcher, "RANK=").at(t.rank), errors, before);
  munmap(const_cast<char*>(phase), kRanks);
  const auto cause = result.text.find("Root Cause");
  result.named = cause != std::string::npos &&
                 result.text.find(cat("local_rank: ", t.rank, ")"), cause) != std::string::npos;
  return result;
}

struct Tally {
  std::vector<double> seconds;
  int late = 0, misnamed = 0, orphans = 0, left = 0;
  std::map<int, int> codes;
};

void add(const Try& t, const Result& result, bool tells, Tally& tally) {
  const double limit = kLimitSeconds + (t.signal == SIGSTOP ? kTimeoutSeconds : 0);
  tally.seconds.push_back(result.seconds);
  tally.late += result.seconds > limit;
  tally.misnamed += !result.named;
  tally.orphans += result.orphans;
  tally.left += !result.left.empty();
  ++tally.codes[result.code];
  if (!tells || (result.seconds <= limit && result.named && result.orphans == 0 && result.left.empty()))
    return;
  std::printf("signal %d, %s, rank %d, after %.2f s: %d orphans, left: %s\n%s\n", t.signal,
              kPhases[static_cast<int>(t.phase)], t.rank, result.seconds, result.orphans, result.left.c_str(),
              result.text.c_str());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::puts("usage: failures BINARY [tries] [torchrun's tries] [seed]"), 2;
  const int tries = argc > 2 ? std::stoi(argv[2]) : 5, others = argc > 3 ? std::stoi(argv[3]) : 0;
  const std::uint64_t seed = argc > 4 ? std::stoull(argv[4]) : 1;
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::string folder = (fs::temp_directory_path() / "failing_XXXXXX").string();
  TESSERA_CHECK(mkdtemp(folder.data()), "no folder");
  const fs::path temporary = fs::path(folder) / "temporary";
  fs::create_directory(temporary);
  setenv("TMPDIR", temporary.c_str(), 1);
  const std::vector<std::string> overrides{cat("layout.dp_replicate=", kRanks)};
  const auto program = plan::compile(spec::load(kConfig, overrides));

  std::vector<std::vector<std::string>> rows{{"job", "failure", "tries", "median s", "slowest s", "late",
                                              "wrong or no rank named", "processes left", "files left",
                                              "exit codes"}};
  bool passed = true;
  for (const bool is_tessera : {true, false})
    for (const int signal : {SIGKILL, SIGSTOP}) {
      Tally tally;
      const int count = is_tessera ? tries : others;
      for (int i = 0; i < count; ++i) {
        const Try t = make_try(signal, static_cast<std::uint64_t>(i), seed);
        add(t, is_tessera ? try_tessera(t, argv[1], program.classes[0], folder) : try_torchrun(t, folder),
            is_tessera, tally);
      }
      if (count == 0) continue;
      if (is_tessera) passed = passed && tally.late + tally.misnamed + tally.orphans + tally.left == 0;
      std::vector<std::string> codes;
      for (const auto& [code, times] : tally.codes) codes.push_back(cat(code, " x ", times));
      rows.push_back({is_tessera ? "tessera train" : "torchrun", signal == SIGKILL ? "killed" : "stopped",
                      cat(count), fixed(median(tally.seconds), 2), fixed(quantile(tally.seconds, 1.0), 2),
                      cat(tally.late), cat(tally.misnamed), cat(tally.orphans), cat(tally.left),
                      join(codes, ", ")});
      std::printf("%s\n", table(rows).c_str());
      std::fflush(stdout);
    }
  std::printf(
      "%d ranks; a stopped rank may take %.0f s more, the configured time-out; late is over %.0f s (seed "
      "%llu)\n",
      kRanks, kTimeoutSeconds, kLimitSeconds, static_cast<unsigned long long>(seed));
  fs::remove_all(folder);
  return passed ? 0 : 1;
}
