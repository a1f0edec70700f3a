// Picks the form of a function that was compiled for this CPU's instructions.
#pragma once

namespace tessera {

// Chosen by hand: target_clones makes the loader choose, before the thread sanitizer is ready, and that
// crashes.
template <typename Function>
Function* for_this_cpu([[maybe_unused]] Function* with_avx512f, [[maybe_unused]] Function* with_avx2,
                       Function* plain) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return with_avx512f;
  if (__builtin_cpu_supports("avx2")) return with_avx2;
#endif
  return plain;
}

}  // namespace tessera
