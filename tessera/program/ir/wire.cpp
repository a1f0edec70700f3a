#include "tessera/program/ir/wire.hpp"

namespace tessera::program {

namespace {

constexpr std::int64_t kScaleBytes = 4;

std::int64_t rounded_up(std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; }

}  // namespace

std::int64_t packed_bytes(std::int64_t elements, Wire wire, std::int64_t block) {
  if (wire == Wire::bf16) return 2 * elements;
  return rounded_up(elements, block) / block * (block + kScaleBytes);
}

std::int64_t chunk_elements(std::int64_t elements, std::int64_t n, const Bucket& bucket) {
  return rounded_up((elements + n - 1) / n, bucket.block);
}

bool is_thin(const Parameter& parameter, std::int64_t rank) {
  if (parameter.shape.size() < 2) return false;
  const std::int64_t rows = parameter.shape.front(), columns = parameter.elements() / rows;
  return rank * (rows + columns) < rows * columns;
}

ThinElements thin_elements(const Bucket& bucket) {
  ThinElements out;
  for (const Parameter& parameter : bucket.parameters) {
    const std::int64_t rows = parameter.shape.front(), columns = parameter.elements() / rows;
    if (!is_thin(parameter, bucket.rank)) {
      out.first += parameter.elements();
      continue;
    }
    out.first += bucket.rank * rows;
    out.second += bucket.rank * columns;
  }
  return out;
}

}  // namespace tessera::program
