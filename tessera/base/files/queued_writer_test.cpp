#include "tessera/base/files/queued_writer.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tessera/base/clock.hpp"
#include "tessera/base/text.hpp"

namespace tessera {
namespace {

// Its writing end stays open: the thread of a writer that has gone may still look at it.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(pipe2(ends_, O_CLOEXEC), 0); }
  ~Pipe() { close_reader(); }
  int writer() const { return ends_[1]; }
  void close_reader() {
    if (ends_[0] >= 0) ::close(ends_[0]);
    ends_[0] = -1;
  }
  // So many bytes.
  std::string read(std::size_t count) const {
    std::string out(count, '\0');
    std::size_t got = 0;
    while (got < count) {
      const ssize_t n = ::read(ends_[0], out.data() + got, count - got);
      if (n <= 0) break;
      got += static_cast<std::size_t>(n);
    }
    out.resize(got);
    return out;
  }

 private:
  int ends_[2] = {-1, -1};
};

TEST(QueuedWriter, WritesAllInOrder) {
  const Pipe pipe;
  QueuedWriter writer({.descriptor = pipe.writer()});
  std::string expected;
  for (int i = 0; i < 100; ++i) {
    writer.write(cat("line ", i, "\n"));
    expected += cat("line ", i, "\n");
  }
  EXPECT_TRUE(writer.wait(10));
  EXPECT_EQ(pipe.read(expected.size()), expected);
}

TEST(QueuedWriter, AReaderWhoTakesNothingHoldsNobodyUpAndLaterGetsAll) {
  const Pipe pipe;
  QueuedWriter writer({.descriptor = pipe.writer()});
  const std::string line = std::string(999, 'x') + "\n";
  const double begin = now_seconds();
  for (int i = 0; i < 1000; ++i) writer.write(line);  // 1 MB; a pipe holds 64 KiB
  EXPECT_LT(now_seconds() - begin, 1);
  EXPECT_FALSE(writer.wait(0.1));
  EXPECT_EQ(pipe.read(1000 * line.size()).size(), 1000 * line.size());
  EXPECT_TRUE(writer.wait(10));
  EXPECT_EQ(writer.num_dropped(), 0u);
}

TEST(QueuedWriter, TheOldestGoWhenTooManyWait) {
  const Pipe pipe;
  QueuedWriter writer({.descriptor = pipe.writer(), .most_bytes = 10'000});
  const std::string line = std::string(999, 'x') + "\n";
  for (int i = 0; i < 1000; ++i) writer.write(line);
  writer.write("the last one\n");
  EXPECT_GT(writer.num_dropped(), 900u - 64u);
  EXPECT_LT(writer.num_dropped(), 1000u);
  std::string all;
  std::thread reader([&] {
    while (all.find("the last one\n") == std::string::npos) all += pipe.read(1);
  });
  EXPECT_TRUE(writer.wait(10));
  reader.join();
  EXPECT_EQ(all.size(), (1000 - writer.num_dropped()) * line.size() + 13);
}

TEST(QueuedWriter, SaysOnceThatTheReaderTakesNothing) {
  const Pipe pipe;
  std::atomic<int> times = 0;
  QueuedWriter writer(
      {.descriptor = pipe.writer(), .blocked_after_seconds = 0.2, .on_blocked = [&times] { ++times; }});
  writer.write(std::string(100'000, 'x'));
  EXPECT_FALSE(writer.wait(0.6));
  EXPECT_EQ(times, 1);
  EXPECT_EQ(pipe.read(100'000).size(), 100'000u);
  EXPECT_TRUE(writer.wait(10));
  writer.write(std::string(100'000, 'x'));
  EXPECT_FALSE(writer.wait(0.6));
  EXPECT_EQ(times, 2);
}

TEST(QueuedWriter, AReaderWhoHasGoneIsNoReasonToWait) {
  ::signal(SIGPIPE, SIG_IGN);
  Pipe pipe;
  pipe.close_reader();
  QueuedWriter writer({.descriptor = pipe.writer()});
  for (int i = 0; i < 10; ++i) writer.write("line\n");
  EXPECT_TRUE(writer.wait(10));
}

}  // namespace
}  // namespace tessera
