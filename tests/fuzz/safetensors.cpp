// Bytes taken for a safetensors file are refused by a UserError, or hold what their header says.
// The first byte of an input says what follows: odd, a whole file; even, the text of a header, whose length
// is then right, before so many bytes of data.
#include "tessera/checkpoint/format/safetensors.hpp"

#include <cstring>

#include "tessera/base/error.hpp"
#include "tests/fuzz/limits.hpp"

using namespace tessera;
using fuzz::expect;

namespace {

std::vector<std::byte> file_of(std::span<const std::byte> input) {
  const auto kind = std::to_integer<std::size_t>(input[0]);
  const auto rest = input.subspan(1);
  if (kind % 2 == 1) return {rest.begin(), rest.end()};
  const std::uint64_t length = rest.size();
  std::vector<std::byte> out(sizeof length + rest.size() + kind / 2);
  std::memcpy(out.data(), &length, sizeof length);
  std::memcpy(out.data() + sizeof length, rest.data(), rest.size());
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const fuzz::Limits limits;
  const auto file = file_of(std::as_bytes(std::span(data, size)));
  try {
    const auto content = checkpoint::parse_safetensors("fuzzed", file);
    std::uint64_t covered = 0;
    for (const auto& [name, tensor] : content.tensors) {
      std::uint64_t bytes = checkpoint::element_bytes(tensor.dtype).value();
      for (const std::int64_t extent : tensor.shape) bytes *= static_cast<std::uint64_t>(extent);
      expect(bytes == tensor.bytes.size());
      expect(bytes == 0 || (tensor.bytes.data() >= file.data() &&
                            tensor.bytes.data() + bytes <= file.data() + file.size()));
      covered += bytes;
    }
    expect(covered < file.size());
  } catch (const UserError&) {
  }
  return 0;
}
