#include "tessera/launch/spawn.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"

namespace tessera::launch {
namespace {

using namespace std::chrono_literals;

class Spawn : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "spawn_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    // Orphans of the ranks become children of this process, where they can be found.
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    setenv("SPAWN_TEST_FOLDER", folder.c_str(), 1);
  }

  void TearDown() override {
    // A killed orphan may take a moment to become this process's to reap.
    const double deadline_seconds = now_seconds() + 2;
    pid_t reaped;
    while ((reaped = waitpid(-1, nullptr, WNOHANG)) >= 0 && now_seconds() < deadline_seconds)
      std::this_thread::sleep_for(1ms);
    EXPECT_LT(reaped, 0) << "a process is left";
    std::filesystem::remove_all(folder_);
  }

  SpawnOptions shell(int num_ranks, const std::string& script) {
    SpawnOptions options;
    options.num_ranks = num_ranks;
    options.command = {"/bin/sh", "-c", script};
    return options;
  }

  int run(SpawnOptions options) {
    const int report = open((folder_ / "report").c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    options.report_descriptor = report;
    const double start_seconds = now_seconds();
    const int code = run_local_ranks(options);
    seconds_ = now_seconds() - start_seconds;
    close(report);
    report_ = file_text(folder_ / "report");
    return code;
  }

  void wait_for_files(const std::vector<std::string>& names) {
    const double deadline_seconds = now_seconds() + 60;
    for (const auto& name : names) {
      while (file_text(folder_ / name).empty() && now_seconds() < deadline_seconds)
        std::this_thread::sleep_for(5ms);
      EXPECT_NE(file_text(folder_ / name), "") << name;
    }
  }

  std::filesystem::path folder_;
  std::string report_;
  double seconds_ = 0;
};

TEST_F(Spawn, EveryRankKnowsItsPlaceAndInheritsOnlyItsOwnConnection) {
  auto options =
      shell(3,
            "for fd in $(ls /proc/self/fd); do readlink /proc/self/fd/$fd; done | grep -c socket > "
            "$SPAWN_TEST_FOLDER/sockets$TESSERA_RANK; test -S /proc/self/fd/${TESSERA_STORE#fd:} || exit 9; "
            "echo $TESSERA_RANK/$TESSERA_WORLD_SIZE $TESSERA_JOB > "
            "$SPAWN_TEST_FOLDER/rank$TESSERA_RANK");
  options.job = "night";
  setenv("TESSERA_RANK", "77", 1);  // a launcher may itself be started by one
  EXPECT_EQ(run(options), 0);
  unsetenv("TESSERA_RANK");
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(file_text(folder_ / cat("rank", rank)), cat(rank, "/3 night\n"));
    EXPECT_EQ(file_text(folder_ / cat("sockets", rank)), "1\n");
  }
  EXPECT_EQ(report_, "");
}

TEST_F(Spawn, StdoutOfAllRanksPassesThrough) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(run(shell(2, "sleep 0.$TESSERA_RANK; echo out of $TESSERA_RANK")), 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "out of 0\nout of 1\n");
}

TEST_F(Spawn, TheFirstFailureIsToldAndEndsTheOthers) {
  EXPECT_EQ(
      run(shell(3,
                "if [ $TESSERA_RANK = 1 ]; then sleep 0.1; echo bad key >&2; echo in line 3 >&2; exit 2; fi; "
                "echo started >&2; echo waiting >&2; exec sleep 60")),
      2);
  EXPECT_NE(report_.find("[rank 1] bad key\n[rank 1] in line 3\n"), std::string::npos) << report_;
  EXPECT_TRUE(report_.ends_with("tessera: rank 1 failed first (exit code 2)\n")) << report_;
  EXPECT_LT(seconds_, 10);
}

