// What is in a file, without reading it whole? A read-only memory map.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace tessera {

class MappedFile {
 public:
  // Throws UserError naming the file and the reason when it can't be opened.
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::string& path() const { return path_; }
  // Valid as long as this object lives; moving it keeps the addresses.
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace tessera
