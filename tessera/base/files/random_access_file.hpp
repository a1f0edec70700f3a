// A file that is read piece by piece. Unlike a mapped one it may be cut off or fail under the reader: that is
// an error with a sentence, and not a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tessera/base/files/folder_file.hpp"

namespace tessera {

class RandomAccessFile {
 public:
  // Throws UserError as open_to_read.
  explicit RandomAccessFile(const std::string& path) : RandomAccessFile(path, open_to_read(path)) {}
  explicit RandomAccessFile(const FolderFile& file) : RandomAccessFile(file.path(), open_to_read(file)) {}
  ~RandomAccessFile();
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  const std::string& path() const { return path_; }
  // How many it had when it was opened.
  std::uint64_t bytes() const { return bytes_; }
  // Bytes [begin, begin + out.size()). Throws UserError when the disk refuses or the file ends before.
  void read(std::uint64_t begin, std::span<std::byte> out) const;

 private:
  RandomAccessFile(std::string path, int descriptor);

  std::string path_;
  int descriptor_;
  std::uint64_t bytes_ = 0;
};

}  // namespace tessera
