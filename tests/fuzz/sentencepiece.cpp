// Bytes taken for a SentencePiece model are refused by a UserError, or make a tokenizer whose tokens lie in
// its vocabulary and decode to one text, whole and token by token.
#include "tessera/base/error.hpp"
#include "tessera/tokenizer/sentencepiece_tokenizer.hpp"
#include "tests/fuzz/tokenizing.hpp"

using namespace tessera;
using fuzz::encode;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Limits limits;
  const std::string_view model(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = tokenizer::parse_sentencepiece(model, "fuzzed");
    encode(*tokenizer, "the cat  sat \xE2\x96\x81 on \xE2\x82\xAC 12345, <s>\n\xFF e\xCC\x81 A\xEF\xBC\xA1 ");
    encode(*tokenizer, model.substr(0, 200));
  } catch (const UserError&) {
  }
  return 0;
}
