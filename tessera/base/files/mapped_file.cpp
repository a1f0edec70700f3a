#include "tessera/base/files/mapped_file.hpp"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera {

MappedFile::MappedFile(std::string path, int descriptor) : path_(std::move(path)) {
  struct stat facts {};
  int error = ::fstat(descriptor, &facts) != 0 ? errno : 0;
  // An empty file can't be mapped; it is the empty span.
  if (error == 0 && facts.st_size > 0) {
    const auto size = static_cast<std::size_t>(facts.st_size);
    void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
    if (address == MAP_FAILED) {
      error = errno;
    } else {
      bytes_ = {static_cast<const std::byte*>(address), size};
    }
  }
  ::close(descriptor);
  if (error != 0) throw UserError(cat("cannot read file '", path_, "': ", std::strerror(error)));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace tessera
