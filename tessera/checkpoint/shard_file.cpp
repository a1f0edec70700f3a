#include "tessera/checkpoint/shard_file.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/safetensors.hpp"

namespace tessera::checkpoint {

namespace {

std::string file_name(std::int64_t rank, std::size_t place) {
  const std::string number = cat(rank);
  return cat("rank-", std::string(number.size() < 5 ? 5 - number.size() : 0, '0'), number,
             place == 0 ? "" : cat("-", place + 1), ".safetensors");
}

// Of the n-th box of a tensor, the n-th file.
std::vector<std::vector<const HeldPiece*>> dealt(std::span<const HeldPiece> held) {
  std::vector<std::vector<const HeldPiece*>> files(1);
  std::map<std::string, std::size_t> boxes;
  for (const HeldPiece& piece : held) {
    const std::size_t place = boxes[piece.tensor]++;
    if (place == files.size()) files.emplace_back();
    files[place].push_back(&piece);
  }
  // Wide elements first keep every tensor aligned to its element.
  for (auto& file : files)
    std::ranges::stable_sort(file, std::greater(),
                             [](const HeldPiece* piece) { return element_bytes(piece->dtype); });
  return files;
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

void write_pieces(const std::string& folder, std::int64_t rank, std::span<const HeldPiece> held,
                  Manifest& part) {
  const auto files = dealt(held);
  for (std::size_t place = 0; place < files.size(); ++place) {
    std::vector<HeaderEntry> entries;
    for (const HeldPiece* piece : files[place]) entries.push_back({piece->tensor, piece->dtype, piece->box});
    const std::string header = shard_header(entries);
    FileWriter writer(folder, file_name(rank, place));
    writer.append(std::as_bytes(std::span(header)));
    std::uint64_t at = header.size();
    for (const HeldPiece* piece : files[place]) {
      part.tensors[piece->tensor] = {piece->dtype, piece->shape};
      part.pieces.push_back({piece->tensor, piece->box, static_cast<std::uint32_t>(part.files.size()), at});
      CHECK(piece->bytes.size() == bytes_of(part.pieces.back(), part.tensors[piece->tensor]), "piece of ",
            piece->tensor);
      writer.append(piece->bytes);
      at += piece->bytes.size();
    }
    part.files.push_back(writer.finish());
  }
}

}  // namespace tessera::checkpoint
