// The allocator of CPU tensors. Large ones share one range of addresses that grows to what a step needs and
// then stays, so that a step asks the system for nothing; all of it is written to accounts.
#pragma once

#include "tessera/tensor/account.hpp"
#include "tessera/tensor/heap.hpp"

namespace at {
class Tensor;
}

namespace tessera::tensor {

// From this size on memory comes from the range; below it from malloc. Both are counted.
inline constexpr std::int64_t kLargeBytes = std::int64_t{64} << 10;

// From now on, for this process, once and for all; before other threads run. Tensors made earlier are given
// back where they came from, and are in no account.
void use_arena();
bool uses_arena();
// Of the range; all zero before use_arena().
Heap::Count arena_count();

// The memory under the tensor is held as this category from now on. Nothing for what is not from the arena:
// memory of others, of devices, of before.
void hold_as(const at::Tensor& t, Category category);

}  // namespace tessera::tensor
