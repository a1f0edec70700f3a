// Hashes that tell whether bytes are the ones that were written. One hash per chunk of a file, so that
// whoever reads a part checks that part.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tessera::checkpoint {

inline constexpr std::uint64_t kChunkBytes = 1 << 20;

// XXH3, 64 bits.
std::uint64_t hash_of(std::span<const std::byte> bytes);

// Sixteen small hexadecimal digits.
std::string hash_text(std::uint64_t hash);

// Of bytes that come piece by piece: the hash of each chunk, the last of which may be short.
class ChunkHasher {
 public:
  ChunkHasher();
  ~ChunkHasher();
  void add(std::span<const std::byte> bytes);
  std::uint64_t bytes() const { return bytes_; }
  // Of all that was added; nothing may be added afterwards.
  std::vector<std::uint64_t> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::uint64_t bytes_ = 0;
  std::vector<std::uint64_t> hashes_;
};

}  // namespace tessera::checkpoint
