#include "tessera/data/text/byte_stream.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/base/files/descriptor.hpp"
#include "tessera/base/files/folder_file.hpp"

namespace tessera::data {
namespace {

class FileStream : public ByteStream {
 public:
  explicit FileStream(const std::string& path) : path_(path), file_(open_to_read(path)) {}

  std::size_t read(std::span<std::byte> out) override {
    for (;;) {
      const ssize_t n = ::read(file_.number(), out.data(), out.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw UserError(cat("cannot read '", path_, "' at byte ", taken_, ": ", system_reason()));
      taken_ += static_cast<std::uint64_t>(n);
      return static_cast<std::size_t>(n);
    }
  }
  std::uint64_t taken() const override { return taken_; }

 private:
  std::string path_;
  Descriptor file_;
  std::uint64_t taken_ = 0;
};

class MemoryStream : public ByteStream {
 public:
  explicit MemoryStream(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::size_t read(std::span<std::byte> out) override {
    const std::size_t n = std::min(out.size(), bytes_.size() - taken_);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(taken_), n, out.begin());
    taken_ += n;
    return n;
  }
  std::uint64_t taken() const override { return taken_; }

 private:
  std::span<const std::byte> bytes_;
  std::size_t taken_ = 0;
};

}  // namespace

std::unique_ptr<ByteStream> file_stream(const std::string& path) {
  return std::make_unique<FileStream>(path);
}

std::unique_ptr<ByteStream> memory_stream(std::span<const std::byte> bytes) {
  return std::make_unique<MemoryStream>(bytes);
}

std::unique_ptr<ByteStream> open_stream(const std::string& path) {
  auto file = file_stream(path);
  if (path.ends_with(".gz")) return gunzipped(std::move(file), path);
  if (path.ends_with(".zst")) return unzstd(std::move(file), path);
  for (const char* suffix : {".parquet", ".bz2", ".xz", ".zip", ".lz4"})
    if (path.ends_with(suffix))
      throw UserError(cat("'", path, "': ", suffix, " files are not read. Convert it to JSON lines (.jsonl, ",
                          ".jsonl.gz or .jsonl.zst) first."));
  return file;
}

}  // namespace tessera::data
