#include "tessera/checkpoint/tools/reshard.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/format/names.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"
#include "tessera/checkpoint/format/shard_file.hpp"
#include "tessera/checkpoint/tools/summary.hpp"

namespace tessera::checkpoint {

namespace {

constexpr std::int64_t kBlockBytes = 8 << 20;      // read and written at a time
constexpr std::int64_t kMostRowBytes = 256 << 10;  // shares differ by no more; longer rows are cut

std::int64_t element_of(const Tensor& tensor) {
  return static_cast<std::int64_t>(element_bytes(tensor.dtype).value());
}

// The element of the tensor at which a share ends that would end at this byte of it.
std::int64_t cut_at(const Tensor& tensor, std::int64_t byte) {
  const std::int64_t element = element_of(tensor), all = num_elements(tensor.shape);
  std::int64_t row = 1;  // the longest rows that are short enough
  for (std::size_t dim = tensor.shape.size(); dim > 1; --dim) {
    if (row * tensor.shape[dim - 1] * element > kMostRowBytes) break;
    row *= tensor.shape[dim - 1];
  }
  if (byte <= 0 || row == 0) return 0;
  return std::min(all, (byte / element + row / 2) / row * row);
}

}  // namespace

std::vector<std::vector<ReshardPiece>> resharded_pieces(const Manifest& manifest, const Resharding& how) {
  auto names = tensors_in_file_order(manifest);
  if (how.parameters_only) std::erase_if(names, [](const std::string& name) { return !is_parameter(name); });
  std::int64_t all = 0, before = 0;
  for (const std::string& name : names) all += static_cast<std::int64_t>(bytes_of(manifest.tensors.at(name)));
  std::vector<std::vector<ReshardPiece>> out(static_cast<std::size_t>(how.num_ranks));
  for (const std::string& name : names) {
    const Tensor& tensor = manifest.tensors.at(name);
    const std::int64_t elements = num_elements(tensor.shape), bytes = elements * element_of(tensor);
    std::int64_t first = 0;
    for (std::int64_t rank = 0; rank < how.num_ranks && first < elements; ++rank) {
      // Without a product that could be too large.
      const std::int64_t end_byte =
          all / how.num_ranks * (rank + 1) + all % how.num_ranks * (rank + 1) / how.num_ranks;
      const std::int64_t end =
          rank + 1 == how.num_ranks ? elements : cut_at(tensor, std::min(bytes, end_byte - before));
      if (end <= first) continue;
      for (Box& box : boxes_of_range(tensor.shape, first, end - first))
        out[static_cast<std::size_t>(rank)].push_back({name, std::move(box)});
      first = end;
    }
    if (elements == 0) out.front().push_back({name, whole_box(tensor.shape)});
    before += bytes;
  }
  return out;
}

namespace {

// What is copied, and how far it is.
struct Copying {
  Checkpoint& from;
  const Told& told;
  std::uint64_t all = 0, done = 0;
  std::vector<std::byte> block;

  void tell(std::uint64_t more) {
    done += more;
    if (told) told(done, all);
  }

  void piece(const HeldPiece& piece, ShardWriter& writer) {
    const auto element = static_cast<std::int64_t>(element_bytes(piece.dtype).value());
    for_each_block(piece.box, kBlockBytes / element, [&](const Box& box) {
      block.resize(static_cast<std::size_t>(box.elements() * element));
      from.read(piece.tensor, box, block);
      writer.append(block);
      tell(block.size());
    });
    if (piece.box.elements() == 0) writer.append({});
  }

  void attached(std::uint32_t index, const std::string& folder, Manifest& out) {
    ChunkedFile& file = from.file(index);
    FileWriter writer(folder, from.manifest().files[index].name);
    for (std::uint64_t i = 0; i < file.num_chunks(); ++i) {
      const auto chunk = file.chunk(i);
      writer.append(chunk);
      tell(chunk.size());
    }
    out.files.push_back(writer.finish());
  }
};

// Files of an import that hold no tensor.
std::vector<std::uint32_t> attached_files(const Manifest& manifest) {
  const auto pieces = pieces_by_file(manifest);
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < pieces.size(); ++i)
    if (pieces[i] == 0) out.push_back(i);
  return out;
}

}  // namespace

void reshard(Checkpoint& from, const std::string& target, const Resharding& how, const Told& told) {
  const Manifest& manifest = from.manifest();
  const auto shares = resharded_pieces(manifest, how);
  const auto attached = attached_files(manifest);
  Copying copying{.from = from, .told = told};
  for (const auto& share : shares)
    for (const auto& [name, box] : share)
      copying.all += static_cast<std::uint64_t>(box.elements() * element_of(manifest.tensors.at(name)));
  for (const std::uint32_t index : attached) copying.all += manifest.files[index].bytes;

  Manifest out = manifest;
  out.tensors.clear(), out.files.clear(), out.pieces.clear();
  NewFolder folder(target);
  for (std::size_t rank = 0; rank < shares.size(); ++rank) {
    std::vector<HeldPiece> held;
    for (const auto& [name, box] : shares[rank]) {
      const Tensor& tensor = manifest.tensors.at(name);
      held.push_back({name, tensor.dtype, tensor.shape, box, {}});
    }
    // Wide elements first keep every tensor aligned to its element.
    std::ranges::stable_sort(held, std::greater(),
                             [](const HeldPiece& piece) { return element_bytes(piece.dtype); });
    ShardWriter writer(folder.path(), static_cast<std::int64_t>(rank), held);
    for (const HeldPiece& piece : held) copying.piece(piece, writer);
    writer.finish(out);
  }
  for (const std::uint32_t index : attached) copying.attached(index, folder.path(), out);
  folder.commit(out);
}

}  // namespace tessera::checkpoint
