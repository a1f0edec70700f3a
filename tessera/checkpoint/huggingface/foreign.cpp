#include "tessera/checkpoint/huggingface/foreign.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace tessera::checkpoint {

namespace {

constexpr std::string_view kPrefix = "transformer.";

struct Rule {
  std::string_view ours, theirs;
  std::int64_t part, parts;
};
constexpr std::array<Rule, 6> kRules = {{{".attn.q_proj.", ".attn.c_attn.", 0, 3},
                                         {".attn.k_proj.", ".attn.c_attn.", 1, 3},
                                         {".attn.v_proj.", ".attn.c_attn.", 2, 3},
                                         {".attn.out_proj.", ".attn.c_proj.", 0, 1},
                                         {".mlp.up_proj.", ".mlp.c_fc.", 0, 1},
                                         {".mlp.down_proj.", ".mlp.c_proj.", 0, 1}}};

}  // namespace

ForeignPlace foreign_place(const std::string& name) {
  ForeignPlace place{.tensor = name};
  if (!name.starts_with(kPrefix)) return place;  // Llama's names are the same in both
  place.may_be_longer = name == "transformer.wpe.weight";
  for (const Rule& rule : kRules) {
    const auto at = name.find(rule.ours);
    if (at == std::string::npos) continue;
    place.tensor.replace(at, rule.ours.size(), rule.theirs);
    place.transposed = name.ends_with(".weight");
    place.part = rule.part;
    place.parts = rule.parts;
  }
  return place;
}

bool is_derived(const std::string& foreign_name) {
  constexpr std::array<std::string_view, 3> kEndings = {"rotary_emb.inv_freq", ".attn.bias",
                                                        ".attn.masked_bias"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return foreign_name.ends_with(ending); });
}

std::string without_prefix(const std::string& name) {
  return name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
}

}  // namespace tessera::checkpoint
