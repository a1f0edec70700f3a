// Two threads that make their first call of a vector function at once. A library for LD_PRELOAD that does
// what MKL's own mkl_vml_serv_cpu_detect does (Note [First calls] in tensor/warm_up.hpp), but between its two
// stores waits for a second thread to come, 300 ms at most. MKL takes some nanoseconds there.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

extern "C" {

int mkl_serv_vml_cpu_detect();

int mkl_vml_serv_cpu_detect() {
  constexpr int kMostWaits = 300;
  constexpr useconds_t kWait = 1'000;
  static std::atomic<int> kind = -1, callers = 0;
  static std::atomic<bool> has_second = false;
  if (callers++ > 0) {
    while (kind == -1) usleep(1);
    has_second = true;
    return kind;
  }
  using Detect = int (*)();
  const auto real = reinterpret_cast<Detect>(dlsym(RTLD_NEXT, "mkl_vml_serv_cpu_detect"));
  if (!real) std::abort();
  kind = mkl_serv_vml_cpu_detect();
  for (int i = 0; i < kMostWaits && !has_second; ++i) usleep(kWait);
  kind = real();
  return kind;
}
}
