// What the JSON header of a safetensors file says, read without trust: no repeated names, no unknown keys,
// sizes that fit.
#pragma once

#include <string>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"

namespace tessera::checkpoint {

inline constexpr char kMetadata[] = "__metadata__";

// One place for the beginning of every complaint, so that each says which file is broken.
struct Expectations {
  const std::string& path;

  template <typename... Parts>
  void expect(bool condition, const Parts&... parts) const {
    if (!condition) throw UserError(cat("safetensors file '", path, "': ", parts...));
  }
};

// Takes time and memory in proportion to the text. Throws UserError naming `path` and what is wrong.
SafetensorsLayout parse_safetensors_header(const std::string& path, std::string_view text);

}  // namespace tessera::checkpoint
