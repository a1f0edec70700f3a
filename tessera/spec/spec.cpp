#include "tessera/spec/spec.hpp"

namespace tessera::spec {

std::int64_t required_virtual_stages(Schedule schedule) {
  switch (schedule) {
    case Schedule::gpipe:
    case Schedule::f1b1:
    case Schedule::zb_h1:
    case Schedule::pipedream_2bw:
      return 1;
    case Schedule::zb_v:
    case Schedule::dualpipe_v:
      return 2;
    case Schedule::interleaved:
    case Schedule::bfs:
    case Schedule::automatic:
      break;
  }
  return 0;
}

std::int64_t Layout::num_virtual() const {
  if (virtual_stages > 0) return virtual_stages;
  const std::int64_t required = required_virtual_stages(schedule);
  return required > 0 ? required : 2;
}

}  // namespace tessera::spec
