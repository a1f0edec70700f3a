// Bytes that come one after the other: of a file, of memory, or unpacked from another stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace tessera::data {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills the front of `out` and returns how much; 0 only at the end. Throws UserError when the disk refuses
  // or packed bytes are damaged.
  virtual std::size_t read(std::span<std::byte> out) = 0;
  // Bytes of the file, packed as they are, that were taken so far.
  virtual std::uint64_t taken() const = 0;
};

// Of a file by its name: .gz and .zst are unpacked. Throws UserError when it can't be opened.
std::unique_ptr<ByteStream> open_stream(const std::string& path);

std::unique_ptr<ByteStream> file_stream(const std::string& path);
// Of bytes that outlive it.
std::unique_ptr<ByteStream> memory_stream(std::span<const std::byte> bytes);
// Several packed parts may follow each other. `name` is for messages.
std::unique_ptr<ByteStream> gunzipped(std::unique_ptr<ByteStream> packed, std::string name);
// A stream that wants to look back further than 2^most_window_log bytes, and so to hold as many, is refused.
std::unique_ptr<ByteStream> unzstd(std::unique_ptr<ByteStream> packed, std::string name,
                                   int most_window_log = 27);

}  // namespace tessera::data