TEST_F(Spawn, ARankThatLostAPeerIsNotTheCause) {
  EXPECT_EQ(run(shell(2,
                      "if [ $TESSERA_RANK = 0 ]; then echo rank 1 is gone >&2; exit 75; fi; "
                      "sleep 0.2; echo out of memory >&2; exit 70")),
            70);
  EXPECT_NE(report_.find("tessera: rank 1 failed first (exit code 70)\n"), std::string::npos) << report_;
  EXPECT_EQ(run(shell(2, "test $TESSERA_RANK = 0 && exit 75; exec sleep 60")), 75);
  EXPECT_LT(seconds_, 10);
}

TEST_F(Spawn, ARankThatIsKilledMeansStartAgainAndOneThatCrashesABug) {
  EXPECT_EQ(run(shell(2, "test $TESSERA_RANK = 1 && kill -9 $$; exec sleep 60")), kExitPeerLost);
  EXPECT_TRUE(report_.starts_with("tessera: rank 1 failed first (signal 9 (Killed))\n")) << report_;
  EXPECT_NE(report_.find("memory runs out"), std::string::npos) << report_;
  EXPECT_EQ(run(shell(2, "test $TESSERA_RANK = 0 && kill -SEGV $$; exec sleep 60")), kExitBug);
  EXPECT_NE(report_.find("please report it"), std::string::npos) << report_;
}

TEST_F(Spawn, APartThatIsDispensableEndsTogetherAndIsStartedAgain) {
  auto options = shell(4,
                       "echo ${TESSERA_NEWCOMER:-0} >> $SPAWN_TEST_FOLDER/starts$TESSERA_RANK; "
                       "test -n \"$TESSERA_NEWCOMER\" && exit 0; "
                       "test $TESSERA_RANK = 3 && exec sleep 60; "
                       "test $TESSERA_RANK = 2 || exec sleep 1; "
                       "while ! test -s $SPAWN_TEST_FOLDER/starts3; do sleep 0.01; done; kill -9 $$");
  options.dispensable_part = [](int rank) {
    return rank == 0 ? std::nullopt : std::optional(rank == 1 ? 1 : 2);
  };
  options.part_restarts = 3;
  EXPECT_EQ(run(options), 0);
  const std::string told =
      "The others continue without it.\ntessera: ranks 2, 3 are started again (1 of 3)\n";
  EXPECT_NE(report_.find(told), std::string::npos) << report_;
  EXPECT_EQ(file_text(folder_ / "starts1"), "0\n");
  EXPECT_EQ(file_text(folder_ / "starts2"), "0\n1\n");
  EXPECT_EQ(file_text(folder_ / "starts3"), "0\n1\n");
  EXPECT_LT(seconds_, 10);
}

TEST_F(Spawn, APartThatEndsByItsOwnErrorIsNotStartedAgain) {
  auto options =
      shell(2, "test $TESSERA_RANK = 0 && exec sleep 1; echo x >> $SPAWN_TEST_FOLDER/starts; exit 2");
  options.dispensable_part = [](int rank) { return rank == 0 ? std::nullopt : std::optional(rank); };
  options.part_restarts = 3;
  EXPECT_EQ(run(options), 0);
  EXPECT_NE(report_.find("The others continue without it. It is not started again"), std::string::npos)
      << report_;
  EXPECT_EQ(file_text(folder_ / "starts"), "x\n");
}

TEST_F(Spawn, ANewcomerThatStillLoadsWhenTheOthersAreThroughIsSentAway) {
  auto options =
      shell(2,
            "test -n \"$TESSERA_NEWCOMER\" && { echo x > $SPAWN_TEST_FOLDER/started; exec sleep 60; }; "
            "test $TESSERA_RANK = 1 && kill -9 $$; "
            "while ! test -s $SPAWN_TEST_FOLDER/started; do sleep 0.01; done");
  options.dispensable_part = [](int rank) { return rank == 0 ? std::nullopt : std::optional(rank); };
  options.part_restarts = 1;
  EXPECT_EQ(run(options), 0);
  EXPECT_LT(seconds_, 10);
}

