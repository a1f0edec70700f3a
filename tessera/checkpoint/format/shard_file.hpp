// The files that a rank writes: the boxes it holds, as safetensors files that other readers understand, at
// most one box of a tensor in a file, and where it lies in the whole tensor as PyTorch's distributed
// checkpoint expects it.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/checkpoint/format/manifest.hpp"

namespace tessera::checkpoint {

struct HeldPiece {
  std::string tensor;
  std::string dtype;
  Shape shape;  // of the whole tensor
  Box box;
  std::span<const std::byte> bytes;  // row-major
};

// Writes `rank-00003.safetensors`, and `rank-00003-2.safetensors` and so on for further boxes of the same
// tensors; no file for a rank without pieces. Throws DiskError.
class ShardWriter {
 public:
  // The pieces in the order in which their bytes will come; what `bytes` holds of them doesn't matter yet.
  ShardWriter(const std::string& folder, std::int64_t rank, std::span<const HeldPiece> pieces);
  // Of the next piece, or the next part of it.
  void append(std::span<const std::byte> bytes);
  // Adds tensors, files and pieces to `part`.
  void finish(Manifest& part);

 private:
  std::vector<std::unique_ptr<FileWriter>> files_;
  std::vector<Piece> pieces_;
  std::map<std::string, Tensor> tensors_;
  std::size_t next_ = 0;
  std::uint64_t done_ = 0;  // bytes of that piece
};

// All at once.
void write_pieces(const std::string& folder, std::int64_t rank, std::span<const HeldPiece> pieces,
                  Manifest& part);

// Bytes of a file as safetensors: length, header. The tensors follow in the order given.
struct HeaderEntry {
  std::string tensor;
  std::string dtype;
  Box box;  // its place in the whole tensor
};
std::string shard_header(std::span<const HeaderEntry> entries);

}  // namespace tessera::checkpoint
