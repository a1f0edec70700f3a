// The bytes that a rank moved in a step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

// Calls of one kind along one axis set of the program.
struct MovedAlong {
  std::string axes;  // "tp", "shard.gradients"
  std::string kind;  // "all_gather", "send"
  std::int64_t calls = 0;
  std::int64_t bytes = 0;  // of the whole arrays
  std::int64_t sent_bytes =
      0;  // what a ring sends from this rank: (n-1)/n of the whole, twice that for a sum that all get
  bool operator==(const MovedAlong&) const = default;
};

struct BytesMoved {
  std::vector<MovedAlong> along;            // where there were calls, in the order of the axis sets
  std::int64_t offloaded = 0, fetched = 0;  // copied out of its memory and back
  bool operator==(const BytesMoved&) const = default;

  std::int64_t sent() const {
    std::int64_t out = 0;
    for (const MovedAlong& part : along) out += part.sent_bytes;
    return out;
  }
};

}  // namespace tessera
