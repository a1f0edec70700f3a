#include "tessera/shard/stored_dtype.hpp"

#include <array>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera::shard {

namespace {

constexpr std::array<std::pair<const char*, at::ScalarType>, 4> kWords = {
    {{"F32", at::kFloat}, {"F64", at::kDouble}, {"BF16", at::kBFloat16}, {"F16", at::kHalf}}};

}  // namespace

std::string stored_word(at::ScalarType dtype) {
  for (const auto& [word, known] : kWords)
    if (known == dtype) return word;
  throw Bug("a tensor that is no weight is stored");
}

at::ScalarType stored_dtype(const std::string& word, const std::string& where) {
  for (const auto& [known, dtype] : kWords)
    if (known == word) return dtype;
  throw UserError(cat(where, " is stored as ", word, "; weights may be F64, F32, BF16 or F16"));
}

}  // namespace tessera::shard
