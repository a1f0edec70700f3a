// A text taken for a chat template is refused by a UserError, or writes a text whose parts make up the whole,
// within bounds of time and memory.
#include "tessera/data/chat/chat_template.hpp"

#include "tessera/base/error.hpp"
#include "tests/fuzz/limits.hpp"

using namespace tessera;
using fuzz::expect;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto messages = data::Json::parse(
      R"([{"role": "system", "content": "a"}, {"role": "user", "content": "b\n", "x": [1, null, {"y": 2}]},)"
      R"( {"role": "assistant", "content": "c"}])");
  static const data::Json tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
  const fuzz::Limits limits;
  try {
    const data::ChatTemplate chat({reinterpret_cast<const char*>(data), size}, "fuzzed", tokens);
    const std::string whole = chat.render(messages, false);
    std::string joined;
    for (const data::Segment& segment : chat.segments(messages)) joined += segment.text;
    expect(joined == whole);
  } catch (const UserError&) {
  }
  return 0;
}
