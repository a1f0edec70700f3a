#include "tessera/tokenizer/learn/learn.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "tessera/base/error.hpp"
#include "tessera/tokenizer/learn/learn_merges.hpp"
#include "tessera/tokenizer/pipeline/byte_alphabet.hpp"
#include "tessera/tokenizer/split/patterns.hpp"
#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::int64_t kMostVocabulary = 1 << 20;

std::string pattern_named(const std::string& name) {
  const std::map<std::string, std::string> known = {
      {"gpt2", kGpt2Pattern}, {"llama3", kLlama3Pattern}, {"qwen2", kQwen2Pattern}};
  const auto found = known.find(name);
  if (found == known.end())
    throw UserError(cat("no split is called '", name, "'; there are gpt2, llama3 and qwen2"));
  return found->second;
}

void check(const LearnOptions& options) {
  const std::int64_t least = 256 + std::ssize(options.special);
  if (options.vocabulary_size < least || options.vocabulary_size > kMostVocabulary)
    throw UserError(cat("a vocabulary of ", options.vocabulary_size, " tokens: wants ", least, " to ",
                        kMostVocabulary, ", 256 of which are the bytes"));
  if (options.paths.empty()) throw UserError("a tokenizer is learned from at least one file");
  std::unordered_set<std::string> seen;
  for (const std::string& special : options.special) {
    if (special.empty() || valid_prefix(special) != special.size() || !seen.insert(special).second)
      throw UserError(cat("the special token '", special, "' is empty, no UTF-8, or named twice"));
    const auto bytes = from_byte_alphabet(special);
    if (bytes && bytes->size() == 1)
      throw UserError(cat("the special token '", special, "' is one character, which stands for a byte"));
  }
}

// As `tokenizers` writes it.
OrderedJson byte_level_json(bool add_prefix_space, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

OrderedJson pre_tokenizer_json(const LearnOptions& options) {
  if (options.split == "gpt2") return byte_level_json(false, true);
  const OrderedJson split = {{"type", "Split"},
                             {"pattern", {{"Regex", pattern_named(options.split)}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
  return {{"type", "Sequence"},
          {"pretokenizers", OrderedJson::array({split, byte_level_json(false, false)})}};
}

std::string tokenizer_json(const LearnOptions& options, const std::vector<std::string>& tokens,
                           const std::vector<MergePair>& merges) {
  OrderedJson added = OrderedJson::array();
  for (std::size_t i = 0; i < options.special.size(); ++i)
    added.push_back({{"id", i},
                     {"content", options.special[i]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  OrderedJson vocabulary = OrderedJson::object(), pairs = OrderedJson::array();
  auto& members = vocabulary.get_ref<OrderedJson::object_t&>();
  members.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) members.Container::emplace_back(tokens[i], i);
  for (const MergePair& merge : merges)
    pairs.push_back(
        {tokens[static_cast<std::size_t>(merge.left)], tokens[static_cast<std::size_t>(merge.right)]});
  const OrderedJson model = {{"type", "BPE"},
                             {"dropout", nullptr},
                             {"unk_token", nullptr},
                             {"continuing_subword_prefix", nullptr},
                             {"end_of_word_suffix", nullptr},
                             {"fuse_unk", false},
                             {"byte_fallback", false},
                             {"ignore_merges", false},
                             {"vocab", std::move(vocabulary)},
                             {"merges", std::move(pairs)}};
  const OrderedJson out = {{"version", "1.0"},
                           {"truncation", nullptr},
                           {"padding", nullptr},
                           {"added_tokens", std::move(added)},
                           {"normalizer", nullptr},
                           {"pre_tokenizer", pre_tokenizer_json(options)},
                           {"post_processor", nullptr},
                           {"decoder", byte_level_json(true, true)},
                           {"model", model}};
  return out.dump(1) + "\n";
}

}  // namespace

Learned learn_tokenizer(const LearnOptions& options) {
  check(options);
  const auto told = [&](const char* what) {
    return [&options, what](std::uint64_t done, std::uint64_t all) {
      if (options.progress) options.progress(what, done, all);
    };
  };
  const auto words =
      count_words(options.paths, {pattern_named(options.split), options.threads, told("counting words")});

  // Special tokens, then bytes in the order of their characters.
  std::vector<std::string> tokens = options.special;
  std::vector<std::pair<char32_t, int>> alphabet;
  for (int byte = 0; byte < 256; ++byte)
    alphabet.emplace_back(character_of_byte(static_cast<unsigned char>(byte)), byte);
  std::sort(alphabet.begin(), alphabet.end());
  std::vector<Token> byte_tokens(256);
  for (const auto& [character, byte] : alphabet) {
    byte_tokens[static_cast<std::size_t>(byte)] = static_cast<Token>(tokens.size());
    tokens.push_back(to_utf8(character));
  }
  const auto merges = learn_merges(words, byte_tokens, static_cast<Token>(tokens.size()),
                                   {static_cast<std::size_t>(options.vocabulary_size) - tokens.size(),
                                    options.least_count, told("merging")});
  for (const MergePair& merge : merges)
    if (static_cast<std::size_t>(merge.into) == tokens.size())
      tokens.push_back(tokens[static_cast<std::size_t>(merge.left)] +
                       tokens[static_cast<std::size_t>(merge.right)]);
  return {tokenizer_json(options, tokens, merges), std::ssize(tokens), merges.size(), words.size()};
}

}  // namespace tessera::tokenizer
