#include "tessera/tokenizer/learn/learn_merges.hpp"

#include <algorithm>
#include <queue>
#include <string>
#include <unordered_map>

namespace tessera::tokenizer {

namespace {

std::uint64_t pair_of(Token left, Token right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}
Token left_of(std::uint64_t pair) { return static_cast<Token>(pair >> 32); }
Token right_of(std::uint64_t pair) { return static_cast<Token>(pair & UINT32_MAX); }

// How often a pair stands in all texts, and which words may hold it, each once or more.
struct PairState {
  std::int64_t count = 0;
  std::vector<std::uint32_t> words;
};

struct Candidate {
  std::int64_t count = 0;
  std::uint64_t pair = 0;
  bool operator<(const Candidate& other) const {
    return count != other.count ? count < other.count : pair > other.pair;
  }
};

class MergeLearner {
 public:
  MergeLearner(std::span<const WordCount> words, std::span<const Token> byte_tokens) {
    words_.reserve(words.size());
    counts_.reserve(words.size());
    for (const auto& [word, count] : words) {
      std::vector<Token> tokens;
      for (const char byte : word) tokens.push_back(byte_tokens[static_cast<unsigned char>(byte)]);
      words_.push_back(std::move(tokens));
      counts_.push_back(static_cast<std::int64_t>(count));
    }
    for (std::uint32_t i = 0; i < words_.size(); ++i)
      for (std::size_t at = 0; at + 1 < words_[i].size(); ++at)
        add(pair_of(words_[i][at], words_[i][at + 1]), i, 1);
    for (const auto& [pair, state] : pairs_) queue_.push({state.count, pair});
  }

  // The most frequent pair now; one with a count of 0 if there is none left.
  Candidate next() {
    while (!queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const std::int64_t now = pairs_[top.pair].count;
      if (now == top.count) return top;
      if (now > 0) queue_.push({now, top.pair});  // others took some of it
    }
    return {};
  }

  void merge(std::uint64_t pair, Token into) {
    changed_.clear();
    std::vector<std::uint32_t> places = std::move(pairs_[pair].words);
    std::sort(places.begin(), places.end());
    places.erase(std::unique(places.begin(), places.end()), places.end());
    for (const std::uint32_t word : places) merge_in(word, pair, into);
    pairs_.erase(pair);
    std::sort(changed_.begin(), changed_.end());
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const std::uint64_t each : changed_)
      if (const auto found = pairs_.find(each); found != pairs_.end() && found->second.count > 0)
        queue_.push({found->second.count, each});
  }

 private:
  void add(std::uint64_t pair, std::uint32_t word, int sign) {
    PairState& state = pairs_[pair];
    state.count += sign * counts_[word];
    if (sign > 0 && (state.words.empty() || state.words.back() != word)) state.words.push_back(word);
  }

  void merge_in(std::uint32_t index, std::uint64_t pair, Token into) {
    std::vector<Token>& word = words_[index];
    const Token left = left_of(pair), right = right_of(pair);
    std::size_t kept = 0;
    for (std::size_t at = 0; at < word.size(); ++at) {
      if (at + 1 == word.size() || word[at] != left || word[at + 1] != right) {
        word[kept++] = word[at];
        continue;
      }
      // What stood around the pair now stands around the new token.
      if (kept > 0) {
        add(pair_of(word[kept - 1], left), index, -1);
        add(pair_of(word[kept - 1], into), index, 1);
        changed_.push_back(pair_of(word[kept - 1], into));
      }
      if (at + 2 < word.size()) {
        add(pair_of(right, word[at + 2]), index, -1);
        add(pair_of(into, word[at + 2]), index, 1);
        changed_.push_back(pair_of(into, word[at + 2]));
      }
      word[kept++] = into;
      ++at;
    }
    word.resize(kept);
  }

  std::vector<std::vector<Token>> words_;
  std::vector<std::int64_t> counts_;
  std::unordered_map<std::uint64_t, PairState> pairs_;
  std::priority_queue<Candidate> queue_;
  std::vector<std::uint64_t> changed_;
};

}  // namespace

std::vector<MergePair> learn_merges(std::span<const WordCount> words, std::span<const Token> byte_tokens,
                                    Token first_new, const LearnLimits& limits) {
  MergeLearner learner(words, byte_tokens);
  std::vector<MergePair> out;
  // Two merges can make one token: "aa" + "a" and "a" + "aa".
  std::unordered_map<std::string, Token> known;
  std::unordered_map<Token, std::string> texts;
  for (std::size_t byte = 0; byte < byte_tokens.size(); ++byte)
    texts[byte_tokens[byte]] = std::string(1, static_cast<char>(byte));
  Token next = first_new;
  const Token end = first_new + static_cast<Token>(limits.num_merges);
  while (next < end) {
    const auto [count, pair] = learner.next();
    if (count < 1 || static_cast<std::uint64_t>(count) < limits.least_count) break;
    const std::string text = texts[left_of(pair)] + texts[right_of(pair)];
    const auto [found, is_new] = known.emplace(text, next);
    const Token into = found->second;
    if (is_new) texts[next++] = text;
    out.push_back({left_of(pair), right_of(pair), into});
    learner.merge(pair, into);
    if (limits.progress) limits.progress(static_cast<std::uint64_t>(next - first_new), limits.num_merges);
  }
  return out;
}

}  // namespace tessera::tokenizer
