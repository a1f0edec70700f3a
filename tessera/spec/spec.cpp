#include "tessera/spec/spec.hpp"

namespace tessera::spec {

std::int64_t Layout::num_virtual() const {
  if (virtual_stages > 0) return virtual_stages;
  switch (schedule) {
    case Schedule::interleaved:
    case Schedule::bfs:
    case Schedule::zb_v:
    case Schedule::dualpipe_v:
    case Schedule::automatic:
      return 2;
    case Schedule::gpipe:
    case Schedule::f1b1:
    case Schedule::zb_h1:
    case Schedule::pipedream_2bw:
      break;
  }
  return 1;
}

}  // namespace tessera::spec
