// How much did a rank move in a step, besides what it sent to other stages?
#pragma once

#include <cstdint>

namespace tessera {

// Bytes that a rank sent: of gathers and reductions what a ring sends ((n-1)/n of the whole, twice that for a sum that
// all get), of offloads and fetches what was copied out of its memory and back.
struct BytesMoved {
  std::int64_t gathered = 0, reduced = 0, offloaded = 0, fetched = 0;
  bool operator==(const BytesMoved&) const = default;
};

}  // namespace tessera
