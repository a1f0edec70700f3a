// What a block carries between its pieces: the stream, and what the branch beside it has come to. Every
// branch is three pieces: one leaves the stream, one works, one adds to the stream.
#pragma once

#include <vector>

#include "tessera/tensor/tensor.hpp"

namespace tessera::model {

struct Carried {
  tensor::Tensor x, branch;
};

// From the values that pieces [first, first + count) read, as the plan lists them: a branch entered in its
// midst comes first, the stream after it, if it is added to.
Carried enter(std::size_t first, std::size_t count, std::vector<tensor::Tensor> values);

// The one value that these pieces write.
std::vector<tensor::Tensor> leave(std::size_t first, std::size_t count, Carried carried);

}  // namespace tessera::model