// `SPAWN_TEST_FOLDER/starts` gets a line each time that rank 1 starts.
class Restarts : public Spawn {
 protected:
  // Rank 1 does `deed` in its first starts and ends well in the next one; the others wait for that.
  SpawnOptions dying(int times, const std::string& deed) {
    auto options = shell(3, cat("if [ $TESSERA_RANK = 1 ]; then echo x >> $SPAWN_TEST_FOLDER/starts; "
                                "test $(wc -l < $SPAWN_TEST_FOLDER/starts) -gt ",
                                times, " || { ", deed, "; }; fi; sleep 0.3"));
    options.restarts = 1;
    options.newest_state = [] { return 0; };
    return options;
  }
  std::size_t num_starts() const { return file_text(folder_ / "starts").size() / 2; }
};

TEST_F(Restarts, StartAllRanksAgainWhenOneIsKilled) {
  EXPECT_EQ(run(dying(1, "kill -9 $$")), 0);
  EXPECT_EQ(num_starts(), 2u);
  EXPECT_TRUE(report_.starts_with("tessera: rank 1 failed first (signal 9 (Killed))\n")) << report_;
  EXPECT_TRUE(
      report_.ends_with("tessera: restart 1 after rank 1: all 3 ranks start again from where this job "
                        "began, as it has saved nothing yet. Without a newer checkpoint this is the last "
                        "restart.\n"))
      << report_;
  EXPECT_EQ(run(dying(1, "exit 75")), 0) << "it lost a peer";
}

TEST_F(Restarts, EndWhenTheyBringNothing) {
  EXPECT_EQ(run(dying(9, "kill -9 $$")), kExitPeerLost);
  EXPECT_EQ(num_starts(), 2u);
  EXPECT_TRUE(
      report_.ends_with("tessera: the ranks are not started again: 1 restart (cluster.restarts) brought no "
                        "newer checkpoint than what this job began with.\n"))
      << report_;
}

TEST_F(Restarts, AreCountedAnewAfterANewerCheckpoint) {
  auto options = dying(4, "kill -9 $$");
  options.newest_state = [saved = 0]() mutable { return saved += 10; };
  EXPECT_EQ(run(options), 0);
  EXPECT_EQ(num_starts(), 5u);
  EXPECT_NE(report_.find("restart 4 after rank 1: all 3 ranks start again from the checkpoint of step 50."),
            std::string::npos)
      << report_;
}

TEST_F(Restarts, AreNotForErrorsThatWouldComeAgain) {
  for (const char* deed :
       {"exit 2", "ulimit -f 1; exec head -c 100000 /dev/zero > $SPAWN_TEST_FOLDER/large"}) {
    std::filesystem::remove(folder_ / "starts");
    EXPECT_EQ(run(dying(9, deed)), kExitUserError);
    EXPECT_EQ(num_starts(), 1u);
    EXPECT_TRUE(
        report_.ends_with("tessera: the ranks are not started again, as they would end the same way.\n"))
        << report_;
  }
}

TEST_F(Restarts, AreForHangsToo) {
  auto options = dying(1, "kill -STOP $$");
  options.timeout_seconds = 0.2;
  options.describer.culprit = [](std::span<const RankState>, double) {
    return Culprit{1, "rank 1 is the one"};
  };
  EXPECT_EQ(run(options), 0) << report_;
  EXPECT_EQ(num_starts(), 2u);
  EXPECT_NE(report_.find("restart 1 after rank 1: "), std::string::npos) << report_;
}

TEST_F(Restarts, AreCalledOffByASignalWhileTheyWait) {
  const pid_t launcher = fork();
  if (launcher == 0) {
    auto options = dying(9, "kill -9 $$");
    options.restarts = 5;
    _exit(run(options));
  }
  const double deadline = now_seconds() + 20;
  while (file_text(folder_ / "report").find("start again in 2 s") == std::string::npos &&
         now_seconds() < deadline)
    std::this_thread::sleep_for(5ms);
  const double signalled = now_seconds();
  kill(launcher, SIGTERM);
  int status = 0;
  waitpid(launcher, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGTERM);
  EXPECT_LT(now_seconds() - signalled, 1.5);
  EXPECT_TRUE(
      file_text(folder_ / "report")
          .ends_with("tessera: signal 15: the ranks are not started again. Starting the job again resumes "
                     "from where it began.\n"))
      << file_text(folder_ / "report");
}

