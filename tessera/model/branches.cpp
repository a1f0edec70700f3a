#include "tessera/model/branches.hpp"

#include "tessera/base/error.hpp"

namespace tessera::model {

namespace {
constexpr std::size_t kPiecesOfBranch = 3;
}

Carried enter(std::size_t first, std::size_t count, std::vector<tensor::Tensor> values) {
  const std::size_t into = first % kPiecesOfBranch;
  const std::size_t expected = into != 0 && into + count >= kPiecesOfBranch ? 2 : 1;
  TESSERA_CHECK(count > 0 && values.size() == expected, values.size(), " values for ", count, " pieces from ",
                first);
  if (into == 0) return {std::move(values[0]), {}};
  return {expected == 2 ? std::move(values[1]) : tensor::Tensor(), std::move(values[0])};
}

std::vector<tensor::Tensor> leave(std::size_t first, std::size_t count, Carried carried) {
  return {(first + count) % kPiecesOfBranch == 0 ? std::move(carried.x) : std::move(carried.branch)};
}

}  // namespace tessera::model
