// Ranks that torchrun and mpirun start train as our own do, and nothing of a job listens. Runs the real
// programs.
#include <dirent.h>
#include <gmock/gmock.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/cli/testing/join_fixture.hpp"

namespace tessera::cli {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST_F(Join, TorchrunsRanksTrainAsOurOwn) { expect_as_our_own(kTorchrun + train("joined")); }

TEST_F(Join, MpirunsRanksTrainAsOurOwn) { expect_as_our_own(kMpirun + train("joined")); }

TEST_F(Join, AnErrorOfJoinedRanksIsToldOnceByRankZero) {
  const auto told = shell(kMpirun + train("joined", "data.path=/no/such/file"));
  EXPECT_EQ(told.code, kExitUserError) << told.out;
  EXPECT_EQ(count_of(told.out, "/no/such/file"), 1u) << told.out;
  EXPECT_THAT(told.out, HasSubstr("failed first (exit code 2"));
}

TEST_F(Join, AStoppedRankOfAJoinedJobIsAHangThatRankZeroTells) {
  const std::string metrics = (folder_ / "joined" / "metrics.jsonl").string();
  const auto told = shell(
      cat(kMpirun, train("joined", "training.steps=1000000 cluster.timeout_seconds=2"), " & job=$!; ",
          "for i in $(seq 600); do [ -s ", metrics, " ] && break; sleep 0.1; done; for rank in $(pgrep -f '",
          binary(),
          " train'); do grep -qz ^OMPI_COMM_WORLD_RANK=1 /proc/$rank/environ && kill -STOP $rank; done; ",
          "wait $job"));
  EXPECT_EQ(told.code, kExitPeerLost) << told.out;
  EXPECT_THAT(told.out, HasSubstr("no progress for 2.0 s: rank 1 is silent for"));
}

TEST_F(Join, SeveralHostsWithoutAnAddressOrAKeyAreToldWhatToDo) {
  const std::string two_hosts =
      "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 GROUP_WORLD_SIZE=2 TORCHELASTIC_RUN_ID=x ";
  const auto nowhere = shell(two_hosts + train("joined"));
  EXPECT_EQ(nowhere.code, 2);
  EXPECT_THAT(nowhere.out, HasSubstr("cluster.store=node1:29400"));
  const auto without_key = shell(two_hosts + train("joined", "cluster.store=127.0.0.1:29400"));
  EXPECT_EQ(without_key.code, 2);
  EXPECT_THAT(without_key.out, HasSubstr("(umask 077; head -c 32 /dev/urandom > job.key)"));
}

TEST_F(Join, NumbersOfRanksThatDisagreeAreRefused) {
  const auto with_procs = shell(kMpirun + train("joined", "--procs 2"));
  EXPECT_EQ(with_procs.code, 2);
  EXPECT_THAT(with_procs.out, HasSubstr("mpirun has already started 2 ranks. Leave --procs out."));
  const auto of_three = shell(kMpirun + train("joined", "layout.dp_replicate=3"));
  EXPECT_EQ(of_three.code, 2);
  EXPECT_THAT(of_three.out, HasSubstr("mpirun started 2 ranks"));
  const auto malformed = shell("TORCHELASTIC_RUN_ID=x WORLD_SIZE=two " + train("joined"));
  EXPECT_EQ(malformed.code, 2);
  EXPECT_THAT(malformed.out, HasSubstr("WORLD_SIZE = 'two'"));
}

// A job that runs until the test has seen enough.
class RunningJob {
 public:
  RunningJob(const std::string& command, const std::filesystem::path& metrics, const std::string& mark)
      : mark_(mark), pid_(fork()) {
    if (pid_ == 0) {
      setpgid(0, 0);
      std::freopen("/dev/null", "w", stdout);
      execl("/bin/sh", "sh", "-c", cat("exec ", command).c_str(), nullptr);
      _exit(127);
    }
    const double deadline_seconds = now_seconds() + 60;
    while (file_text(metrics).empty() && now_seconds() < deadline_seconds) std::this_thread::sleep_for(20ms);
    EXPECT_FALSE(file_text(metrics).empty()) << "no step was made";
  }
  ~RunningJob() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }

  // Its processes that run our binary, launcher included.
  std::vector<std::filesystem::path> processes() const {
    std::vector<std::filesystem::path> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::error_code gone;
      const auto program = std::filesystem::read_symlink(entry.path() / "exe", gone);
      if (program.filename() == "tessera" &&
          file_text(entry.path() / "cmdline").find(mark_) != std::string::npos)
        found.push_back(entry.path());
    }
    return found;
  }

 private:
  std::string mark_;
  pid_t pid_;
};

struct Listening {
  std::set<std::string> tcp;  // local addresses as the kernel's tables write them
  int num_unix = 0;
};

Listening listening_of(const std::filesystem::path& process) {
  std::set<std::string> inodes;
  for (const auto& entry : std::filesystem::directory_iterator(process / "fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  const auto rows = [&](const char* table) {
    std::istringstream in(file_text(process / "net" / table));
    std::vector<std::vector<std::string>> out;
    for (std::string line, word; std::getline(in, line);) {
      std::istringstream words(line);
      out.emplace_back();
      while (words >> word) out.back().push_back(word);
    }
    out.erase(out.begin());
    return out;
  };
  Listening found;
  for (const char* table : {"tcp", "tcp6"})
    for (const auto& row : rows(table))
      if (row[3] == "0A" && inodes.contains(row[9])) found.tcp.insert(row[1].substr(0, row[1].find(':')));
  const std::string kAccepts = "00010000";
  for (const auto& row : rows("unix"))
    if (row[3] == kAccepts && inodes.contains(row[6])) ++found.num_unix;
  return found;
}

TEST_F(Join, NothingOfARunningJobListens) {
  // One of our own, so that the search is seen to find what there is.
  const int door = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_EQ(listen(door, 1), 0);
  EXPECT_FALSE(listening_of("/proc/self").tcp.empty());
  close(door);
  const std::vector<std::pair<std::string, std::size_t>> jobs = {
      {train("local", "training.steps=100000 --procs 2"), 3},
      {kMpirun + train("joined", "training.steps=100000"), 2}};
  for (const auto& [command, num_processes] : jobs) {
    const auto out = folder_ / (num_processes == 3 ? "local" : "joined");
    const RunningJob job(command, out / "metrics.jsonl", out.string());
    const auto processes = job.processes();
    EXPECT_EQ(processes.size(), num_processes);
    for (const auto& process : processes) {
      const auto listening = listening_of(process);
      EXPECT_EQ(listening.tcp, std::set<std::string>()) << command;
      EXPECT_EQ(listening.num_unix, 0) << command;
    }
  }
}

std::vector<std::string> cores_of_threads(const std::filesystem::path& process) {
  std::set<std::string> found;
  for (const auto& thread : std::filesystem::directory_iterator(process / "task")) {
    const std::string status = file_text(thread.path() / "status");
    const auto begin = status.find("Cpus_allowed_list:\t") + 19;
    found.insert(status.substr(begin, status.find('\n', begin) - begin));
  }
  return {found.begin(), found.end()};
}

// Of those that this process may use; hardware threads of one core count once.
std::size_t num_cores() {
  cpu_set_t usable;
  EXPECT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  std::set<std::string> siblings;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &usable))
      siblings.insert(file_text(cat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list")));
  return siblings.size();
}

TEST_F(Join, EveryThreadOfARankStaysOnItsCores) {
  const auto distinct_cores = [&](const std::string& out, const std::string& arguments) {
    const RunningJob job(train(out, "training.steps=100000 --procs 2 " + arguments),
                         folder_ / out / "metrics.jsonl", (folder_ / out).string());
    std::set<std::string> distinct;
    for (const auto& process : job.processes()) {
      if (file_text(process / "environ").find("TESSERA_RANK=") == std::string::npos)
        continue;  // the launcher
      const auto cores = cores_of_threads(process);
      EXPECT_EQ(cores.size(), 1u) << testing::PrintToString(cores);
      distinct.insert(cores.begin(), cores.end());
    }
    return distinct;
  };
  EXPECT_EQ(distinct_cores("pinned", "").size(), std::min<std::size_t>(num_cores(), 2));
  EXPECT_EQ(distinct_cores("free", "cluster.pin=false").size(), 1u);
}

}  // namespace
}  // namespace tessera::cli