TEST_F(Spawn, RanksThatIgnoreSigtermAreKilled) {
  auto options =
      shell(2, "test $TESSERA_RANK = 0 && { sleep 0.2; exit 3; }; trap '' TERM; sleep 60; sleep 60");
  options.patience = 300ms;
  EXPECT_EQ(run(options), 3);
  EXPECT_GE(seconds_, 0.3);
  EXPECT_LT(seconds_, 10);
}

TEST_F(Spawn, WhatRanksLeaveBehindIsKilledToo) {
  EXPECT_EQ(run(shell(2, "sleep 60 & exit 0")), 0);
  EXPECT_LT(seconds_, 10);
}

// Exit code 75 would have a batch system start it again, without end.
TEST_F(Spawn, ARankThatALimitEndsIsTheUsersToMend) {
  EXPECT_EQ(run(shell(1, "ulimit -f 1; exec head -c 100000 /dev/zero > $SPAWN_TEST_FOLDER/large")),
            kExitUserError);
  EXPECT_EQ(report_,
            "tessera: rank 0 failed first (signal 25 (File size limit exceeded))\n"
            "  A limit of the size of a file (ulimit -f) ended it. Raise the limit: starting again would end "
            "the same way.\n");
}

TEST_F(Spawn, AProgramThatDoesNotExistIsNamed) {
  SpawnOptions options;
  options.command = {"/no/such/program"};
  EXPECT_EQ(run(options), 127);
  EXPECT_EQ(report_,
            "[rank 0] cannot start /no/such/program: No such file or directory\n"
            "tessera: rank 0 failed first (exit code 127)\n");
  EXPECT_THROW(run_local_ranks(shell(0, "true")), UserError);
}

TEST_F(Spawn, AskForMoreDescriptorsWhenTheyAreFewAndSayWhenThereAreNone) {
  const auto code_with_limit = [&](rlimit limit) {
    const pid_t launcher = fork();
    if (launcher == 0) {
      setrlimit(RLIMIT_NOFILE, &limit);
      try {
        _exit(run(shell(20, "exit 0")));
      } catch (const std::exception& error) {
        std::ofstream(folder_ / "error") << error.what();
        _exit(exit_code(error));
      }
    }
    int status = 0;
    waitpid(launcher, &status, 0);
    return WEXITSTATUS(status);
  };
  rlimit now;
  getrlimit(RLIMIT_NOFILE, &now);
  EXPECT_EQ(code_with_limit({24, now.rlim_max}), 0) << file_text(folder_ / "error");
  EXPECT_EQ(code_with_limit({24, 71}), kExitUserError);
  EXPECT_EQ(file_text(folder_ / "error"),
            "20 ranks need 72 open files in the launcher, but the system allows 71. Raise the limit (ulimit "
            "-Hn 72) or start fewer ranks.");
}

TEST_F(Spawn, StderrIsPassedOnWhileRanksRunWithTheRankInFront) {
  const pid_t launcher = fork();
  if (launcher == 0)
    _exit(run(shell(2,
                    "test $TESSERA_RANK = 1 && { echo a warning >&2; printf 'half a li' >&2; "
                    "echo done > $SPAWN_TEST_FOLDER/said; }; exec sleep 60")));
  wait_for_files({"report", "said"});
  EXPECT_EQ(file_text(folder_ / "report"), "[rank 1] a warning\n");
  kill(launcher, SIGTERM);
  waitpid(launcher, nullptr, 0);
  EXPECT_EQ(
      file_text(folder_ / "report"),
      "[rank 1] a warning\n[rank 1] half a li\ntessera: interrupted by signal 15: all ranks are ended\n");
}

