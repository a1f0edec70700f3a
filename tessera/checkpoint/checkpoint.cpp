#include "tessera/checkpoint/checkpoint.hpp"

#include <algorithm>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/mapped_file.hpp"
#include "tessera/checkpoint/safetensors.hpp"

namespace tessera::checkpoint {

namespace {

constexpr std::size_t kMaxOpen = 16;

Manifest read_manifest(const std::string& folder) {
  const std::string path = cat(folder, "/", kManifestName);
  const MappedFile file(path);
  return parse_manifest({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

}  // namespace

Checkpoint::Checkpoint(std::string folder) : folder_(std::move(folder)), manifest_(read_manifest(folder_)) {
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
  auto opened = std::make_unique<ChunkedFile>(folder_, manifest_.files.at(index));
  order_.push_back(index);
  return *open_.emplace(index, std::move(opened)).first->second;
}

void Checkpoint::read(const std::string& name, const Box& box, std::span<std::byte> out) {
  const std::uint64_t element = element_bytes(tensor(name).dtype).value();
  CHECK(out.size() == static_cast<std::uint64_t>(box.elements()) * element, "a box of ", box.elements(),
        " elements of ", name, " into ", out.size(), " bytes");
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

std::vector<std::string> Checkpoint::problems(const std::function<void(std::uint64_t, std::uint64_t)>& told) {
  std::uint64_t all = 0, done = 0;
  for (const File& file : manifest_.files) all += file.bytes;
  std::vector<std::string> out;
  for (std::uint32_t index = 0; index < manifest_.files.size(); ++index) {
    const std::uint64_t before = done;
    const std::string complaint = complaint_of([&] {
      ChunkedFile& opened = file(index);
      for (std::uint64_t chunk = 0; chunk < opened.num_chunks(); ++chunk) {
        done += opened.chunk(chunk).size();
        if (told) told(done, all);
      }
    });
    if (!complaint.empty()) out.push_back(complaint);
    done = before + manifest_.files[index].bytes;
  }
  return out;
}

}  // namespace tessera::checkpoint
