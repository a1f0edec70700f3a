#include "tessera/checkpoint/folder/folder_lock.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"

namespace tessera::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FolderLocks : public ::testing::Test {
 protected:
  FolderLocks() { std::filesystem::remove_all(folder_); }
  ~FolderLocks() override { std::filesystem::remove_all(folder_); }

  std::string complaint() const {
    return complaint_of([&] { FolderLock again(folder_, "--out"); });
  }

  std::string folder_ = cat(::testing::TempDir(), "folder-locks-", ::getpid());
  std::string file_ = cat(folder_, "/", kLockName);
};

TEST_F(FolderLocks, TheSecondIsRefusedWithinASecondAndToldTheHolder) {
  const FolderLock first(folder_, "--out");
  EXPECT_THAT(first.warning(), IsEmpty());
  const auto begun = std::chrono::steady_clock::now();
  const std::string told = complaint();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(1));
  EXPECT_THAT(told, HasSubstr(cat("--out ", folder_, " is in use by process ", ::getpid(), " of user ")));
  EXPECT_THAT(told, HasSubstr(" on host "));
  EXPECT_THAT(told, HasSubstr("UTC"));
}

TEST_F(FolderLocks, NothingIsLeftWhenItEnds) {
  { const FolderLock first(folder_, "--out"); }
  EXPECT_FALSE(std::filesystem::exists(folder_));
  EXPECT_THAT(complaint(), IsEmpty());
}

TEST_F(FolderLocks, FoldersThatWereThereOrAreNotEmptyStay) {
  std::filesystem::create_directories(folder_ + "/there");
  {
    const auto locks =
        lock_folders({{folder_ + "/there", "--out"}, {folder_ + "/there/a/b", "checkpoint.folder"}});
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/there"));
  {
    const FolderLock lock(folder_ + "/there/a/b", "--out");
    std::ofstream(folder_ + "/there/a/written") << "by the job";
  }
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/there/a/written"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/there/a/b"));
}

TEST_F(FolderLocks, WhatAKilledJobLeftHoldsNobodyUp) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const FolderLock held(folder_, "--out");
    [[maybe_unused]] const auto told = write(ready[1], "x", 1);
    pause();
  }
  char x;
  ASSERT_EQ(read(ready[0], &x, 1), 1);
  EXPECT_THAT(complaint(), HasSubstr(cat("process ", child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(file_));
  const FolderLock next(folder_, "--out");
  EXPECT_THAT(file_text(file_), HasSubstr(cat("process ", ::getpid(), " of")));
}

TEST_F(FolderLocks, AFolderThatIsNamedTwiceIsLockedOnce) {
  std::filesystem::create_directories(folder_ + "/below");
  const auto locks = lock_folders(
      {{folder_, "--out"}, {folder_ + "/below/..", "checkpoint.folder"}, {folder_ + "/below", "--out"}});
  EXPECT_EQ(locks.size(), 2u);
}

TEST_F(FolderLocks, LinksAndPipesInItsPlaceAreRefused) {
  std::filesystem::create_directories(folder_);
  std::ofstream(folder_ + "/precious") << "text";
  std::filesystem::create_symlink(folder_ + "/precious", file_);
  EXPECT_THAT(complaint(), HasSubstr("cannot lock"));
  EXPECT_EQ(file_text(folder_ + "/precious"), "text");
  std::filesystem::remove(file_);
  ASSERT_EQ(mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(complaint(), HasSubstr("cannot lock"));
}

TEST(LockLimit, SaysWhereLocksEndAtThisHost) {
  const std::string mounts =
      "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "40 22 0:51 / /a rw shared:2 master:1 - nfs4 host:/a rw,vers=4.2,local_lock=none,addr=1.2.3.4\n"
      "41 22 0:52 / /b rw - nfs host:/b rw,vers=3,nolock,local_lock=all\n"
      "42 22 0:53 / /c rw - lustre m:/c rw,localflock\n"
      "43 22 0:54 / /d rw - fuse.sshfs host:/d rw,user_id=0\n";
  for (const unsigned minor : {51u, 99u}) EXPECT_THAT(lock_limit(mounts, 0, minor), IsEmpty());
  EXPECT_THAT(lock_limit(mounts, 8, 1), IsEmpty());
  EXPECT_THAT(lock_limit(mounts, 0, 52), HasSubstr("nfs, mounted so that locks hold on this host alone"));
  EXPECT_THAT(lock_limit(mounts, 0, 53), HasSubstr("on this host alone"));
  EXPECT_THAT(lock_limit(mounts, 0, 54), HasSubstr("fuse.sshfs, which may keep locks to this host"));
}

}  // namespace
}  // namespace tessera::checkpoint
