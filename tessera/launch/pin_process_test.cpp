#include "tessera/launch/pin.hpp"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <thread>
#include <vector>

namespace tessera::launch {
namespace {

std::vector<int> usable_cpus() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

// What a rank may use, seen by a thread that it starts later. Binding holds for the whole process and must
// not outlive the test, so it happens in a child.
std::vector<int> cpus_of(int local_rank, int local_size) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string share = pin_threads(local_rank, local_size);
    std::vector<int> cpus;
    std::thread([&] { cpus = usable_cpus(); }).join();
    const auto size = static_cast<ssize_t>(cpus.size() * sizeof(int));
    _exit(!share.empty() && write(ends[1], cpus.data(), static_cast<std::size_t>(size)) == size ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  close(ends[1]);
  std::vector<int> cpus(CPU_SETSIZE);
  const ssize_t count = read(ends[0], cpus.data(), cpus.size() * sizeof(int));
  close(ends[0]);
  cpus.resize(static_cast<std::size_t>(count) / sizeof(int));
  return cpus;
}

TEST(Pin, OneRankKeepsEveryCore) { EXPECT_EQ(cpus_of(0, 1), usable_cpus()); }

TEST(Pin, SharesAreWholeCoresAndTogetherAllOfThem) {
  const auto all = usable_cpus();
  const auto first = cpus_of(0, 2), second = cpus_of(1, 2);
  std::vector<int> in_one, in_both;
  std::ranges::set_union(first, second, std::back_inserter(in_one));
  std::ranges::set_intersection(first, second, std::back_inserter(in_both));
  EXPECT_EQ(in_one, all);
  EXPECT_TRUE(in_both.empty() || first == second);  // the latter on a machine with one core
}

TEST(Pin, MoreRanksThanCoresTakeTurns) {
  const int num_cpus = static_cast<int>(usable_cpus().size());
  const auto first = cpus_of(0, 8 * num_cpus);
  std::set<std::vector<int>> distinct;
  for (int rank = 0; rank < num_cpus; ++rank) distinct.insert(cpus_of(rank, 8 * num_cpus));
  EXPECT_EQ(cpus_of(static_cast<int>(distinct.size()), 8 * num_cpus), first);
  EXPECT_LT(first.size(), 9u);
}

}  // namespace
}  // namespace tessera::launch
