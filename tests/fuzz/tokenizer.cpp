// A text taken for a tokenizer.json is refused by a UserError, or makes a tokenizer whose tokens lie in its
// vocabulary and decode to one text, whole and token by token.
#include "tessera/base/error.hpp"
#include "tessera/tokenizer/json_tokenizer.hpp"
#include "tests/fuzz/tokenizing.hpp"

using namespace tessera;
using fuzz::encode;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Limits limits;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = tokenizer::parse_tokenizer_json(text, "fuzzed");
    encode(*tokenizer, "I'll say \xE2\x82\xAC 12345,\n\n  e\xCC\x81 \xFF <end> HTTPServer's aaaaaaaa");
    encode(*tokenizer, text.substr(0, 100));
  } catch (const UserError&) {
  }
  return 0;
}
