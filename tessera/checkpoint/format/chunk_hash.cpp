#include "tessera/checkpoint/format/chunk_hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

namespace tessera::checkpoint {

std::uint64_t hash_of(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::string hash_text(std::uint64_t hash) {
  std::string out(16, '0');
  for (auto digit = out.rbegin(); digit != out.rend(); ++digit, hash >>= 4)
    *digit = "0123456789abcdef"[hash & 15];
  return out;
}

struct ChunkHasher::State {
  XXH3_state_t hash;
};

ChunkHasher::ChunkHasher() : state_(std::make_unique<State>()) { XXH3_64bits_reset(&state_->hash); }
ChunkHasher::~ChunkHasher() = default;

void ChunkHasher::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t room = kChunkBytes - bytes_ % kChunkBytes;
    const auto some = bytes.first(std::min<std::size_t>(room, bytes.size()));
    XXH3_64bits_update(&state_->hash, some.data(), some.size());
    bytes_ += some.size();
    bytes = bytes.subspan(some.size());
    if (bytes_ % kChunkBytes != 0) continue;
    hashes_.push_back(XXH3_64bits_digest(&state_->hash));
    XXH3_64bits_reset(&state_->hash);
  }
}

std::vector<std::uint64_t> ChunkHasher::finish() {
  if (bytes_ % kChunkBytes != 0) hashes_.push_back(XXH3_64bits_digest(&state_->hash));
  return std::move(hashes_);
}

}  // namespace tessera::checkpoint
