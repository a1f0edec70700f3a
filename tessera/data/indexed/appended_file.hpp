// A file that grows at its end, through a buffer, and goes on from a known length after a crash.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/files/descriptor.hpp"

namespace tessera::data {

class AppendedFile {
 public:
  // Makes the file, or cuts the one that is there to `bytes` and goes on. Throws UserError when it can't be
  // opened or has fewer.
  AppendedFile(std::string path, std::uint64_t bytes);

  const std::string& path() const { return path_; }
  // What was appended, buffered bytes included.
  std::uint64_t bytes() const { return bytes_; }
  // Throws UserError when the disk refuses, as do the next two.
  void append(std::span<const std::byte> bytes);
  // Returns when all of it is on the disk.
  void sync();
  // Syncs it and gives it its own name.
  void rename_to(const std::string& path);

 private:
  void flush();

  std::string path_;
  Descriptor file_;
  std::uint64_t bytes_;
  std::vector<std::byte> buffer_;
};

}  // namespace tessera::data
