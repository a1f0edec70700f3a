// A text taken for a run file is refused by a UserError, or becomes a run that is written and read again as
// the same. Whether its values go together is decided too, and by a list of problems.
#include "tessera/base/error.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/spec/problems.hpp"
#include "tests/fuzz/limits.hpp"

using namespace tessera;
using fuzz::expect;

namespace {

void read(const std::string& text) {
  const spec::Run run = spec::parse_unchecked(text, "fuzzed");
  expect(spec::parse_unchecked(spec::to_text(run), "again") == run);
  for (const auto& problem : spec::problems(run)) expect(!problem.text.empty());
}

// The same text as a value on the command line.
void override(const std::string& text) { spec::parse_unchecked("", "empty", std::vector{text}); }

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Limits limits;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& act : {read, override}) {
    try {
      act(text);
    } catch (const UserError&) {
    }
  }
  return 0;
}
