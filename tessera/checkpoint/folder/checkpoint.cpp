#include "tessera/checkpoint/folder/checkpoint.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/files/mapped_file.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"

namespace tessera::checkpoint {

namespace {

constexpr std::size_t kMaxOpen = 16;

// A checkpoint is removed manifest first, so what a removal that never ended left has none.
Manifest read_manifest(const std::string& folder, Links links) {
  std::error_code ignored;
  if (!is_checkpoint(folder) && std::filesystem::is_directory(folder, ignored))
    throw UserError(
        cat("'", folder, "' has no ", kManifestName,
            ": it is no checkpoint, or what is left of one that was being removed when its job ended. Such a "
            "rest can be deleted."));
  const MappedFile file(FolderFile{folder, kManifestName, links});
  return parse_manifest(file.text(), file.path());
}

}  // namespace

Checkpoint::Checkpoint(std::string folder, Links links)
    : folder_(std::move(folder)), links_(links), manifest_(read_manifest(folder_, links)) {
  for (const File& file : manifest_.files)
    if (const std::string problem = size_problem(folder_, file); !problem.empty()) throw UserError(problem);
  for (std::uint32_t i = 0; i < manifest_.pieces.size(); ++i)
    pieces_[manifest_.pieces[i].tensor].push_back(i);
}

const Tensor& Checkpoint::tensor(const std::string& name) const {
  if (const auto found = manifest_.tensors.find(name); found != manifest_.tensors.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [known, tensor] : manifest_.tensors) names.push_back(known);
  const auto near = nearest(name, names);
  throw UserError(cat("checkpoint '", folder_, "' has no tensor '", name, "'",
                      near ? cat("; the nearest name is '", *near, "'") : cat(" among its ", names.size())));
}

ChunkedFile& Checkpoint::file(std::uint32_t index) {
  if (const auto found = open_.find(index); found != open_.end()) return *found->second;
  if (order_.size() == kMaxOpen) {
    open_.erase(order_.front());
    order_.erase(order_.begin());
  }
  auto opened = std::make_unique<ChunkedFile>(folder_, manifest_.files.at(index), links_);
  order_.push_back(index);
  return *open_.emplace(index, std::move(opened)).first->second;
}

void Checkpoint::read(const std::string& name, const Box& box, std::span<std::byte> out) {
  const std::uint64_t element = element_bytes(tensor(name).dtype).value();
  TESSERA_CHECK(out.size() == static_cast<std::uint64_t>(box.elements()) * element, "a box of ",
                box.elements(), " elements of ", name, " into ", out.size(), " bytes");
  const auto pieces = pieces_.find(name);
  if (pieces == pieces_.end()) return;  // a tensor of no elements
  for (const std::uint32_t index : pieces->second) {
    const Piece& piece = manifest_.pieces[index];
    const auto common = intersection(piece.box, box);
    if (!common) continue;
    ChunkedFile& from = file(piece.file);
    for_each_run(*common, piece.box, box, [&](const CopyRun& run) {
      from.read(piece.begin + static_cast<std::uint64_t>(run.from) * element,
                out.subspan(static_cast<std::size_t>(run.to) * element,
                            static_cast<std::size_t>(run.count) * element));
    });
  }
}

namespace {

// Chunks that follow each other and are damaged are one problem.
void add_problems(const std::string& folder, const File& file, Links links,
                  const std::function<void(std::uint64_t)>& told, std::vector<std::string>& out) {
  std::optional<ChunkedFile> opened;
  const std::string closed = complaint_of([&] { opened.emplace(folder, file, links); });
  if (!closed.empty()) out.push_back(closed);
  if (!opened) return;
  std::string first_problem;
  std::uint64_t first = 0, end = 0;  // of the damaged chunks
  const auto flush = [&] {
    if (end - first > 1)
      first_problem =
          cat("'", folder, "/", file.name, "' is damaged in all ", end - first, " chunks between byte ",
              first * kChunkBytes, " and byte ", std::min(file.bytes, end * kChunkBytes));
    if (end > first) out.push_back(first_problem);
    first = end = 0;
  };
  for (std::uint64_t i = 0; i < opened->num_chunks(); ++i) {
    const std::string problem = complaint_of([&] { opened->chunk(i); });
    if (problem.empty()) {
      flush();
    } else {
      if (end == first) first = i, first_problem = problem;
      end = i + 1;
    }
    told(std::min(file.bytes, (i + 1) * kChunkBytes));
  }
  flush();
}

std::vector<std::string> problems_in(const std::string& folder, const std::vector<File>& files, Links links,
                                     const Told& told) {
  std::uint64_t all = 0, before = 0;
  for (const File& file : files) all += file.bytes;
  std::vector<std::string> out;
  for (const File& file : files) {
    add_problems(
        folder, file, links,
        [&](std::uint64_t done) {
          if (told) told(before + done, all);
        },
        out);
    before += file.bytes;
  }
  return out;
}

}  // namespace

std::vector<std::string> Checkpoint::problems(const Told& told) const {
  return problems_in(folder_, manifest_.files, links_, told);
}

std::vector<std::string> problems_of(const std::string& folder, const Told& told, Links links) {
  Manifest manifest;
  const std::string complaint = complaint_of([&] { manifest = read_manifest(folder, links); });
  if (!complaint.empty()) return {complaint};
  return problems_in(folder, manifest.files, links, told);
}

}  // namespace tessera::checkpoint
