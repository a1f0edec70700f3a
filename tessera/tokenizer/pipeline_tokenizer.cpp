#include "tessera/tokenizer/pipeline_tokenizer.hpp"

#include <algorithm>
#include <unordered_set>

#include "tessera/base/error.hpp"
#include "tessera/base/shortened.hpp"
#include "tessera/tokenizer/bpe/word_cache.hpp"
#include "tessera/tokenizer/pipeline/byte_alphabet.hpp"
#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer {

namespace {

constexpr std::size_t kQuoted = 200;  // bytes of a token in a message
constexpr char32_t kMetaspace = 0x2581;

// All that encoders and decoders share.
struct Pipeline {
  std::unique_ptr<Normalizer> normalizer;
  PreTokenizers pre_tokenizers;
  Bpe bpe;
  bool cuts_at_metaspace;  // the model gets whole texts, which it may be given word by word
  AddedTokenFinder found_before, found_after;  // it is normalized
  DecodePlan decode_plan;
  struct Entry {
    std::string text;     // as in the vocabulary
    std::string decoded;  // what the decoder is given
    bool exists = false, is_special = false;
  };
  std::vector<Entry> entries;
};

// The last of the steps: words to tokens.
class WordSink final : public PieceSink {
 public:
  explicit WordSink(const Pipeline& pipeline)
      : cache_(pipeline.bpe), cuts_at_metaspace_(pipeline.cuts_at_metaspace) {}
  // Where the tokens of the next text go, which has `bytes` bytes.
  void write_to(std::vector<Token>& tokens, std::size_t bytes) {
    tokens_ = &tokens;
    limit_ = GrowthLimit(bytes);
    taken_ = 0;
  }
  void take(Piece piece) override { take_all({&piece, 1}); }
  void take_all(std::span<const Piece> pieces) override {
    words_.clear();
    for (const Piece& piece : pieces) {
      limit_.check(taken_ += piece.text.size());
      if (cuts_at_metaspace_)
        add_words(piece.text);
      else
        words_.push_back(piece.text);
    }
    cache_.encode(words_, *tokens_);
  }

 private:
  void add_words(std::string_view text) {
    while (!text.empty()) {
      const std::size_t end = end_of_word(text);
      words_.push_back(text.substr(0, end));
      text.remove_prefix(end);
    }
  }

  // Before the first mark that follows another character.
  static std::size_t end_of_word(std::string_view text) {
    constexpr std::string_view kMark = "\u2581";
    std::size_t at = 0;
    while (text.substr(at).starts_with(kMark)) at += kMark.size();
    return std::min(text.find(kMark, at), text.size());
  }

  WordCache cache_;
  bool cuts_at_metaspace_;
  std::vector<Token>* tokens_ = nullptr;
  std::vector<std::string_view> words_;
  GrowthLimit limit_{0};
  std::size_t taken_ = 0;  // bytes of the text so far
};

// Room for the tokens of a text of that length, of which most texts have fewer than one for three.
void reserve_for(std::size_t bytes, std::vector<Token>& tokens) {
  const std::size_t wanted = tokens.size() + bytes / 3;
  if (wanted > tokens.capacity()) tokens.reserve(std::max(wanted, 2 * tokens.capacity()));
}

// A pre-tokenizer that hands its pieces on.
class SplittingSink final : public PieceSink {
 public:
  SplittingSink(const PreTokenizer& step, PieceSink& next) : step_(step), next_(next) {}
  void take(Piece piece) override { step_.split(piece, next_); }

 private:
  const PreTokenizer& step_;
  PieceSink& next_;
};

class PipelineEncoder final : public Encoder {
 public:
  explicit PipelineEncoder(const Pipeline& pipeline)
      : pipeline_(pipeline), words_(pipeline), first_(&words_) {
    const auto& steps = pipeline.pre_tokenizers.steps;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      sinks_.push_back(std::make_unique<SplittingSink>(**step, *first_));
      first_ = sinks_.back().get();
    }
  }

  void encode(std::string_view text, std::vector<Token>& tokens) override {
    std::string mended;
    if (valid_prefix(text) != text.size()) {
      mended = repaired(text);
      text = mended;
    }
    reserve_for(text.size(), tokens);
    words_.write_to(tokens, text.size());
    pipeline_.found_before.split(text, [&](std::string_view part, std::optional<Token> token) {
      if (token)
        tokens.push_back(*token);
      else
        encode_part(part, part.data() == text.data(), tokens);
    });
  }

 private:
  void encode_part(std::string_view part, bool is_first, std::vector<Token>& tokens) {
    std::string changed;
    if (pipeline_.normalizer) {
      changed = pipeline_.normalizer->normalize(part);
      part = changed;
    }
    pipeline_.found_after.split(part, [&](std::string_view piece, std::optional<Token> token) {
      if (token)
        tokens.push_back(*token);
      else
        first_->take({piece, is_first && piece.data() == part.data()});
    });
  }

