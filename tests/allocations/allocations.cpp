// Does a step in steady state ask the system for memory? malloc and its kin and mmap are counted by this
// executable, which puts its own in front of them, for all libraries of the process.
//   build/release/tests/allocations                 1f1b and ZeRO-3, ranks as threads and as processes
//   build/release/tests/allocations CASE TRANSPORT  one of them: 1f1b or zero-3, threads or sockets
// Exits with 1 when a step after the third asked for more than 64 KiB at a time, and says who did.
#include <c10/core/CPUAllocator.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/job/ranks.hpp"
#include "tessera/spec/problems.hpp"
#include "tessera/tensor/arena.hpp"
#include "tessera/train/session.hpp"

namespace {

constexpr std::size_t kLargeBytes = std::size_t{64} << 10;
constexpr int kFrames = 24, kCalls = 64;

struct Call {
  const char* name = nullptr;
  std::size_t bytes = 0;
  int num_frames = 0;
  std::array<void*, kFrames> frames = {};
};

std::atomic<bool> counting = false;
std::atomic<std::int64_t> num_calls = 0, num_bytes = 0;
std::array<Call, kCalls> calls;  // the first of them, with who called
thread_local bool inside = false;

void count(const char* name, std::size_t bytes) {
  if (bytes <= kLargeBytes || !counting.load(std::memory_order_relaxed) || inside) return;
  inside = true;
  const auto index = static_cast<std::size_t>(num_calls++);
  num_bytes += static_cast<std::int64_t>(bytes);
  if (index < calls.size()) {
    Call& call = calls[index];
    call = {name, bytes, 0, {}};
    call.num_frames = backtrace(call.frames.data(), kFrames);
  }
  inside = false;
}

}  // namespace

// glibc's own, under the names that it keeps for those who stand in front of them.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t bytes) {
  count("malloc", bytes);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t number, std::size_t bytes) {
  count("calloc", number * bytes);
  return __libc_calloc(number, bytes);
}
void* realloc(void* block, std::size_t bytes) {
  count("realloc", bytes);
  return __libc_realloc(block, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  count("memalign", bytes);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count("aligned_alloc", bytes);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t bytes) {
  count("posix_memalign", bytes);
  *out = __libc_memalign(alignment, bytes);
  return *out ? 0 : ENOMEM;
}
void* mmap(void* address, std::size_t bytes, int access, int flags, int file, off_t offset) {
  using Mmap = void* (*)(void*, std::size_t, int, int, int, off_t);
  static const auto system = reinterpret_cast<Mmap>(dlsym(RTLD_NEXT, "mmap"));
  count("mmap", bytes);
  return system(address, bytes, access, flags, file, offset);
}
void* mmap64(void* address, std::size_t bytes, int access, int flags, int file, off_t offset) {
  return mmap(address, bytes, access, flags, file, offset);
}
}

namespace tessera {
namespace {

// What LibTorch takes for itself must be seen, or zeros would mean nothing.
void check_counter() {
  counting = true;
  c10::GetDefaultCPUAllocator()->allocate(2 * kLargeBytes);
  counting = false;
  TESSERA_CHECK(num_calls == 1 && num_bytes == 2 * static_cast<std::int64_t>(kLargeBytes),
                "the counter sees ", num_calls.load(), " calls where one was made");
  num_calls = num_bytes = 0;
}

constexpr int kWarmSteps = 3, kCountedSteps = 4;

// Values of half a megabyte, flat buffers of some.
spec::Run run_of(const std::string& which, const std::string& transport) {
  spec::Run run;
  run.model = {
      .layers = 4, .hidden = 256, .heads = 4, .kv_heads = 4, .ffn = 640, .vocab = 1024, .sequence = 256};
  run.training.global_batch = 16;
  run.layout.micro_batch = 2;
  if (which == "1f1b") {
    run.layout.pp = 2;
    run.layout.schedule = "1f1b"_schedule;
  } else if (which == "zero-3") {
    run.layout.dp_shard = 2;
    run.layout.zero = 3;
  } else {
    throw UserError(cat("no case ", which, ": 1f1b or zero-3"));
  }
  run.cluster.transport = transport == "sockets" ? spec::Transport::sockets : spec::Transport::threads;
  spec::validate(run, {});
  return run;
}

void tell_calls() {
  for (std::size_t i = 0; i < std::min<std::size_t>(calls.size(), static_cast<std::size_t>(num_calls)); ++i) {
    std::fprintf(stderr, "%s of %zu bytes\n", calls[i].name, calls[i].bytes);
    backtrace_symbols_fd(calls[i].frames.data(), calls[i].num_frames, STDERR_FILENO);
  }
}

// One rank; ranks as threads are counted together, by rank 0.
void count_steps(const spec::Run& run, const job::Rank& rank, const std::string& title) {
  train::Session session(train::session_plan(run), rank.communicator, train::random_source(run.model), {},
                         rank.log);
  for (int step = 0; step < kWarmSteps; ++step) session.step();
  const bool counts = rank.communicator.rank() == 0 || run.cluster.transport != spec::Transport::threads;
  session.meet();
  const std::int64_t growths = tensor::arena_count().growths;
  if (counts) counting = true;
  session.meet();
  engine::StepReport report;
  for (int step = 0; step < kCountedSteps; ++step) report = session.step();
  session.meet();
  if (!counts) return session.meet();
  counting = false;
  const auto arena = tensor::arena_count();
  const std::int64_t found = num_calls + arena.growths - growths;
  std::printf(
      "%s, rank %d: %lld calls over 64 KiB (%lld bytes), %lld growths of the arena in %d steps; tensors held "
      "%.1f MB, the arena %.1f MB\n",
      title.c_str(), rank.communicator.rank(), static_cast<long long>(num_calls),
      static_cast<long long>(num_bytes), static_cast<long long>(arena.growths - growths), kCountedSteps,
      static_cast<double>(report.at_peak.total()) / 1e6, static_cast<double>(arena.most_used) / 1e6);
  std::fflush(stdout);
  tell_calls();
  session.meet();
  if (found != 0) throw UserError(cat(title, ": a step in steady state asked the system for memory"));
}

int run_case(const std::string& which, const std::string& transport) {
  const spec::Run run = run_of(which, transport);
  const std::string title = cat(which, ", ", transport);
  return job::on_ranks(run, {.argv = {"allocations", which, transport}},
                       [&](const job::Rank& rank) { count_steps(run, rank, title); });
}

int run_alone(const char* program, const char* which, const char* transport) {
  const pid_t child = fork();
  if (child == 0) {
    execl(program, program, which, transport, nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  std::array<void*, 1> frames;
  backtrace(frames.data(), 1);  // its first call loads a library
  if (argc == 3) {
    try {
      tessera::check_counter();
      return tessera::run_case(argv[1], argv[2]);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "allocations: %s\n", error.what());
      return 1;
    }
  }
  int failures = 0;
  for (const char* which : {"1f1b", "zero-3"})
    for (const char* transport : {"threads", "sockets"})
      failures += tessera::run_alone("/proc/self/exe", which, transport) == 0 ? 0 : 1;
  return failures == 0 ? 0 : 1;
}
