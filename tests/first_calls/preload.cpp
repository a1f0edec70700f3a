// What if two threads make their first call of a vector function at once? A library for LD_PRELOAD that does
// what MKL's own mkl_vml_serv_cpu_detect does (Note [First calls] in tensor/warm_up.hpp), with 20 ms between
// its two stores instead of some nanoseconds, so that the second thread always comes between them.
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

extern "C" {

int mkl_serv_vml_cpu_detect();

int mkl_vml_serv_cpu_detect() {
  constexpr useconds_t kBetweenStores = 20'000;
  static std::atomic<int> kind = -1;
  if (kind != -1) return kind;
  using Detect = int (*)();
  const auto real = reinterpret_cast<Detect>(dlsym(RTLD_NEXT, "mkl_vml_serv_cpu_detect"));
  if (!real) std::abort();
  kind = mkl_serv_vml_cpu_detect();
  usleep(kBetweenStores);
  kind = real();
  return kind;
}
}
