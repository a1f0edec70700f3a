#include "tessera/checkpoint/format/shard_file.hpp"

#include <nlohmann/json.hpp>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/format/names.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"

namespace tessera::checkpoint {

namespace {

std::string file_name(std::int64_t rank, std::size_t place) {
  return cat("rank-", padded(rank, 5), place == 0 ? "" : cat("-", place + 1), ".safetensors");
}

}  // namespace

std::string shard_header(std::span<const HeaderEntry> entries) {
  nlohmann::ordered_json header, offsets = nlohmann::ordered_json::object();
  header["__metadata__"] = nullptr;  // first, as others write it
  std::uint64_t at = 0;
  for (const HeaderEntry& entry : entries) {
    const std::uint64_t end =
        at + static_cast<std::uint64_t>(entry.box.elements()) * element_bytes(entry.dtype).value();
    header[entry.tensor] = {{"dtype", entry.dtype}, {"shape", entry.box.extent}, {"data_offsets", {at, end}}};
    offsets[entry.tensor] = {{"saved_offsets", entry.box.offset}};
    at = end;
  }
  header["__metadata__"] = {{"DCP_SHARDING_INFO", offsets.dump()}, {"DCP_VERSION", "1.0"}, {"format", "pt"}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

ShardWriter::ShardWriter(const std::string& folder, std::int64_t rank, std::span<const HeldPiece> pieces) {
  // The n-th box of a tensor goes into the n-th file.
  std::vector<std::vector<HeaderEntry>> entries;
  std::map<std::string, std::uint32_t> boxes;
  for (const HeldPiece& piece : pieces) {
    const std::uint32_t file = boxes[piece.tensor]++;
    if (file == entries.size()) entries.emplace_back();
    entries[file].push_back({piece.tensor, piece.dtype, piece.box});
    tensors_[piece.tensor] = {piece.dtype, piece.shape};
    pieces_.push_back({piece.tensor, piece.box, file});
  }
  std::vector<std::uint64_t> ends;
  for (std::size_t file = 0; file < entries.size(); ++file) {
    const std::string header = shard_header(entries[file]);
    files_.push_back(std::make_unique<FileWriter>(folder, file_name(rank, file)));
    files_.back()->append(std::as_bytes(std::span(header)));
    ends.push_back(header.size());
  }
  for (Piece& piece : pieces_) {
    piece.begin = ends[piece.file];
    ends[piece.file] += bytes_of(piece, tensors_[piece.tensor]);
  }
}

void ShardWriter::append(std::span<const std::byte> bytes) {
  const Piece& piece = pieces_.at(next_);
  const std::uint64_t all = bytes_of(piece, tensors_[piece.tensor]);
  TESSERA_CHECK(bytes.size() <= all - done_, done_ + bytes.size(), " bytes of a piece of ", piece.tensor,
                " of ", all);
  files_[piece.file]->append(bytes);
  done_ += bytes.size();
  if (done_ < all) return;
  ++next_;
  done_ = 0;
}

void ShardWriter::finish(Manifest& part) {
  TESSERA_CHECK(next_ == pieces_.size(), next_, " of ", pieces_.size(), " pieces were written");
  const auto before = static_cast<std::uint32_t>(part.files.size());
  for (const auto& file : files_) part.files.push_back(file->finish());
  part.tensors.insert(tensors_.begin(), tensors_.end());
  for (Piece piece : pieces_) {
    piece.file += before;
    part.pieces.push_back(std::move(piece));
  }
}

void write_pieces(const std::string& folder, std::int64_t rank, std::span<const HeldPiece> pieces,
                  Manifest& part) {
  ShardWriter writer(folder, rank, pieces);
  for (const HeldPiece& piece : pieces) writer.append(piece.bytes);
  writer.finish(part);
}

}  // namespace tessera::checkpoint
