// Makes a tensor of a file of `transformers` from ours: fused and transposed as that file wants it, block by
// block.
#pragma once

#include <string>
#include <vector>

#include "tessera/checkpoint/folder/checkpoint.hpp"
#include "tessera/checkpoint/huggingface/foreign.hpp"

namespace tessera::checkpoint {

// Our parameters that make it, in the order of their parts.
struct ForeignTensor {
  std::string name, dtype;  // as it is written
  std::vector<std::string> parts;
  bool transposed = false;
  std::int64_t run = 0, runs = 1;  // of the one part, which of how many equal runs of its elements

  Shape shape(const Checkpoint& from) const;
  std::uint64_t bytes(const Checkpoint& from) const;
};

// Of the checkpoint's parameters, where `is_there` says which names the file has; those that are not there
// are left out.
std::vector<ForeignTensor> foreign_tensors(const Checkpoint& from, const std::string& dtype,
                                           const std::function<bool(const std::string&)>& is_there);
// The same with the names that transformers writes for an architecture of this model_type.
std::vector<ForeignTensor> foreign_tensors(const Checkpoint& from, const std::string& dtype,
                                           std::string_view type);

// Hands its bytes to `take`, a block of them at a time.
void for_each_block(const ForeignTensor& tensor, Checkpoint& from,
                    const std::function<void(std::span<const std::byte>)>& take);

}  // namespace tessera::checkpoint
