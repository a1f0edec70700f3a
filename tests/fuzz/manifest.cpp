// A text taken for a checkpoint's manifest is refused by a UserError, or means what it says: it is the same
// when written and read again, its files lie in the folder and its pieces in their files. The first byte of
// an input says what follows: odd, a whole text; even, what comes after a hash, which is then right.
#include "tessera/checkpoint/format/manifest.hpp"

#include <filesystem>

#include "tessera/base/error.hpp"
#include "tests/fuzz/limits.hpp"

using namespace tessera;
using fuzz::expect;

namespace {

std::string text_of(std::string_view input) {
  const std::string rest(input.substr(1));
  if (input[0] % 2 != 0) return rest;
  return cat("{\"hash\":\"", checkpoint::hash_text(checkpoint::hash_of(std::as_bytes(std::span(rest)))),
             rest);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const fuzz::Limits limits;
  const std::string text = text_of({reinterpret_cast<const char*>(data), size});
  try {
    const auto part = checkpoint::parse_part(text, "fuzzed");
    for (const auto& file : part.files) {
      const std::filesystem::path path(file.name);
      expect(path.is_relative());
      for (const auto& word : path) expect(word != "..");
    }
    for (const auto& piece : part.pieces)
      expect(piece.begin + bytes_of(piece, part.tensors.at(piece.tensor)) <= part.files.at(piece.file).bytes);
    expect(checkpoint::parse_part(to_text(part), "again") == part);
    const auto manifest = checkpoint::parse_manifest(text, "fuzzed");
    expect(manifest == part);
  } catch (const UserError&) {
  }
  return 0;
}
