// What is done to the text before it is split.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tessera/tokenizer/pipeline/component.hpp"
#include "tessera/tokenizer/unicode/growth.hpp"

namespace tessera::tokenizer {

// Const, and shared by threads.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Of valid UTF-8. No step makes more than the limit allows.
  virtual std::string normalize(std::string_view text, const GrowthLimit& limit) const = 0;
  std::string normalize(std::string_view text) const { return normalize(text, GrowthLimit(text.size())); }
};

// NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip, and a Sequence of them. Throws UserError naming any other.
std::unique_ptr<Normalizer> make_normalizer(const Component& component);

}  // namespace tessera::tokenizer
