// Makes a byte-level tokenizer from text.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tessera::tokenizer {

struct LearnOptions {
  std::vector<std::string> paths;
  std::int64_t vocabulary_size = 8192;  // special tokens, 256 bytes, and what merges make
  std::string split = "llama3";         // gpt2, llama3 or qwen2: the pattern that splits words
  std::vector<std::string> special = {"<|endoftext|>"};  // get the first numbers
  std::uint64_t least_count = 2;                         // of a pair that is merged
  int threads = 1;
  // What is under way ("counting words", "merging"), how far, and how far it goes.
  std::function<void(const std::string& what, std::uint64_t done, std::uint64_t all)> progress;
};

struct Learned {
  std::string json;  // a tokenizer.json that `tokenizers` and Tessera read
  std::int64_t vocabulary_size = 0;
  std::size_t num_merges = 0, num_words = 0;  // words: different ones
};

// The same texts give the same tokenizer, whatever the threads. Throws UserError if a file can't be read or
// an option makes no sense.
Learned learn_tokenizer(const LearnOptions& options);

}  // namespace tessera::tokenizer
