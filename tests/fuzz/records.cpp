// A line taken for a JSON record is refused by a UserError, or gives parts of text. The first byte of an
// input says which kind of record it is taken for.
#include "tessera/data/tokenize/record.hpp"

#include "tessera/base/error.hpp"
#include "tests/fuzz/limits.hpp"

using namespace tessera;
using fuzz::expect;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static const auto chat = std::make_shared<data::ChatTemplate>(data::open_chat_template("chatml"));
  const fuzz::Limits limits;
  const data::RecordOptions options{.kind = static_cast<data::RecordKind>(data[0] % 3), .chat = chat};
  try {
    const auto segments = data::parse_record({reinterpret_cast<const char*>(data) + 1, size - 1}, options);
    expect(options.kind == data::RecordKind::messages || !segments.empty());
  } catch (const UserError&) {
  }
  return 0;
}
