// Takes a stream of bytes apart into records: lines, paragraphs, or all of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/data/text/byte_stream.hpp"

namespace tessera::data {

// Where records end.
enum class RecordEnd { line, blank_line, file };

struct RawRecord {
  std::string bytes;       // without the end of its last line
  std::uint64_t line = 0;  // its first, counted from 1
  bool operator==(const RawRecord&) const = default;
};

// Holds one record and a buffer, whatever the size of the stream.
class RecordReader {
 public:
  static constexpr std::size_t kMostBytes = 64 << 20;  // of a record

  // `name` is for messages.
  RecordReader(std::unique_ptr<ByteStream> stream, std::string name, RecordEnd end,
               std::size_t most_bytes = kMostBytes);

  // The next record that is not blank; nothing at the end. Throws UserError naming the line when one is
  // longer than allowed.
  std::optional<RawRecord> next();
  // Where the next record is looked for. A reader of the same stream that has moved there goes on the same.
  struct Place {
    std::uint64_t offset = 0, line = 0;  // unpacked bytes and lines before it
    bool operator==(const Place&) const = default;
  };
  const Place& place() const { return place_; }
  void move_to(const Place& place);
  // Of the file, packed as it is.
  std::uint64_t taken() const { return stream_->taken(); }

 private:
  bool next_line(std::string& out);
  bool fill();

  std::unique_ptr<ByteStream> stream_;
  std::string name_;
  RecordEnd end_;
  std::size_t most_bytes_;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0, filled_ = 0;  // what is not used yet of the buffer
  Place place_;
};

}  // namespace tessera::data
