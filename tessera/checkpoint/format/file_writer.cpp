#include "tessera/checkpoint/format/file_writer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tessera/base/text.hpp"

namespace tessera::checkpoint {

namespace {

// How much the disk is given to do at a time while more is written.
constexpr std::uint64_t kBehindBytes = 8 << 20;
// And how much of that may be undone: else all of it would wait in one call at the end, where nobody sees it
// get on.
constexpr std::uint64_t kUndoneBytes = 8 * kBehindBytes;

void expect(bool succeeded, const char* call, const std::string& path) {
  if (!succeeded) throw DiskError(cat("cannot ", call, " '", path, "': ", std::strerror(errno)));
}

int make_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  expect(descriptor >= 0, "make file", path);
  return descriptor;
}

// Linux writes at most 2 GiB at a time.
void write_all(int descriptor, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(descriptor, bytes.data(), std::min<std::size_t>(bytes.size(), 1 << 30));
    if (n < 0 && errno == EINTR) continue;
    expect(n >= 0, "write file", path);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

void sync_and_close(Descriptor& file, const std::string& path) {
  expect(::fsync(file.number()) == 0, "sync file", path);
  expect(::close(file.release()) == 0, "close file", path);
}

// The path, once its folder is there.
std::string placed(const std::string& folder, const std::string& name) {
  std::string path = cat(folder, "/", name);
  if (const auto above = std::filesystem::path(name).parent_path(); !above.empty()) {
    std::error_code error;
    std::filesystem::create_directories(std::filesystem::path(folder) / above, error);
    if (error) throw DiskError(cat("cannot make the folder of '", path, "': ", error.message()));
  }
  return path;
}

}  // namespace

NewFile::NewFile(const std::string& folder, const std::string& name)
    : path_(placed(folder, name)), file_(make_file(path_)) {}

void NewFile::append(std::span<const std::byte> bytes) {
  write_all(file_.number(), bytes, path_);
  bytes_ += bytes.size();
  // The disk works beside us, not after us; an error of it comes with the sync.
  if (bytes_ - behind_ < kBehindBytes) return;
  ::sync_file_range(file_.number(), static_cast<off_t>(behind_), static_cast<off_t>(bytes_ - behind_),
                    SYNC_FILE_RANGE_WRITE);
  behind_ = bytes_;
  if (behind_ > kUndoneBytes)
    ::sync_file_range(file_.number(), 0, static_cast<off_t>(behind_ - kUndoneBytes),
                      SYNC_FILE_RANGE_WAIT_BEFORE);
}

void NewFile::finish() { sync_and_close(file_, path_); }

void FileWriter::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto some = bytes.first(std::min<std::size_t>(bytes.size(), kChunkBytes));
    file_.append(some);
    hasher_.add(some);
    bytes = bytes.subspan(some.size());
  }
}

File FileWriter::finish() {
  file_.finish();
  const std::uint64_t bytes = hasher_.bytes();
  const auto hashes = hasher_.finish();
  const auto content = std::as_bytes(std::span(hashes));
  write_new_file(file_.path() + kHashesSuffix, content);
  return {name_, bytes, hash_of(content)};
}

void write_new_file(const std::string& path, std::span<const std::byte> bytes) {
  Descriptor file(make_file(path));
  write_all(file.number(), bytes, path);
  sync_and_close(file, path);
}

void make_folder(const std::string& path) { expect(::mkdir(path.c_str(), 0755) == 0, "make folder", path); }

void sync_folder(const std::string& path) {
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  expect(folder.number() >= 0, "open folder", path);
  sync_and_close(folder, path);
}

void replace_folder(const std::string& from, const std::string& to) {
  // Another job may make or remove `to` between the question and the rename.
  constexpr int kAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    const bool exists = ::access(to.c_str(), F_OK) == 0;
    const bool renamed =
        ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), exists ? RENAME_EXCHANGE : 0) == 0;
    const bool was_overtaken = !renamed && (exists ? errno == ENOENT : errno == ENOTEMPTY || errno == EEXIST);
    if (was_overtaken && attempt < kAttempts) continue;
    return expect(renamed, "rename folder", from);
  }
}

}  // namespace tessera::checkpoint
