#include "tessera/metrics/outputs/record_file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/metrics/outputs/json_lines.hpp"

namespace tessera::metrics {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Writes beyond so many bytes of any file fail while it lives, as on a full disk.
class SmallDisk {
 public:
  explicit SmallDisk(rlim_t bytes) {
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit small{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  ~SmallDisk() { setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

class Files : public testing::Test {
 protected:
  Files() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~Files() override { std::filesystem::remove_all(folder_); }

  RecordFileOptions options() const {
    return {.path = path_, .option = "--out", .open = [this] {
              return open(path_.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
            }};
  }
  void put(const std::string& text) const { std::ofstream(path_) << text; }
  std::string text() const { return file_text(path_); }
  std::string superseded() const { return file_text(superseded_path(path_)); }
  ino_t inode() const {
    struct stat facts {};
    EXPECT_EQ(stat(path_.c_str(), &facts), 0);
    return facts.st_ino;
  }

  const std::string folder_ = cat(testing::TempDir(), "tessera_records_", ::getpid());
  const std::string path_ = folder_ + "/metrics.jsonl";
};
using RecordFiles = Files;
using History = Files;

TEST_F(RecordFiles, WhatTheDiskRefusesIsWrittenOnceItTakesItAgain) {
  RecordFile file(options());
  std::string all;
  const auto add = [&](std::int64_t step) {
    const std::string record = cat(step, std::string(28, '.'), "\n");
    all += record;
    file.add(step, record);
  };
  {
    const SmallDisk disk(100);
    for (std::int64_t step = 1; step <= 9; ++step) add(step);
    EXPECT_EQ(text(), all.substr(0, 90)) << "whole records, as far as they go";
    EXPECT_THAT(file.take_news(),
                ElementsAre(cat("warning: cannot write to '", path_,
                                "': File too large. Training goes on; what is missing there is "
                                "tried again after each step.")));
  }
  add(10);
  EXPECT_EQ(text(), all);
  EXPECT_THAT(file.take_news(), ElementsAre(cat("'", path_, "' is written again; nothing is missing")));
  file.finish();
  EXPECT_THAT(file.incomplete(), IsEmpty());
  EXPECT_THAT(file.take_news(), IsEmpty());
}

TEST_F(RecordFiles, WhatWaitsIsBoundedAndWhatIsLostIsMarked) {
  auto options = this->options();
  options.most_waiting_bytes = 25;
  options.mark = [](StepRange lost) { return cat("lost ", lost.first, "-", lost.last, "\n"); };
  RecordFile file(options);
  const auto add = [&](std::int64_t step) { file.add(step, cat("record ", step, "\n")); };
  add(1);
  {
    const SmallDisk disk(9);
    for (std::int64_t step = 2; step <= 6; ++step) add(step);
  }
  add(7);
  EXPECT_EQ(text(), "record 1\nlost 2-4\nrecord 5\nrecord 6\nrecord 7\n");
  EXPECT_THAT(file.incomplete(), HasSubstr("is incomplete: it lacks steps 2 to 4"));
  EXPECT_THAT(file.take_news().back(), HasSubstr("is written again; it lacks steps 2 to 4"));
}

TEST_F(RecordFiles, ADiskThatStaysFullIsToldOfAtTheEnd) {
  const SmallDisk disk(5);
  RecordFile file(options());
  file.add(1, "0123456789\n");
  file.finish();
  EXPECT_THAT(file.take_news().back(), HasSubstr("is incomplete: it lacks step 1 (cannot write to"));
  EXPECT_EQ(text(), "");
}

TEST_F(RecordFiles, OnlyWhatPassesIsWaitedForAtTheStart) {
  auto options = this->options();
  int failures = 0;
  options.open = [&, open = options.open] {
    if (++failures < 3) throw WriteError("open", path_, ENOSPC, "--out");
    return open();
  };
  RecordFile file(options);
  file.add(1, "a\n");
  file.add(2, "b\n");
  EXPECT_EQ(text(), "a\nb\n");
  options.open = [&]() -> int { throw WriteError("open", path_, EACCES, "--out"); };
  EXPECT_THROW(RecordFile{options}, UserError);
}

std::string line(std::int64_t step, const char* more = "") { return cat("{\"step\": ", step, more, "}\n"); }

TEST_F(History, LinesOfStepsThatAreMadeAgainMoveToAnotherFile) {
  put(line(1) + line(2) + line(3) + line(4));
  {
    JsonLines lines(path_, 2);
    lines.write(3, Record{{"step", 3}, {"again", true}});
  }
  EXPECT_EQ(text(), line(1) + line(2) + line(3, ", \"again\": true"));
  EXPECT_EQ(superseded(), line(3) + line(4));
  { JsonLines lines(path_, 0); }
  EXPECT_EQ(text(), "");
  EXPECT_EQ(superseded(), line(3) + line(4) + line(1) + line(2) + line(3, ", \"again\": true"));
}

TEST_F(History, ALastLineThatWasCutOffGoesAndOneWithoutItsEndGetsIt) {
  put(line(1) + "{\"step\": 2, \"lo");
  { JsonLines lines(path_, 2); }
  EXPECT_EQ(text(), line(1));
  put(line(1) + "{\"step\": 2}");
  { JsonLines lines(path_, 2); }
  EXPECT_EQ(text(), line(1) + line(2));
  EXPECT_FALSE(std::filesystem::exists(superseded_path(path_)));
}

TEST_F(History, ACopyMadeOfHardLinksKeepsItsContent) {
  const std::string copy = folder_ + "/copy", copy_of_superseded = folder_ + "/superseded";
  put(line(1) + line(2));
  std::filesystem::create_hard_link(path_, copy);
  {
    JsonLines lines(path_, 2);  // nothing goes, and still
    lines.write(3, Record{{"step", 3}});
  }
  EXPECT_EQ(file_text(copy), line(1) + line(2));
  EXPECT_EQ(text(), line(1) + line(2) + line(3));
  { JsonLines lines(path_, 2); }
  std::filesystem::create_hard_link(superseded_path(path_), copy_of_superseded);
  { JsonLines lines(path_, 1); }
  EXPECT_EQ(file_text(copy_of_superseded), line(3));
  EXPECT_EQ(superseded(), line(3) + line(2));
}

TEST_F(History, AFileThatStaysAsItIsIsNotRewritten) {
  put(line(1) + line(2));
  const ino_t before = inode();
  { JsonLines lines(path_, 2); }
  EXPECT_EQ(inode(), before);
}

TEST_F(History, ADiskThatIsFullAtTheStartKeepsWhatIsThere) {
  put(line(1) + line(2) + line(3));
  {
    const SmallDisk disk(10);
    JsonLines lines(path_, 2);
    lines.write(3, Record{{"step", 3}, {"again", true}});
    EXPECT_EQ(text(), line(1) + line(2) + line(3));
    lines.file().finish();
    EXPECT_THAT(lines.file().incomplete(), HasSubstr("it lacks step 3"));
  }
  EXPECT_EQ(text(), line(1) + line(2) + line(3));
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    EXPECT_THAT(entry.path().string(), testing::Not(HasSubstr(".tmp")));
}

TEST_F(History, WhatIsNoFileIsRefused) {
  std::filesystem::create_directory(path_);
  EXPECT_THROW(JsonLines{path_}, UserError);
}

}  // namespace
}  // namespace tessera::metrics
