#include "tessera/data/text/record_reader.hpp"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera::data {
namespace {

constexpr std::size_t kBufferBytes = 1 << 16;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

}  // namespace

RecordReader::RecordReader(std::unique_ptr<ByteStream> stream, std::string name, RecordEnd end,
                           std::size_t most_bytes)
    : stream_(std::move(stream)),
      name_(std::move(name)),
      end_(end),
      most_bytes_(most_bytes),
      buffer_(kBufferBytes) {}

bool RecordReader::fill() {
  if (begin_ < filled_) return true;
  begin_ = 0;
  filled_ = stream_->read(buffer_);
  return filled_ > 0;
}

// Appends a line and its end, if it has one.
bool RecordReader::next_line(std::string& out) {
  const std::size_t before = out.size();
  while (fill()) {
    const auto* first = buffer_.data() + begin_;
    const auto* end = static_cast<const std::byte*>(std::memchr(first, '\n', filled_ - begin_));
    const std::size_t count = end ? static_cast<std::size_t>(end - first) + 1 : filled_ - begin_;
    out.append(reinterpret_cast<const char*>(first), count);
    begin_ += count;
    place_.offset += count;
    if (out.size() > most_bytes_)
      throw UserError(cat("'", name_, "': the record at line ", place_.line + 1, " is longer than ",
                          bytes_text(static_cast<double>(most_bytes_)),
                          end_ == RecordEnd::line ? ". Is it text with ends of lines?"
                                                  : ". Let every line be a record instead."));
    if (end) break;
  }
  if (out.size() == before) return false;
  ++place_.line;
  return true;
}

std::optional<RawRecord> RecordReader::next() {
  RawRecord record;
  for (;;) {
    if (record.bytes.empty()) record.line = place_.line + 1;
    const std::size_t before = record.bytes.size();
    const bool is_read = next_line(record.bytes);
    const bool is_empty_line = is_blank(std::string_view(record.bytes).substr(before));
    bool is_ended = !is_read;
    if (is_read && end_ == RecordEnd::line) is_ended = true;
    if (is_read && end_ == RecordEnd::blank_line && is_empty_line) {
      record.bytes.resize(before);
      is_ended = true;
    }
    if (!is_ended) continue;
    if (!is_blank(record.bytes)) break;
    if (!is_read) return std::nullopt;
    record.bytes.clear();
  }
  if (record.bytes.ends_with('\n')) record.bytes.pop_back();
  if (record.bytes.ends_with('\r')) record.bytes.pop_back();
  return record;
}

void RecordReader::move_to(const Place& place) {
  TESSERA_CHECK(place_.offset <= place.offset, "back from ", place_.offset, " to ", place.offset);
  while (place_.offset < place.offset) {
    if (!fill())
      throw UserError(cat("'", name_, "' ends after ", place_.offset, " bytes, and ", place.offset,
                          " were read of it before. Was it written anew?"));
    const auto count = std::min<std::uint64_t>(filled_ - begin_, place.offset - place_.offset);
    begin_ += count;
    place_.offset += count;
  }
  place_ = place;
}

}  // namespace tessera::data
