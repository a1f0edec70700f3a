// A text taken for a config.json is refused by a UserError, or describes a model whose own config.json
// describes it again. The same text taken for an index of shards names only files of its folder.
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/huggingface/hf_config.hpp"
#include "tessera/checkpoint/huggingface/tensor_files.hpp"
#include "tests/fuzz/limits.hpp"

using namespace tessera;
using fuzz::expect;

namespace {

void describe(const std::string& text) {
  const auto found = checkpoint::hf_model(text, "fuzzed");
  const auto again = checkpoint::hf_model(checkpoint::hf_config(found.model, "BF16"), "again");
  expect(again.model == found.model);
  expect(again.dtype == "BF16");
  const auto changed = checkpoint::hf_model(checkpoint::with_dtype(text, "F32", found.model), "changed");
  expect(changed.model == found.model);
  expect(changed.dtype == "F32");
}

void index(const std::string& text) {
  for (const auto& [tensor, file] : checkpoint::parse_index(text, "fuzzed"))
    expect(file.find('/') == std::string::npos && file.size() > std::string_view(".safetensors").size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Limits limits;
  const std::string text(reinterpret_cast<const char*>(data), size);
  for (const auto& act : {describe, index}) {
    try {
      act(text);
    } catch (const UserError&) {
    }
  }
  return 0;
}
