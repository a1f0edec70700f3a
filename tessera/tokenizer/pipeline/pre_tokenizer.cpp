#include "tessera/tokenizer/pipeline/pre_tokenizer.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "tessera/base/error.hpp"
#include "tessera/tokenizer/split/patterns.hpp"
#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer {

namespace {

constexpr std::size_t kMostSteps = 32;

class SplitPreTokenizer final : public PreTokenizer {
 public:
  explicit SplitPreTokenizer(Splitter splitter) : splitter_(std::move(splitter)) {}
  void split(Piece piece, PieceSink& sink) const override { splitter_.split(piece, sink); }

 private:
  Splitter splitter_;
};

// ByteLevel's add_prefix_space.
class PrefixSpace final : public PreTokenizer {
 public:
  void split(Piece piece, PieceSink& sink) const override {
    if (piece.text.starts_with(' ')) return sink.take(piece);
    const std::string text = " " + std::string(piece.text);
    sink.take({text, piece.is_first});
  }
};

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  enum class Prepend { first, never, always };
  MetaspacePreTokenizer(std::string mark, Prepend prepend, bool splits)
      : mark_(mark),
        prepend_(prepend),
        splits_(splits),
        splitter_(text_matcher(mark), SplitBehavior::merged_with_next, false) {}

  void split(Piece piece, PieceSink& sink) const override {
    std::string text;
    const bool begins_marked = piece.text.starts_with(' ') || piece.text.starts_with(mark_);
    const bool wants_mark = prepend_ == Prepend::always || (prepend_ == Prepend::first && piece.is_first);
    if (wants_mark && !begins_marked) text = mark_;
    for (const char c : piece.text) {
      if (c == ' ')
        text += mark_;
      else
        text += c;
    }
    if (splits_)
      splitter_.split({text, piece.is_first}, sink);
    else
      sink.take({text, piece.is_first});
  }

 private:
  std::string mark_;
  Prepend prepend_;
  bool splits_;
  Splitter splitter_;
};

SplitBehavior behavior_of(const Component& component) {
  constexpr std::array<std::pair<const char*, SplitBehavior>, 5> kNames = {{
      {"Isolated", SplitBehavior::isolated},
      {"Removed", SplitBehavior::removed},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous},
  }};
  const std::string given = component.text("behavior");
  for (const auto& [name, behavior] : kNames)
    if (given == name) return behavior;
  component.refuse(cat("behavior '", given, "' is not known"));
}

std::unique_ptr<PreTokenizer> splitting(std::unique_ptr<Matcher> matcher, SplitBehavior behavior,
                                        bool inverted = false) {
  return std::make_unique<SplitPreTokenizer>(Splitter(std::move(matcher), behavior, inverted));
}

std::unique_ptr<PreTokenizer> metaspace(const Component& component) {
  const std::string mark = component.text("replacement");
  if (mark.empty() || valid_prefix(mark) != mark.size() || code_point_at(mark, 0).bytes != mark.size())
    component.refuse("'replacement' is not one character");
  const std::string scheme = component.has("prepend_scheme") ? component.text("prepend_scheme") : "always";
  using Prepend = MetaspacePreTokenizer::Prepend;
  if (scheme != "always" && scheme != "first" && scheme != "never")
    component.refuse(cat("prepend_scheme '", scheme, "' is not known"));
  if (!component.flag("add_prefix_space", true) && scheme != "never")
    component.refuse("'add_prefix_space' is false, but 'prepend_scheme' is not \"never\"");
  const Prepend prepend = scheme == "always"  ? Prepend::always
                          : scheme == "first" ? Prepend::first
                                              : Prepend::never;
  return std::make_unique<MetaspacePreTokenizer>(mark, prepend, component.flag("split", true));
}

void add_pre_tokenizer(const Component& component, PreTokenizers& out) {
  const std::string type = component.type();
  if (type == "Sequence") {
    for (std::size_t i = 0; i < component.size("pretokenizers"); ++i)
      add_pre_tokenizer(component.member("pretokenizers", i), out);
    return;
  }
  if (out.steps.size() >= kMostSteps)
    component.refuse("more than 32 pre-tokenizers in a sequence are not known");
  if (out.by_bytes) component.refuse(cat("'", type, "' after ByteLevel is not known"));
  if (type == "Split") {
    const auto [pattern, is_regex] = pattern_of(component);
    out.steps.push_back(splitting(is_regex ? make_matcher(pattern) : text_matcher(pattern),
                                  behavior_of(component), component.flag("invert")));
  } else if (type == "ByteLevel") {
    if (component.flag("add_prefix_space")) out.steps.push_back(std::make_unique<PrefixSpace>());
    if (component.flag("use_regex", true))
      out.steps.push_back(splitting(make_matcher(kGpt2Pattern), SplitBehavior::isolated));
    out.by_bytes = true;
  } else if (type == "Digits") {
    const bool alone = component.flag("individual_digits");
    out.steps.push_back(
        splitting(digit_matcher(), alone ? SplitBehavior::isolated : SplitBehavior::contiguous));
  } else if (type == "Punctuation") {
    out.steps.push_back(splitting(
        punctuation_matcher(), component.has("behavior") ? behavior_of(component) : SplitBehavior::isolated));
  } else if (type == "Whitespace") {
    out.steps.push_back(splitting(word_matcher(), SplitBehavior::removed, true));
  } else if (type == "WhitespaceSplit") {
    out.steps.push_back(splitting(space_matcher(), SplitBehavior::removed));
  } else if (type == "Metaspace") {
    out.steps.push_back(metaspace(component));
  } else {
    component.refuse_type(
        "Split, ByteLevel, Digits, Punctuation, Metaspace, Whitespace, WhitespaceSplit and Sequence");
  }
}

}  // namespace

PreTokenizers make_pre_tokenizers(const Component& component) {
  PreTokenizers out;
  add_pre_tokenizer(component, out);
  return out;
}

PreTokenizers byte_level_split(const std::string& pattern) {
  PreTokenizers out;
  out.steps.push_back(splitting(make_matcher(pattern), SplitBehavior::isolated));
  out.by_bytes = true;
  return out;
}

}  // namespace tessera::tokenizer
