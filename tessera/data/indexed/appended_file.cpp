#include "tessera/data/indexed/appended_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

constexpr std::size_t kBufferBytes = 1 << 20;

[[noreturn]] void refuse(const std::string& path) {
  throw UserError(cat("cannot write file '", path, "': ", system_reason()));
}

}  // namespace

AppendedFile::AppendedFile(std::string path, std::uint64_t bytes)
    : path_(std::move(path)),
      file_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644)),
      bytes_(bytes) {
  struct stat facts {};
  if (!file_ || ::fstat(file_.number(), &facts) != 0) refuse(path_);
  if (static_cast<std::uint64_t>(facts.st_size) < bytes)
    throw UserError(cat("'", path_, "' has ", facts.st_size, " bytes, and there were ", bytes,
                        " when its work was last noted. Delete it and begin anew."));
  if (::ftruncate(file_.number(), static_cast<off_t>(bytes)) != 0 || ::lseek(file_.number(), 0, SEEK_END) < 0)
    refuse(path_);
}

void AppendedFile::append(std::span<const std::byte> bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  bytes_ += bytes.size();
  if (buffer_.size() >= kBufferBytes) flush();
}

void AppendedFile::flush() {
  std::span<const std::byte> left = buffer_;
  while (!left.empty()) {
    const ssize_t n = ::write(file_.number(), left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) refuse(path_);
    left = left.subspan(static_cast<std::size_t>(n));
  }
  buffer_.clear();
}

void AppendedFile::sync() {
  flush();
  if (::fdatasync(file_.number()) != 0) refuse(path_);
}

void AppendedFile::rename_to(const std::string& path) {
  sync();
  if (std::rename(path_.c_str(), path.c_str()) != 0) refuse(path);
  path_ = path;
}

}  // namespace tessera::data
