// Checks that ranks that are threads compute the same bits in every fresh process. Processes of `tessera
// verify`, more at a time than there are cores, must all print the same, character by character: errors, and
// a hash of all bits. Why that once failed: Note [First calls] in tensor/warm_up.hpp.
//   first_calls BINARY PRELOAD [COUNT] [AT_ONCE]  COUNT processes a layout (1000), AT_ONCE at a time (6)
//   first_calls --threads                         3 threads make their first calls at once; exits with 1
//                                                 if one differs
//   first_calls --ranks                           the same as ranks
// The library PRELOAD widens the moment in which first calls go wrong: with it threads must differ, ranks
// must not.
#include <atomic>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera {
namespace {

using tensor::Tensor;

constexpr int kThreads = 3;

const char* const kLayouts[] = {
    "examples/layouts-llama.toml layout.pp=5",
    "examples/layouts-llama.toml layout.pp=2 layout.dp_replicate=2",
    "examples/layouts-gpt2.toml layout.dp_replicate=2 layout.cp=2",
};

// Called by each thread with its number.
using Body = std::function<void(int)>;

void on_threads(int count, const Body& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (auto& thread : threads) thread.join();
}

void on_ranks(const Body& body) {
  collective::run_ranks(kThreads, [&](const collective::Communicator& me) { body(me.rank()); });
}

// Whether all threads get the bits that a later call gets.
bool first_calls_agree(const std::function<void(const Body&)>& run) {
  const Tensor x = tensor::zeros({8192}, at::kDouble).add_(1).cumsum(0).mul_(0.01);
  std::vector<Tensor> found(kThreads);
  std::barrier start(kThreads);
  run([&](int thread) {
    start.arrive_and_wait();
    found[static_cast<std::size_t>(thread)] = x.cos();
  });
  const Tensor right = x.cos();
  return std::ranges::all_of(found, [&](const Tensor& t) { return tensor::bit_equal(t, right); });
}

struct Ended {
  int status = 0;
  std::string told;
};

Ended run(const std::string& command) {
  FILE* child = popen(command.c_str(), "r");
  TESSERA_CHECK(child, "no process for: ", command);
  Ended out;
  char piece[4096];
  for (std::size_t size; (size = std::fread(piece, 1, sizeof piece, child)) > 0;)
    out.told.append(piece, size);
  out.status = pclose(child);
  return out;
}

// How many of `count` processes of `command` fail, or say something else than `expected`; `at_once` of them
// run at a time.
int others(const std::string& command, const std::string& expected, int count, int at_once) {
  std::atomic<int> begun = 0, ended = 0, other = 0;
  on_threads(at_once, [&](int) {
    while (begun++ < count) {
      const Ended one = run(command);
      if (one.status != 0 || one.told != expected) {
        ++other;
        std::printf("exit status %d, says otherwise: %s\n", one.status, one.told.c_str());
      }
      if (++ended % 100 == 0) std::printf("  %d processes, %d differ\n", ended.load(), other.load());
      std::fflush(stdout);
    }
  });
  return other;
}

int run_all(const std::string& self, const std::string& binary, const std::string& preload, int count,
            int at_once) {
  const std::string held_open = cat("LD_PRELOAD='", preload, "' ");
  int differ = 0, processes = 0;
  const bool is_seen = run(cat(held_open, "'", self, "' --threads")).status != 0;
  const bool ranks_agree = run(cat(held_open, "'", self, "' --ranks")).status == 0;
  std::printf("first calls held open: threads %s, ranks %s\n",
              is_seen ? "differ, as they must" : "AGREE: the trial sees nothing",
              ranks_agree ? "agree" : "DIFFER");
  const double begin = now_seconds();
  for (const char* layout : kLayouts) {
    const std::string command = cat("'", binary, "' verify ", layout, " --json");
    const Ended first = run(command);
    TESSERA_CHECK(first.status == 0 && first.told.find("\"bits\"") != std::string::npos,
                  "not equal to one device: ", command, "\n", first.told);
    const int held = others(held_open + command, first.told, 2, 1),
              own = others(command, first.told, count, at_once);
    std::printf("%s: %d of %d fresh processes differ; %d of 2 with first calls held open\n", layout, own,
                count, held);
    differ += own + held;
    processes += count;
  }
  std::printf("%d processes, %d at a time, in %s, %d differ\n", processes, at_once,
              duration_text(now_seconds() - begin).c_str(), differ);
  return is_seen && ranks_agree && differ == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  using namespace tessera;
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--threads")
    return first_calls_agree([](const Body& body) { on_threads(kThreads, body); }) ? 0 : 1;
  if (first == "--ranks") return first_calls_agree(on_ranks) ? 0 : 1;
  if (argc < 3) {
    std::fprintf(stderr, "usage: first_calls BINARY PRELOAD [COUNT] [AT_ONCE]\n");
    return 2;
  }
  return run_all(argv[0], first, argv[2], argc > 3 ? std::atoi(argv[3]) : 1000,
                 argc > 4 ? std::atoi(argv[4]) : 6);
}
