#include "tessera/checkpoint/huggingface/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <filesystem>

#include "tessera/checkpoint/huggingface/hf_import.hpp"

namespace tessera::checkpoint {

namespace {

constexpr std::array<const char*, 6> kNames = {"tokenizer.json", "tokenizer.model", "tokenizer_config.json",
                                               "vocab.json",     "merges.txt",      "spiece.model"};

}  // namespace

std::optional<std::string> tokenizer_in(const std::string& folder) {
  std::error_code ignored;
  for (const char* name : kNames)
    if (std::filesystem::exists(std::filesystem::path(folder) / name, ignored)) return name;
  return std::nullopt;
}

std::optional<std::string> tokenizer_attached(const Manifest& manifest) {
  for (const char* name : kNames)
    if (std::ranges::count(manifest.files, std::string(kAttachedPrefix) + name, &File::name) > 0) return name;
  return std::nullopt;
}

}  // namespace tessera::checkpoint
