// When does something start and end?
#pragma once

namespace tessera::program {

struct Span {
  double start = 0, end = 0;  // seconds, or the unit of the costs
  bool operator==(const Span&) const = default;
};

}  // namespace tessera::program
