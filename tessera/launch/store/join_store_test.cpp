#include "tessera/launch/store/join_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"

namespace tessera::launch {
namespace {

using namespace std::chrono_literals;

std::string complaint(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "(no complaint)";
}

// TMPDIR is a folder of the test.
class JoinedStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "join_XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    setenv("TMPDIR", folder.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    std::filesystem::remove_all(folder_);
  }

  static Membership member(int rank, int size = 3) { return {rank, size, rank, size, 1, "job", 0, "srun"}; }
  std::filesystem::path own_folder() const { return folder_ / cat("tessera-", geteuid()); }
  std::vector<std::filesystem::path> left() const {
    std::vector<std::filesystem::path> out;
    for (const auto& entry : std::filesystem::directory_iterator(own_folder())) out.push_back(entry.path());
    return out;
  }

  std::filesystem::path folder_;
};

// A child has the limits, which nothing raises again once they are lowered.
TEST_F(JoinedStoreTest, RankZeroRaisesItsLimitOfOpenFilesOrSaysThatItIsTooLow) {
  const auto limited = [](rlim_t soft, rlim_t hard, int size,
                          const std::function<bool(const std::string&)>& is_right) {
    const pid_t child = fork();
    if (child == 0) {
      const rlimit limit{soft, hard};
      setrlimit(RLIMIT_NOFILE, &limit);
      const std::string said = complaint([&] { JoinedStore(member(0, size), {.timeout = 100ms}); });
      rlimit now;
      getrlimit(RLIMIT_NOFILE, &now);
      _exit(is_right(cat(now.rlim_cur, " files: ", said)) ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  };
  EXPECT_TRUE(limited(64, 4096, 20,
                      [](const std::string& said) { return said.starts_with("272 files: ranks 1, 2"); }));
  EXPECT_TRUE(limited(64, 271, 20, [](const std::string& said) {
    return said ==
           "64 files: 20 ranks need 272 open files in rank 0, but the system allows 271. Raise the limit "
           "(ulimit -Hn 272) or start fewer ranks.";
  }));
}

TEST_F(JoinedStoreTest, RanksOfOneHostMeetInAnyOrderAndLeaveNothing) {
  std::vector<std::thread> ranks;
  for (const int rank : {1, 2, 0})
    ranks.emplace_back([&, rank] {
      if (rank == 0) std::this_thread::sleep_for(100ms);
      JoinedStore store(member(rank), {.timeout = 20s});
      EXPECT_EQ(store.server() != nullptr, rank == 0);
      EXPECT_EQ(store.reports().report("here", 10s), std::nullopt);
      const auto values = store.keys().put_and_get({{cat(rank), cat("of ", rank)}}, {"0", "1", "2"}, 10s);
      EXPECT_EQ(values, (std::vector<std::string>{"of 0", "of 1", "of 2"}));
      // Rank 0 is done first, and stays until the others are.
      if (rank != 0) std::this_thread::sleep_for(50ms);
      EXPECT_EQ(store.reports().report("done", 10s), std::nullopt);
      store.wait_for_others();
    });
  for (auto& rank : ranks) rank.join();
  EXPECT_TRUE(left().empty());
  struct stat status;
  ASSERT_EQ(stat(own_folder().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(JoinedStoreTest, ASocketThatADeadJobLeftIsReplacedAndALivingOneIsNot) {
  std::filesystem::path path;
  std::thread zero([] { JoinedStore(member(0, 2), {.timeout = 20s}).wait_for_others(); });
  while (path.empty() || path.has_extension()) {  // it is made under another name first
    std::this_thread::sleep_for(5ms);
    if (!std::filesystem::exists(own_folder())) continue;
    for (const auto& found : left()) path = found;
  }
  EXPECT_THAT(complaint([&] { JoinedStore(member(0, 2), {.timeout = 50ms}); }),
              testing::HasSubstr("started twice"));
  JoinedStore(member(1, 2), {.timeout = 20s});
  zero.join();
  EXPECT_TRUE(left().empty());
  listen_at(path);  // and dead at once, as a killed process leaves it
  ASSERT_EQ(left().size(), 1u);
  std::thread one([] {
    JoinedStore(member(1, 2), {.timeout = 20s}).keys().put_and_get({{"a", "1"}}, {}, 5s);
  });
  std::this_thread::sleep_for(100ms);
  {
    JoinedStore zero_again(member(0, 2), {.timeout = 20s});
    EXPECT_EQ(zero_again.keys().put_and_get({}, {"a"}, 20s)[0], "1");
    zero_again.wait_for_others();
  }
  one.join();
  EXPECT_TRUE(left().empty());
}

TEST_F(JoinedStoreTest, AFolderThatOthersMayEnterIsRefused) {
  std::filesystem::create_directory(own_folder());
  chmod(own_folder().c_str(), 0755);
  EXPECT_THAT(complaint([] { JoinedStore(member(0), {}); }), testing::HasSubstr("belongs to you alone"));
  std::filesystem::remove(own_folder());
  std::filesystem::create_directory(folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", own_folder());
  EXPECT_THAT(complaint([] { JoinedStore(member(0), {}); }), testing::HasSubstr("belongs to you alone"));
}

TEST_F(JoinedStoreTest, ARankZeroThatDoesNotComeIsLost) {
  EXPECT_THROW(JoinedStore(member(1), {.timeout = 100ms}), PeerLost);
}

TEST_F(JoinedStoreTest, RanksThatDoNotComeAreNamed) {
  EXPECT_THAT(complaint([] { JoinedStore(member(0, 4), {.timeout = 100ms}); }),
              testing::ContainsRegex("^ranks 1, 2, 3 of 4 did not come to .* within 0.1 s"));
}

TEST_F(JoinedStoreTest, ARankThatComesAfterTheEndIsToldAtOnce) {
  std::filesystem::create_directory(own_folder());
  chmod(own_folder().c_str(), 0700);
  char name[17];
  std::snprintf(name, sizeof(name), "%016llx", static_cast<unsigned long long>(stream_of("job/0")));
  KeyServer server;
  server.abort("rank 3 failed");
  server.open(unix_listener(own_folder() / name, geteuid()), {1, 1, 2, 2});
  const double start_seconds = now_seconds();
  EXPECT_EQ(complaint([] { JoinedStore(member(1), {.timeout = 60s}); }), "rank 3 failed");
  EXPECT_LT(now_seconds() - start_seconds, 30);
}

TEST_F(JoinedStoreTest, SeveralHostsDoNotMeetOnLoopback) {
  std::ofstream(folder_ / "key") << std::string(32, 'k');
  chmod((folder_ / "key").c_str(), 0600);
  Membership two_hosts = member(0);
  two_hosts.num_hosts = 2;
  EXPECT_THAT(
      complaint([&] { JoinedStore(two_hosts, {.address = "localhost:29398", .key_file = folder_ / "key"}); }),
      testing::HasSubstr("which other hosts can't reach"));
}

TEST_F(JoinedStoreTest, SeveralHostsNeedAnAddressAndAKey) {
  Membership two_hosts = member(0);
  two_hosts.num_hosts = 2;
  EXPECT_THAT(complaint([&] { JoinedStore(two_hosts, {}); }),
              testing::HasSubstr("cluster.store=node1:29400"));
  EXPECT_THAT(complaint([&] { JoinedStore(two_hosts, {.address = "127.0.0.1:29399"}); }),
              testing::HasSubstr("head -c 32 /dev/urandom"));
}

TEST(StoreOptions, TheEnvironmentGoesBeforeTheRunFile) {
  const auto of_file = store_options({}, "a:1", "f", 1s);
  EXPECT_EQ(of_file.address, "a:1");
  EXPECT_EQ(of_file.key_file, "f");
  const auto of_environment = store_options(
      {{"TESSERA_STORE", "b:2"}, {"TESSERA_KEY_FILE", "g"}, {"TESSERA_KEY_FD", "7"}}, "a:1", "f", 1s);
  EXPECT_EQ(of_environment.address, "b:2");
  EXPECT_EQ(of_environment.key_file, "g");
  EXPECT_EQ(of_environment.key_descriptor, "7");
}

}  // namespace
}  // namespace tessera::launch
