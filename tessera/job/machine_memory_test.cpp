#include "tessera/job/machine_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/text.hpp"

namespace tessera::job {
namespace {

// A root folder with the files of /proc and /sys that a test writes.
class MemoryOfAHost : public testing::Test {
 protected:
  MemoryOfAHost() {
    write("/proc/meminfo", "MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 800 kB\nSwapFree: 7 kB\n");
  }
  ~MemoryOfAHost() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  std::string root_ = cat(testing::TempDir(), "machine-memory-", ::getpid());
};

TEST_F(MemoryOfAHost, WithoutAControlGroupIsWhatTheSystemSays) {
  write("/proc/self/cgroup", "0::/\n");
  const MachineMemory found = machine_memory(root_);
  EXPECT_EQ(found.total_bytes, 1000 * 1024);
  EXPECT_EQ(found.free_bytes(), 800 * 1024);
  EXPECT_EQ(found.free_swap_bytes, 7 * 1024);
  EXPECT_EQ(found.group, std::nullopt);
}

TEST_F(MemoryOfAHost, IsLimitedByEveryGroupAboveTheProcessInVersionTwo) {
  write("/proc/self/cgroup", "0::/job/step/task\n");
  write("/sys/fs/cgroup/job/memory.max", "400000\n");
  write("/sys/fs/cgroup/job/memory.current", "150000\n");
  write("/sys/fs/cgroup/job/memory.stat",
        "anon 50000\nfile 100000\ninactive_file 80000\nactive_file 10000\n");
  write("/sys/fs/cgroup/job/step/memory.max", "max\n");
  write("/sys/fs/cgroup/job/step/task/memory.max", "500000\n");
  write("/sys/fs/cgroup/job/step/task/memory.current", "300000\n");
  EXPECT_EQ(machine_memory(root_).group, (GroupMemory{400000, 200000}));
}

TEST_F(MemoryOfAHost, IsLimitedByAGroupOfVersionOneAndByThatOfItsContainer) {
  write("/proc/self/cgroup", "4:memory:/docker/abc\n0::/\n");
  write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "300000\n");
  write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100000\n");
  write("/sys/fs/cgroup/memory/memory.stat", "total_inactive_file 30000\ntotal_active_file 20000\n");
  EXPECT_EQ(machine_memory(root_).group, (GroupMemory{300000, 250000})) << "its own path is the host's";
  write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(machine_memory(root_).usable_bytes(), 300000);
}

}  // namespace
}  // namespace tessera::job
