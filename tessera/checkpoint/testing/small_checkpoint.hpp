// A small checkpoint for tests, with every shape and some dtypes, as ranks under ZeRO write it: each holds a
// range of the elements of each tensor, cut inside rows.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "tessera/base/random.hpp"
#include "tessera/checkpoint/folder/checkpoint.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"
#include "tessera/checkpoint/format/shard_file.hpp"

namespace tessera::checkpoint {

inline std::map<std::string, Tensor> small_tensors() {
  std::map<std::string, Tensor> out = {{"lm_head.weight", {"BF16", {5, 6}}},
                                       {"model.embed_tokens.weight", {"F32", {64, 100}}},
                                       {"model.layers.0.mlp.weight", {"F32", {33, 7}}},
                                       {"model.layers.1.mlp.weight", {"F32", {33, 7}}},
                                       {"model.layers.0.norm.weight", {"F32", {7}}},
                                       {"model.layers.1.norm.weight", {"F32", {7}}},
                                       {"model.experts.weight", {"F32", {3, 5, 9}}},
                                       {"model.nothing", {"F32", {0, 4}}},
                                       {"model.scale", {"F64", {}}}};
  std::map<std::string, Tensor> state;
  for (const auto& [name, tensor] : out) state.emplace("optimizer.exp_avg." + name, tensor);
  out.merge(state);
  return out;
}

// Bytes of a tensor that its name decides: finite numbers of every sign.
inline std::vector<std::byte> small_bytes(const std::string& name, const Tensor& tensor) {
  std::vector<std::byte> out(bytes_of(tensor));
  const std::uint64_t element = element_bytes(tensor.dtype).value();
  for (std::size_t at = 0; at < out.size(); at += element) {
    const double value = static_cast<double>(random_bits(1, name.size(), at) % 2000) / 8 - 125;
    const auto single = static_cast<float>(value);
    if (element == 8) std::memcpy(&out[at], &value, 8);
    if (element == 4) std::memcpy(&out[at], &single, 4);
    if (element == 2) std::memcpy(&out[at], reinterpret_cast<const char*>(&single) + 2, 2);
  }
  return out;
}

inline void save_small(const std::string& folder, std::int64_t step, std::int64_t num_ranks,
                       const std::string& config = "[model]\nlayers = 2\n") {
  const Save save{folder, step, new_save_id()};
  begin_save(save);
  std::map<std::string, std::vector<std::byte>> bytes;
  for (const auto& [name, tensor] : small_tensors()) bytes[name] = small_bytes(name, tensor);
  for (std::int64_t rank = 0; rank < num_ranks; ++rank) {
    std::vector<HeldPiece> held;
    for (const auto& [name, tensor] : small_tensors()) {
      const std::int64_t all = num_elements(tensor.shape), first = all * rank / num_ranks,
                         end = all * (rank + 1) / num_ranks;
      const auto element = static_cast<std::size_t>(element_bytes(tensor.dtype).value());
      auto rest = std::span<const std::byte>(bytes[name]).subspan(static_cast<std::size_t>(first) * element);
      for (const Box& box : boxes_of_range(tensor.shape, first, end - first)) {
        const auto some = rest.first(static_cast<std::size_t>(box.elements()) * element);
        held.push_back({name, tensor.dtype, tensor.shape, box, some});
        rest = rest.subspan(some.size());
      }
      if (all == 0 && rank == 0)
        held.push_back({name, tensor.dtype, tensor.shape, whole_box(tensor.shape), {}});
    }
    Manifest part{.written_by = "test",
                  .progress = {.step = step, .updates = step, .next_sample = 24, .seed = 7},
                  .config = config};
    write_pieces(saving_path(save), rank, held, part);
    write_part(saving_path(save), rank, part);
  }
  commit_save(save, num_ranks);
}

inline std::vector<std::byte> read_whole(Checkpoint& from, const std::string& name) {
  const Tensor& tensor = from.tensor(name);
  std::vector<std::byte> out(bytes_of(tensor));
  from.read(name, whole_box(tensor.shape), out);
  return out;
}

// A folder that goes with the test.
class SmallCheckpoint : public ::testing::Test {
 protected:
  SmallCheckpoint() { std::filesystem::remove_all(folder_); }
  ~SmallCheckpoint() override { std::filesystem::remove_all(folder_); }
  std::string step(std::int64_t step) const { return step_folder(folder_, step).path; }

  std::string folder_ = cat(::testing::TempDir(), "small-checkpoint-", ::getpid());
};

}  // namespace tessera::checkpoint
