#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/base/files/mapped_file.hpp"
#include "tessera/tokenizer/byte_tokenizer.hpp"
#include "tessera/tokenizer/json_tokenizer.hpp"
#include "tessera/tokenizer/sentencepiece_tokenizer.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera::tokenizer {

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path) {
  if (path == "bytes") return byte_tokenizer();
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    for (const char* name : {"tokenizer.json", "tokenizer.model"})
      if (std::filesystem::exists(path + "/" + name, error)) return open_tokenizer(path + "/" + name);
    throw UserError(cat(path, ": has neither a tokenizer.json nor a tokenizer.model"));
  }
  const MappedFile file(path);
  if (path.ends_with(".model")) return parse_sentencepiece(file.text(), path);
  return parse_tokenizer_json(file.text(), path);
}

}  // namespace tessera::tokenizer
