// Reads a checkpoint's file chunk by chunk and checks each before anything of it is handed out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/files/random_access_file.hpp"
#include "tessera/checkpoint/format/file_writer.hpp"

namespace tessera::checkpoint {

// Holds one chunk in memory. Throws UserError naming the file and the chunk when something is missing or
// damaged.
class ChunkedFile {
 public:
  // Opens folder/file.name; its size and its hashes must be as the manifest says.
  ChunkedFile(const std::string& folder, const File& file, Links links = Links::refused);

  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t num_chunks() const { return hashes_.size(); }
  // Bytes [begin, begin + out.size()).
  void read(std::uint64_t begin, std::span<std::byte> out);
  // The chunk itself, until the next call.
  std::span<const std::byte> chunk(std::uint64_t index);

 private:
  RandomAccessFile file_;
  std::uint64_t bytes_;
  std::vector<std::uint64_t> hashes_;
  std::vector<std::byte> chunk_;
  std::uint64_t held_;  // which chunk that is
};

// Without reading its content: whether the file and its hashes are there with the right sizes, as a sentence
// if not.
std::string size_problem(const std::string& folder, const File& file);

}  // namespace tessera::checkpoint
