// A file that is read piece by piece. Unlike a mapped one it may be cut off or fail under the reader: that is an error with
// a sentence, and not a signal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera {

class RandomAccessFile {
 public:
  // Throws UserError naming the file and the reason when it can't be opened or is a folder.
  explicit RandomAccessFile(std::string path);
  ~RandomAccessFile();
  RandomAccessFile(const RandomAccessFile&) = delete;
  RandomAccessFile& operator=(const RandomAccessFile&) = delete;

  const std::string& path() const { return path_; }
  // How many it had when it was opened.
  std::uint64_t bytes() const { return bytes_; }
  // Bytes [begin, begin + out.size()). Throws UserError when the disk refuses or the file ends before.
  void read(std::uint64_t begin, std::span<std::byte> out) const;

 private:
  std::string path_;
  int descriptor_;
  std::uint64_t bytes_ = 0;
};

}  // namespace tessera
