// A read-only memory map of a file.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/files/folder_file.hpp"

namespace tessera {

class MappedFile {
 public:
  // Throws UserError naming the file and the reason when it can't be opened.
  explicit MappedFile(const std::string& path) : MappedFile(path, open_to_read(path)) {}
  explicit MappedFile(const FolderFile& file) : MappedFile(file.path(), open_to_read(file)) {}
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::string& path() const { return path_; }
  // Valid as long as this object lives; moving it keeps the addresses.
  std::span<const std::byte> bytes() const { return bytes_; }
  std::string_view text() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  MappedFile(std::string path, int descriptor);

  std::string path_;
  std::span<const std::byte> bytes_;
};

}  // namespace tessera
