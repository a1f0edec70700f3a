// What a family says of the files of `transformers`: which architectures are its own, their config.json, and
// where in their tensors its parameters lie.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/spec/spec.hpp"

namespace tessera::foreign {

class ConfigReader;

struct Architecture {
  std::string_view name, type;  // LlamaForCausalLM, llama
};

struct HfModel {
  spec::Model model;  // what the architecture decides; the rest (sequence, dropout, ...) as a run starts from
  std::int64_t max_positions = 0;
  std::string dtype;  // of the weights, as safetensors has it: "BF16"; empty: not said
  bool operator==(const HfModel&) const = default;
};

struct ForeignPlace {
  std::string tensor;
  bool transposed = false;           // a matrix stored as [in, out]
  std::int64_t part = 0, parts = 1;  // which of how many equal runs of outputs
  bool may_be_longer = false;        // only the first rows are needed: positions that a run does not reach
  bool operator==(const ForeignPlace&) const = default;
};

// A parameter that lies there in several tensors of one shape: its elements are theirs, one tensor after the
// other.
struct ForeignStack {
  std::string_view type;  // of the architecture that has it so
  std::vector<std::string> tensors;
};

struct ForeignFamily {
  std::vector<Architecture> architectures;
  // Throws UserError naming the file, the key and what to do.
  void (*read)(const ConfigReader& reader, std::string_view type, HfModel& out);
  // Throws UserError when no architecture has all of the model's properties.
  void (*write)(const spec::Model& model, nlohmann::ordered_json& config);
  ForeignPlace (*place)(const std::string& name) = nullptr;  // null: every parameter has its own name there
  // The ways in which architectures stack a parameter of this shape; null, or none: it lies in one tensor.
  std::vector<ForeignStack> (*stacks)(const std::string& name,
                                      const std::vector<std::int64_t>& shape) = nullptr;
  std::string_view prefix = {};                 // of its names, which some files leave out
  std::vector<std::string_view> derived = {};   // endings of names without which no parameter is lost: masks
                                                // and frequencies that older files hold
  std::vector<const char*> position_keys = {};  // of the config, that say how many positions are learnt
};

// The function of each line of spec/families.def.
#define FAMILY(name, ...) ForeignFamily name##_files();
#include "tessera/spec/families.def"
#undef FAMILY

}  // namespace tessera::foreign
