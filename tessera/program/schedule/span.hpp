// When something starts and ends.
#pragma once

namespace tessera::program {

struct Span {
  double start = 0, end = 0;  // seconds, or the unit of the costs
  bool operator==(const Span&) const = default;
};

}  // namespace tessera::program
