// The families of models by name: the lines of families.def as a table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tessera::spec {

#define FAMILY(name, ...) name,
enum class Family : std::uint8_t {
#include "tessera/spec/families.def"
};
#undef FAMILY

// What the keys of [model] mean to a family. Where one means nothing, a text says why; an empty text: it
// means something.
struct FamilyTraits {
  std::string_view title;        // as people write it
  bool ties_embeddings = false;  // unless the run file says otherwise
  bool no_grouped_queries = false;
  bool is_latent = false;           // needs the keys of latent attention
  std::string_view no_rotary = {};  // positions are a table of parameters
  std::string_view no_head_dim = {}, no_window = {}, no_qkv_bias = {}, no_qk_norm = {}, no_experts = {},
                   no_latent = {};
};

struct FamilyEntry {
  std::string_view name;
  FamilyTraits traits;
};

#define FAMILY(name, ...) FamilyEntry{#name, FamilyTraits{__VA_ARGS__}},
inline constexpr auto kFamilies = std::to_array<FamilyEntry>({
#include "tessera/spec/families.def"
});
#undef FAMILY

constexpr const FamilyTraits& traits(Family family) {
  return kFamilies[static_cast<std::size_t>(family)].traits;
}

}  // namespace tessera::spec
