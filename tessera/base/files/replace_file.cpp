#include "tessera/base/files/replace_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tessera/base/error.hpp"

namespace tessera {

namespace {

// 0, or the error number of the first write that failed. Linux writes at most 2 GiB at a time.
int written(int file, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(file, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return 0;
}

}  // namespace

int try_replace_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  const std::string beside = cat(path, kBesideSuffix, ::getpid());
  const int file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) return errno;
  int error = 0;
  for (const auto& part : parts)
    if (error == 0) error = written(file, part);
  if (error == 0 && ::fsync(file) != 0) error = errno;
  if (::close(file) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(beside.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) ::unlink(beside.c_str());
  return error;
}

void replace_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
  if (const int error = try_replace_file(path, parts); error != 0)
    throw UserError(cat("cannot write file '", path, "': ", std::strerror(error)));
}

void make_folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) throw UserError(cat("cannot make the folder of '", path, "': ", error.message()));
}

}  // namespace tessera
