#include "tessera/checkpoint/format/chunked_file.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera::checkpoint {

namespace {

constexpr std::uint64_t kNoChunk = ~0ull;

std::uint64_t num_chunks_of(std::uint64_t bytes) { return (bytes + kChunkBytes - 1) / kChunkBytes; }

// Empty when the file has this size.
std::string size_problem_of(const std::string& path, std::uint64_t bytes) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) return cat("'", path, "': ", std::strerror(errno));
  const auto size = static_cast<std::uint64_t>(found.st_size);
  if (S_ISREG(found.st_mode) && size == bytes) return "";
  return cat("'", path, "' has ", size, " bytes instead of ", bytes, "; it is cut off, or another file");
}

std::vector<std::uint64_t> read_hashes(const FolderFile& from, const File& file) {
  std::vector<std::uint64_t> hashes(num_chunks_of(file.bytes));
  const auto bytes = std::as_writable_bytes(std::span(hashes));
  RandomAccessFile(from).read(0, bytes);
  if (hash_of(bytes) != file.hash)
    throw UserError(cat("'", from.path(), "' is damaged: its hash is not that of the manifest"));
  return hashes;
}

}  // namespace

std::string size_problem(const std::string& folder, const File& file) {
  const std::string path = cat(folder, "/", file.name);
  const std::string problem = size_problem_of(path, file.bytes);
  return problem.empty() ? size_problem_of(path + kHashesSuffix, 8 * num_chunks_of(file.bytes)) : problem;
}

ChunkedFile::ChunkedFile(const std::string& folder, const File& file, Links links)
    : file_(FolderFile{folder, file.name, links}), bytes_(file.bytes), held_(kNoChunk) {
  // Before anything of that size is allocated.
  if (const std::string problem = size_problem(folder, file); !problem.empty()) throw UserError(problem);
  hashes_ = read_hashes({folder, file.name + kHashesSuffix, links}, file);
}

std::span<const std::byte> ChunkedFile::chunk(std::uint64_t index) {
  TESSERA_CHECK(index < hashes_.size(), "chunk ", index, " of ", file_.path());
  if (held_ == index) return chunk_;
  held_ = kNoChunk;
  chunk_.resize(std::min(kChunkBytes, bytes_ - index * kChunkBytes));
  file_.read(index * kChunkBytes, chunk_);
  if (hash_of(chunk_) != hashes_[index])
    throw UserError(cat("'", file_.path(), "' is damaged between byte ", index * kChunkBytes, " and byte ",
                        index * kChunkBytes + chunk_.size(), ": the hash is another"));
  held_ = index;
  return chunk_;
}

void ChunkedFile::read(std::uint64_t begin, std::span<std::byte> out) {
  TESSERA_CHECK(begin <= bytes_ && out.size() <= bytes_ - begin, "bytes ", begin, " to ", begin + out.size(),
                " of ", file_.path());
  while (!out.empty()) {
    const auto found = chunk(begin / kChunkBytes).subspan(begin % kChunkBytes);
    const auto some = found.first(std::min(found.size(), out.size()));
    std::memcpy(out.data(), some.data(), some.size());
    begin += some.size();
    out = out.subspan(some.size());
  }
}

}  // namespace tessera::checkpoint
