#include "tessera/base/files/random_access_file.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera {

RandomAccessFile::RandomAccessFile(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {
  struct stat facts {};
  TESSERA_CHECK(::fstat(descriptor_, &facts) == 0, path_);
  bytes_ = static_cast<std::uint64_t>(facts.st_size);
}

RandomAccessFile::~RandomAccessFile() { ::close(descriptor_); }

void RandomAccessFile::read(std::uint64_t begin, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t n = ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(begin));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw UserError(cat("cannot read '", path_, "' at byte ", begin, ": ", std::strerror(errno)));
    if (n == 0)
      throw UserError(cat("cannot read '", path_, "' at byte ", begin, ": the file ends there, and it had ",
                          bytes_, " bytes when it was opened. Was it cut off or written anew meanwhile?"));
    begin += static_cast<std::uint64_t>(n);
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

}  // namespace tessera
