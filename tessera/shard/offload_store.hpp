// Keeps a rank's cells while they are not in its memory: in host memory or in files.
#pragma once

#include <compare>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "tessera/program/ir/types.hpp"
#include "tessera/tensor/pinned_ring.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::shard {

// A part of a cell: an optimizer's state has several.
struct OffloadKey {
  program::Cell cell;
  std::size_t part = 0;
  auto operator<=>(const OffloadKey&) const = default;
};

// One caller at a time. A place that was once taken stays taken: what is moved out in each step finds it
// again.
class OffloadStore {
 public:
  // Of tensors of `device`. Into files of that folder, which have no names and end with the process; empty:
  // into host memory, which is pinned if the device is an accelerator. Throws UserError when a file can't be
  // made there; later, when there is no room for what is put.
  explicit OffloadStore(std::string folder = "", at::Device device = at::kCPU);
  ~OffloadStore();

  // Copies the tensor out, over what lay there.
  void put(const OffloadKey& key, const tensor::Tensor& t);
  // Zeros without writing them.
  void put_zeros(const OffloadKey& key, at::IntArrayRef shape, at::ScalarType dtype);
  // A copy, on the device, of what was put last.
  tensor::Tensor get(const OffloadKey& key);
  bool has(const OffloadKey& key) const { return places_.contains(key); }

 private:
  class Place;
  class Memory;
  class Pinned;
  class File;
  struct Stored {
    std::unique_ptr<Place> place;
    tensor::Shape shape;
    at::ScalarType dtype = at::kFloat;
  };
  Stored& stored(const OffloadKey& key, at::IntArrayRef shape, at::ScalarType dtype);

  std::string folder_;
  at::Device device_;
  tensor::PinnedRing ring_;  // what goes to a file from an accelerator and back passes it
  std::unique_ptr<char, void (*)(void*)> buffer_{nullptr,
                                                 std::free};  // what goes to a file and back passes it
  std::map<OffloadKey, Stored> places_;
};

}  // namespace tessera::shard
