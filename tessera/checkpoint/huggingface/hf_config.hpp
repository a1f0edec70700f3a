// Translates between a config.json of `transformers` and our model section. Nothing of the file is run; what
// it asks for that is not computed here is refused by name.
#pragma once

#include <string>
#include <string_view>

#include "tessera/foreign/foreign_family.hpp"

namespace tessera::checkpoint {

inline constexpr char kConfigName[] = "config.json";

// Of the architectures of all families (tessera/families), as transformers 4 and 5 spell them. Throws
// UserError naming `path`, the key and what to do.
foreign::HfModel hf_model(std::string_view text, const std::string& path);

// The config.json of a model whose weights are of `dtype` ("F32"). Throws UserError when no architecture of
// transformers has all of its properties.
std::string hf_config(const spec::Model& model, const std::string& dtype);

// A config.json as it was, but with this dtype and, for learnt positions, so many of them.
std::string with_dtype(const std::string& config, const std::string& dtype, const spec::Model& model);

}  // namespace tessera::checkpoint