// Costs a second: that long the launcher waits for the reader at the end.
TEST_F(Spawn, AStandardErrorThatTakesNothingHoldsNobodyUp) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  auto options =
      shell(2, "yes a line of a rank | head -c 1000000 >&2; echo done > $SPAWN_TEST_FOLDER/end$TESSERA_RANK");
  options.report_descriptor = ends[1];
  options.timeout_seconds = 2;
  const double start_seconds = now_seconds();
  EXPECT_EQ(run_local_ranks(options), 0);
  EXPECT_LT(now_seconds() - start_seconds, 30);
  wait_for_files({"end0", "end1"});
  close(ends[0]);
  close(ends[1]);
}

// Asks for the end twice: ranks that stop between steps are given time the first time.
TEST_F(Spawn, RanksThatStopBetweenStepsAreAskedFirst) {
  const pid_t launcher = fork();
  if (launcher == 0) {
    auto options = shell(2, "echo $$ > $SPAWN_TEST_FOLDER/pid$TESSERA_RANK; exec sleep 60");
    options.grace_seconds = 60;
    _exit(run(options));
  }
  wait_for_files({"pid0", "pid1"});
  kill(launcher, SIGINT);
  while (file_text(folder_ / "report").find("stopping after this step") == std::string::npos)
    std::this_thread::sleep_for(5ms);
  kill(launcher, SIGINT);  // handed on by somebody: the same request
  std::this_thread::sleep_for(1200ms);
  EXPECT_EQ(waitpid(launcher, nullptr, WNOHANG), 0);
  kill(launcher, SIGTERM);
  int status = 0;
  waitpid(launcher, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
}

TEST_F(Spawn, RanksThatDoNotStopWithinTheGraceAreEnded) {
  const pid_t launcher = fork();
  if (launcher == 0) {
    auto options = shell(2, "echo $$ > $SPAWN_TEST_FOLDER/pid$TESSERA_RANK; exec sleep 60");
    options.grace_seconds = 0.4;
    _exit(run(options));
  }
  wait_for_files({"pid0", "pid1"});
  kill(launcher, SIGUSR1);
  int status = 0;
  waitpid(launcher, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGUSR1);
  EXPECT_NE(file_text(folder_ / "report").find("did not stop within 0.4 s of signal 10"), std::string::npos)
      << file_text(folder_ / "report");
}

TEST_F(Spawn, AWatchedRankThatIsStoppedBeforeItsFirstSignOfLifeIsAHang) {
  auto options = shell(2, "test $TESSERA_RANK = 1 && kill -STOP $$; exec sleep 60");
  options.timeout_seconds = 0.3;
  options.describer.culprit = [](std::span<const RankState> states, double) {
    return Culprit{states[1].beat_seconds == 0 ? 1 : -1, "rank 1 is the one"};
  };
  EXPECT_EQ(run(options), kExitPeerLost);
  EXPECT_TRUE(report_.starts_with("tessera: no progress for 0.3 s: rank 1 is the one.\n")) << report_;
  EXPECT_LT(seconds_, 3);
}

TEST_F(Spawn, AnInterruptEndsAllRanks) {
  const pid_t launcher = fork();
  if (launcher == 0) _exit(run(shell(2, "echo $$ > $SPAWN_TEST_FOLDER/pid$TESSERA_RANK; exec sleep 60")));
  wait_for_files({"pid0", "pid1"});
  kill(launcher, SIGINT);
  int status = 0;
  waitpid(launcher, &status, 0);
  ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 128 + SIGINT);
  EXPECT_TRUE(
      file_text(folder_ / "report").starts_with("tessera: interrupted by signal 2: all ranks are ended\n"));
}

TEST_F(Spawn, RanksDieWithTheirLauncher) {
  const pid_t launcher = fork();
  if (launcher == 0) _exit(run(shell(2, "echo $$ > $SPAWN_TEST_FOLDER/pid$TESSERA_RANK; exec sleep 60")));
  wait_for_files({"pid0", "pid1"});
  kill(launcher, SIGKILL);
  // Launcher and, through the subreaper, both ranks.
  for (int i = 0; i < 3; ++i) {
    int status = 0;
    ASSERT_GT(waitpid(-1, &status, 0), 0);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }
}

}  // namespace
}  // namespace tessera::launch
