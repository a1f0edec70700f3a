#include "tessera/checkpoint/huggingface/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <span>
#include <string>

#include "tessera/base/files/mapped_file.hpp"
#include "tessera/base/files/replace_file.hpp"
#include "tessera/base/text.hpp"
#include "tessera/checkpoint/huggingface/hf_import.hpp"

namespace tessera::checkpoint {

namespace {

namespace fs = std::filesystem;

constexpr char kKeptFolder[] = "tokenizer";
// First those that make tokens, then what is read next to them: by chat templates, and to know which tokens
// end an answer.
constexpr std::size_t kTokenizers = 6;
constexpr std::array<const char*, 10> kNames = {
    "tokenizer.json",    "tokenizer.model",       "tokenizer_config.json", "vocab.json",
    "merges.txt",        "spiece.model",          "chat_template.jinja",   "special_tokens_map.json",
    "added_tokens.json", "generation_config.json"};

void copy(const FolderFile& from, const std::string& to) {
  const MappedFile file(from);
  const auto bytes = file.bytes();
  if (std::error_code ignored; fs::exists(to, ignored) && std::ranges::equal(bytes, MappedFile(to).bytes()))
    return;
  replace_file(to, std::span(&bytes, 1));
}

}  // namespace

std::optional<std::string> tokenizer_in(const std::string& folder) {
  std::error_code ignored;
  for (const char* name : std::span(kNames).first(kTokenizers))
    if (fs::exists(fs::path(folder) / name, ignored)) return name;
  return std::nullopt;
}

void keep_tokenizer(const std::string& source, const std::string& checkpoints, Links links) {
  std::error_code unknown;
  const bool is_folder = fs::is_directory(source, unknown);
  // A bare file name has an empty parent_path.
  const fs::path from = is_folder ? fs::path(source) : (fs::path(".") / source).parent_path();
  const std::string to = checkpoints + "/" + kKeptFolder;
  if (std::error_code ignored; fs::equivalent(from, to, ignored)) return;
  make_folder_of(to + "/" + kNames[0]);
  if (!is_folder) {  // its own name may be any
    const bool is_model = fs::path(source).extension() == ".model";
    copy({from.string(), fs::path(source).filename().string(), Links::followed},
         cat(to, "/", is_model ? "tokenizer.model" : "tokenizer.json"));
  }
  for (const std::string name : kNames) {
    const bool is_other_tokenizer = !is_folder && (name.starts_with("tokenizer.") || name == "spiece.model");
    if (std::error_code ignored; !is_other_tokenizer && fs::exists(from / name, ignored))
      copy({from.string(), name, links}, cat(to, "/", name));
  }
}

std::optional<std::string> kept_tokenizer(const std::string& checkpoint) {
  const fs::path path = fs::path(checkpoint).lexically_normal();
  const fs::path own = path.has_filename() ? path : path.parent_path();  // without a slash at the end
  const std::string folder = (own.parent_path() / kKeptFolder).string();
  return tokenizer_in(folder) ? std::optional(folder) : std::nullopt;
}

std::optional<std::string> tokenizer_folder(const std::string& checkpoint) {
  const std::string imported = cat(checkpoint, "/", kAttachedPrefix);
  return tokenizer_in(imported) ? imported : kept_tokenizer(checkpoint);
}

}  // namespace tessera::checkpoint
