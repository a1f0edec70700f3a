// Limits of what an input may cost. An input that takes more than a second of processor time or holds more
// than 100 MB at once ends the fuzzer as a crash would.
#pragma once

#include <sanitizer/allocator_interface.h>
#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace tessera::fuzz {

// What must hold of every input.
inline void expect(bool condition) {
  if (!condition) std::abort();
}

// One input's account, from its making to its end.
class Limits {
 public:
  Limits() : begun_(processor_seconds()) {
    static const int hooked = __sanitizer_install_malloc_and_free_hooks(on_allocation, on_free);
    if (hooked == 0) std::abort();
    held_ = 0;
  }
  ~Limits() {
    if (processor_seconds() - begun_ > kSeconds) refuse("took more than a second");
  }
  Limits(const Limits&) = delete;
  Limits& operator=(const Limits&) = delete;

 private:
  static constexpr double kSeconds = 1.0;
  static constexpr std::int64_t kBytes = 100'000'000;

  static double processor_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  }
  [[noreturn]] static void refuse(const char* why) {
    std::fprintf(stderr, "this input %s\n", why);
    std::abort();
  }
  static void on_allocation(const volatile void*, std::size_t bytes) {
    held_ += static_cast<std::int64_t>(bytes);
    if (held_ > kBytes) refuse("held more than 100 MB");
  }
  static void on_free(const volatile void* at) {
    if (at) held_ -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(at)));
  }

  static inline thread_local std::int64_t held_ = 0;
  double begun_;
};

}  // namespace tessera::fuzz
