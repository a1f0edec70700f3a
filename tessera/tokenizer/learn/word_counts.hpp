// How often each word stands in texts, counted by several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tessera::tokenizer {

struct WordCount {
  std::string word;
  std::uint64_t count = 0;
  bool operator==(const WordCount&) const = default;
};

struct CountOptions {
  std::string pattern;  // what splits a text into words
  int threads = 1;
  // Bytes of texts read so far, and of all; called from any thread, by one at a time.
  std::function<void(std::uint64_t done, std::uint64_t all)> progress;
};

// The words of all files, in the order of their bytes, whatever the threads. A file is read in parts that end
// with a line: a word that goes on over the end of a line may be cut there. Throws UserError if a file can't
// be read.
std::vector<WordCount> count_words(const std::vector<std::string>& paths, const CountOptions& options);

}  // namespace tessera::tokenizer