  const Pipeline& pipeline_;
  WordSink words_;
  std::vector<std::unique_ptr<PieceSink>> sinks_;
  PieceSink* first_;
};

class PipelineDecoder final : public Decoder {
 public:
  PipelineDecoder(const Pipeline& pipeline, bool skip_special)
      : pipeline_(pipeline), skip_special_(skip_special), chain_(pipeline.decode_plan) {}
  std::string push(Token token) override {
    if (token < 0 || static_cast<std::size_t>(token) >= pipeline_.entries.size()) return {};
    const auto& entry = pipeline_.entries[static_cast<std::size_t>(token)];
    if (!entry.exists || (skip_special_ && entry.is_special)) return {};
    return chain_.push(entry.decoded);
  }
  std::string finish() override { return chain_.finish(); }

 private:
  const Pipeline& pipeline_;
  bool skip_special_;
  DecodeChain chain_;
};

class PipelineTokenizer final : public Tokenizer {
 public:
  explicit PipelineTokenizer(PipelineParts parts)
      : vocabulary_(std::move(parts.model.vocabulary)),
        prefix_(std::move(parts.prefix)),
        suffix_(std::move(parts.suffix)),
        pipeline_{.normalizer = std::move(parts.normalizer),
                  .pre_tokenizers = std::move(parts.pre_tokenizers),
                  .bpe = Bpe(std::move(parts.model.bpe)),
                  .decode_plan = std::move(parts.decode_plan)} {
    for (const auto& [text, token] : vocabulary_) add_entry(parts.where, text, token);
    add_added(parts);
    pipeline_.cuts_at_metaspace = pipeline_.bpe.can_cut_before(kMetaspace);
  }

  std::int64_t vocabulary_size() const override { return std::ssize(pipeline_.entries); }
  std::unique_ptr<Encoder> encoder() const override { return std::make_unique<PipelineEncoder>(pipeline_); }
  std::unique_ptr<Decoder> decoder() const override {
    return std::make_unique<PipelineDecoder>(pipeline_, false);
  }
  std::string decode(std::span<const Token> tokens, bool skip_special) const override {
    PipelineDecoder decoder(pipeline_, skip_special);
    std::string out;
    for (const Token token : tokens) out += decoder.push(token);
    return out + decoder.finish();
  }
  std::optional<Token> token_of(std::string_view text) const override {
    const auto found = vocabulary_.find(text);
    if (found == vocabulary_.end()) return std::nullopt;
    return found->second;
  }
  std::string text_of(Token token) const override {
    if (token < 0 || token >= vocabulary_size()) return {};
    return pipeline_.entries[static_cast<std::size_t>(token)].text;
  }
  std::vector<Token> prefix() const override { return prefix_; }
  std::vector<Token> suffix() const override { return suffix_; }

 private:
  Pipeline::Entry& entry_at(Token token) {
    const auto index = static_cast<std::size_t>(token);
    if (index >= pipeline_.entries.size()) pipeline_.entries.resize(index + 1);
    return pipeline_.entries[index];
  }

  void add_entry(const std::string& where, const std::string& text, Token token) {
    auto& entry = entry_at(token);
    if (entry.exists)
      throw UserError(cat(where, ": the tokens '", shortened(entry.text, kQuoted), "' and '",
                          shortened(text, kQuoted), "' have one number, ", token));
    entry = {.text = text, .decoded = decoded(text), .exists = true};
  }

  std::string decoded(const std::string& text) const {
    return pipeline_.decode_plan.by_bytes ? from_byte_alphabet(text).value_or(text) : text;
  }

  // Tokens that the model does not have get the numbers after its own, in their order.
  void add_added(const PipelineParts& parts) {
    auto next = static_cast<Token>(vocabulary_.size());
    std::unordered_set<std::string> special;
    for (const AddedToken& given : parts.added)
      if (given.special) special.insert(given.content);
    for (const AddedToken& given : parts.added) {
      if (given.content.empty()) continue;
      const auto [found, is_new] = vocabulary_.emplace(given.content, next);
      if (found->second != given.id)
        throw UserError(cat(parts.where, ": the added token '", shortened(given.content, kQuoted),
                            "' is said to be ", given.id, ", but by its place it is ", found->second,
                            "; fix the file"));
      std::string looked_for = given.content;
      if (given.normalized && pipeline_.normalizer)
        looked_for = pipeline_.normalizer->normalize(given.content);
      if (is_new) add_entry(parts.where, given.content, next++);
      auto& entry = entry_at(given.id);
      entry.decoded = decoded(looked_for);
      entry.is_special = special.contains(looked_for);
      (given.normalized ? pipeline_.found_after : pipeline_.found_before).add(looked_for, given);
    }
  }

  Vocabulary vocabulary_;
  std::vector<Token> prefix_, suffix_;
  Pipeline pipeline_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_pipeline_tokenizer(PipelineParts parts) {
  return std::make_unique<PipelineTokenizer>(std::move(parts));
}

}  // namespace tessera::tokenizer
