// Bytes taken for a .gz or .zst file are refused by a UserError, or unpacked in bounded memory into records
// whose places a second reader goes on from. The first byte of an input says what they are taken for, and
// where records end.
#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/data/text/record_reader.hpp"
#include "tests/fuzz/limits.hpp"

using namespace tessera;
using fuzz::expect;

namespace {

std::unique_ptr<data::ByteStream> stream_of(std::span<const std::byte> bytes, int kind) {
  constexpr int kSmallWindow = 20;  // of 1 MiB
  auto plain = data::memory_stream(bytes);
  if (kind == 0) return plain;
  return kind == 1 ? data::gunzipped(std::move(plain), "fuzzed")
                   : data::unzstd(std::move(plain), "fuzzed", kSmallWindow);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const fuzz::Limits limits;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  const int kind = data[0] % 3;
  const auto end = static_cast<data::RecordEnd>(data[0] / 3 % 3);
  constexpr std::size_t kMostBytes = 1 << 20;
  data::RecordReader::Place middle;
  try {
    data::RecordReader reader(stream_of(bytes, kind), "fuzzed", end, kMostBytes);
    for (int i = 0; i < 100; ++i) {
      const auto record = reader.next();
      if (!record) break;
      expect(!record->bytes.empty() && record->bytes.size() <= kMostBytes);
      if (i == 50) middle = reader.place();
    }
    data::RecordReader later(stream_of(bytes, kind), "fuzzed", end, kMostBytes);
    later.move_to(middle);
    later.next();
  } catch (const UserError&) {
  }
  return 0;
}
