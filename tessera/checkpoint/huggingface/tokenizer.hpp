// Which files of Hugging Face make tokens of a text.
#pragma once

#include <optional>
#include <string>

#include "tessera/checkpoint/format/manifest.hpp"

namespace tessera::checkpoint {

// The first such file of a folder, or among those attached to a checkpoint, by its name; nothing if there is
// none.
std::optional<std::string> tokenizer_in(const std::string& folder);
std::optional<std::string> tokenizer_attached(const Manifest& manifest);

}  // namespace tessera::checkpoint
