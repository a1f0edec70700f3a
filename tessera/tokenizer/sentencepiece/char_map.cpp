#include "tessera/tokenizer/sentencepiece/char_map.hpp"

#include <bit>
#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera::tokenizer::sentencepiece {
namespace {

static_assert(std::endian::native == std::endian::little, "units of a charsmap are little-endian");

// The bits of a unit. A unit that is a leaf has a value; all others have a label, the byte that leads to it.
constexpr std::uint32_t kLeaf = 1U << 31, kHasLeaf = 1U << 8, kIsFar = 1U << 9;
constexpr std::uint32_t label_of(std::uint32_t unit) { return unit & (kLeaf | 0xFF); }
constexpr std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & kIsFar) >> 6); }

constexpr int kMostRules = 32;  // that may match at one place, the limit of SentencePiece

}  // namespace

CharMap::CharMap(std::string_view blob, const std::string& where) {
  if (blob.empty()) return;
  std::uint32_t bytes = 0;
  const auto refuse = [&](const char* why) {
    throw UserError(cat(where, ": its charsmap of ", blob.size(), " bytes ", why));
  };
  if (blob.size() < sizeof bytes) refuse("has no size");
  std::memcpy(&bytes, blob.data(), sizeof bytes);
  const std::string_view rest = blob.substr(sizeof bytes);
  if (bytes == 0 || bytes % sizeof(std::uint32_t) != 0 || bytes >= rest.size())
    refuse("has a double array that is empty, longer, or not of whole units");
  units_.resize(bytes / sizeof(std::uint32_t));
  std::memcpy(units_.data(), rest.data(), bytes);
  texts_ = rest.substr(bytes);
  if (texts_.back() != '\0') refuse("does not end with a zero byte");
  if (!points_inside()) refuse("points outside of itself");
}

bool CharMap::points_inside() const {
  const auto has_block = [&](std::size_t at) { return (at | 0xFF) < units_.size(); };  // of all children
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const std::uint32_t unit = units_[i];
    const std::size_t children = i ^ offset_of(unit);
    const bool is_leaf = label_of(unit) > 0xFF;
    if (is_leaf ? (unit & ~kLeaf) >= texts_.size() : !has_block(children)) return false;
    if (!is_leaf && (unit & kHasLeaf) != 0 && label_of(units_[children]) <= 0xFF) return false;
  }
  return label_of(units_[0]) <= 0xFF;  // the root is not a leaf
}

CharMap::Rule CharMap::longest(std::string_view text) const {
  Rule out;
  if (units_.empty()) return out;
  std::size_t at = offset_of(units_[0]);
  int found = 0;
  for (std::size_t i = 0; i < text.size() && found < kMostRules; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    at ^= byte;
    if (label_of(units_[at]) != byte) break;
    const std::uint32_t unit = units_[at];
    at ^= offset_of(unit);
    if ((unit & kHasLeaf) == 0) continue;
    ++found;
    out = {i + 1, std::string_view(texts_.data() + (units_[at] & ~kLeaf))};
  }
  return out;
}

}  // namespace tessera::tokenizer::sentencepiece
