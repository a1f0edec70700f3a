#include "tessera/checkpoint/folder/save_request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "tessera/base/complaint.hpp"
#include "tessera/base/text.hpp"

namespace tessera::checkpoint {
namespace {

using testing::HasSubstr;

class AskedSave : public testing::Test {
 protected:
  AskedSave() { std::filesystem::create_directories(folder_); }
  ~AskedSave() override { std::filesystem::remove_all(folder_); }

  const std::string folder_ = cat(testing::TempDir(), "asked-save-", ::getpid());
};

TEST_F(AskedSave, IsAnsweredWithTheStepAndLeavesNoRequest) {
  const SaveRequests job(folder_);
  EXPECT_FALSE(job.is_asked());
  std::thread training([&] {
    while (!job.is_asked()) std::this_thread::yield();
    job.answer({40, "runs/a/checkpoints/step-00000040"});
  });
  const SaveAnswer answer = ask_for_save(folder_, [] { return true; });
  training.join();
  EXPECT_EQ(answer, (SaveAnswer{40, "runs/a/checkpoints/step-00000040"}));
  EXPECT_FALSE(job.is_asked());
}

TEST_F(AskedSave, TwoWhoAskAtOnceGetTheSameAnswer) {
  const SaveRequests job(folder_);
  SaveAnswer answers[2];
  std::thread asking[2];
  for (int i = 0; i < 2; ++i)
    asking[i] = std::thread([&, i] { answers[i] = ask_for_save(folder_, [] { return true; }); });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // both wait
  job.answer({7, "there"});
  for (auto& thread : asking) thread.join();
  EXPECT_EQ(answers[0], (SaveAnswer{7, "there"}));
  EXPECT_EQ(answers[1], answers[0]);
}

TEST_F(AskedSave, WhereNoJobRunsNobodyIsAsked) {
  EXPECT_THAT(complaint_of([&] { ask_for_save(folder_, [] { return false; }); }),
              HasSubstr("no job runs in '" + folder_ + "'. Name the folder of a run that is under way"));
  EXPECT_FALSE(SaveRequests(folder_).is_asked());
}

TEST_F(AskedSave, AJobThatEndsWithoutAnAnswerIsSaidAndTheRequestWithdrawn) {
  SaveRequests(folder_).answer({3, "an older answer"});
  int looks = 0;
  EXPECT_THAT(complaint_of([&] { ask_for_save(folder_, [&] { return ++looks < 3; }); }),
              HasSubstr("ended before it saved"));
  EXPECT_FALSE(SaveRequests(folder_).is_asked());
}

TEST_F(AskedSave, LinksAndFoldersAreNoRequests) {
  std::filesystem::create_symlink("/etc/passwd", folder_ + "/save.request");
  EXPECT_FALSE(SaveRequests(folder_).is_asked());
  EXPECT_FALSE(SaveRequests("").is_asked());
  EXPECT_THAT(complaint_of([] { ask_for_save("/no/such/run", [] { return true; }); }),
              HasSubstr("'/no/such/run': No such file or directory. Name the folder of a run"));
}

}  // namespace
}  // namespace tessera::checkpoint
