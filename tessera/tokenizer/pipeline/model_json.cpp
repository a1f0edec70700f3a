#include "tessera/tokenizer/pipeline/model_json.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "tessera/base/error.hpp"
#include "tessera/tokenizer/pipeline/byte_alphabet.hpp"

namespace tessera::tokenizer {

namespace {

Vocabulary read_vocabulary(const Component& model) {
  const Component vocabulary = model.inner("vocab");
  Vocabulary out;
  out.reserve(vocabulary.json.size());
  for (const auto& [text, id] : vocabulary.json.items()) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= kMostTokens)
      vocabulary.refuse(cat("the number of '", text, "' is not from 0 to ", kMostTokens - 1));
    out.emplace(text, id.get<Token>());
  }
  return out;
}

// ["a", "b"], or "a b".
std::pair<std::string, std::string> read_pair(const Component& model, const nlohmann::json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  if (merge.is_string()) {
    const auto& text = merge.get_ref<const std::string&>();
    const std::size_t space = text.find(' ');
    if (space != std::string::npos && text.find(' ', space + 1) == std::string::npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  model.refuse(cat("the merge ", merge.dump(), " is not two tokens"));
}

std::vector<MergePair> read_merges(const Component& model, const Vocabulary& vocabulary) {
  std::vector<MergePair> out;
  out.reserve(model.size("merges"));
  const auto token = [&](const std::string& text) {
    const auto found = vocabulary.find(text);
    if (found == vocabulary.end()) model.refuse(cat("the merge token '", text, "' is not in the vocabulary"));
    return found->second;
  };
  for (const auto& merge : model.json.at("merges")) {
    if (merge.is_string() && merge.get_ref<const std::string&>().starts_with("#version")) continue;
    const auto [left, right] = read_pair(model, merge);
    out.push_back({token(left), token(right), token(left + right)});
  }
  return out;
}

// All of <0x00> to <0xFF>, or none.
std::vector<Token> byte_tokens(const Component& model, const Vocabulary& vocabulary) {
  std::vector<Token> out;
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    const auto found = vocabulary.find(name);
    if (found == vocabulary.end())
      model.refuse(cat("byte_fallback without the token ", name, " is not known"));
    out.push_back(found->second);
  }
  return out;
}

void refuse_unknown(const Component& model) {
  if (model.has("type") && model.type() != "BPE")
    model.refuse(cat("the model '", model.type(), "' is not known; known is BPE"));
  if (!model.has("type") && !model.has("merges")) model.refuse("the model is not known; known is BPE");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (model.has(key) && !model.text(key).empty()) model.refuse(cat("'", key, "' is not known"));
  if (model.has("dropout") && model.json.at("dropout") != 0) model.refuse("'dropout' is not known");
}

}  // namespace

ModelParts read_model(const Component& model, bool by_bytes) {
  refuse_unknown(model);
  ModelParts out;
  out.vocabulary = read_vocabulary(model);
  out.bpe.by_bytes = by_bytes;
  out.bpe.merges = read_merges(model, out.vocabulary);
  out.bpe.fuse_unknown = model.flag("fuse_unk", false);
  out.bpe.ignore_merges = model.flag("ignore_merges", false);
  if (model.has("unk_token")) {
    const auto found = out.vocabulary.find(model.text("unk_token"));
    if (found == out.vocabulary.end()) model.refuse("'unk_token' is not in the vocabulary");
    out.bpe.unknown = found->second;
  }
  if (!by_bytes) {
    out.bpe.tokens = out.vocabulary;
    if (model.flag("byte_fallback", false)) out.bpe.byte_tokens = byte_tokens(model, out.vocabulary);
    return out;
  }
  // What is no text of the byte alphabet is no part of a word either.
  int num_bytes = 0;
  for (const auto& [text, token] : out.vocabulary)
    if (const auto bytes = from_byte_alphabet(text)) {
      out.bpe.tokens.emplace(*bytes, token);
      num_bytes += bytes->size() == 1;
    }
  if (model.flag("byte_fallback", false) && num_bytes < 256)
    model.refuse("'byte_fallback' beside ByteLevel is not known, unless the vocabulary has all bytes");
  return out;
}

}  // namespace tessera::tokenizer
