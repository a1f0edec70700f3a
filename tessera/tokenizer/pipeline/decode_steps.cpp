#include "tessera/tokenizer/pipeline/decode_steps.hpp"

#include <nlohmann/json.hpp>

#include "tessera/tokenizer/pipeline/byte_alphabet.hpp"
#include "tessera/tokenizer/pipeline/replaced.hpp"
#include "tessera/tokenizer/unicode/utf8.hpp"

namespace tessera::tokenizer {

namespace {

// Bytes to text. Bytes that can still become a character wait for those that come.
class LossyText final : public DecodeStep {
 public:
  // `mapped`: texts are of the byte alphabet; those that are not are taken as they are.
  explicit LossyText(bool mapped) : mapped_(mapped) {}
  void push(std::string text, const Give& give) override {
    if (mapped_) text = from_byte_alphabet(text).value_or(text);
    kept_ += text;
    const std::size_t sure = kept_.size() - unfinished_suffix(kept_);
    if (sure > 0) give(repaired(std::string_view(kept_).substr(0, sure)));
    kept_.erase(0, sure);
  }
  void finish(const Give& give) override {
    if (!kept_.empty()) give(repaired(kept_));
    kept_.clear();
  }

 private:
  bool mapped_;
  std::string kept_;
};

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// <0xE2> and the like are bytes. A row of them is a text if all of it is valid, or else as many U+FFFD: it is
// not sure before its end.
class ByteFallback final : public DecodeStep {
 public:
  void push(std::string text, const Give& give) override {
    const bool has_form = text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
    // Rust reads "+F" as a number too.
    const int high = !has_form ? -1 : text[3] == '+' ? 0 : hex_digit(text[3]);
    const int low = has_form ? hex_digit(text[4]) : -1;
    if (high >= 0 && low >= 0) {
      bytes_.push_back(static_cast<char>(high * 16 + low));
      return;
    }
    finish(give);
    give(std::move(text));
  }
  void finish(const Give& give) override {
    if (bytes_.empty()) return;
    if (valid_prefix(bytes_) == bytes_.size())
      give(bytes_);
    else
      for (std::size_t i = 0; i < bytes_.size(); ++i) give(to_utf8(kReplacement));
    bytes_.clear();
  }

 private:
  std::string bytes_;
};

// Each text by itself.
class Mapped final : public DecodeStep {
 public:
  using Map = std::function<std::string(const std::string& text, bool is_first)>;
  explicit Mapped(Map map) : map_(std::move(map)) {}
  void push(std::string text, const Give& give) override {
    give(map_(text, is_first_));
    is_first_ = false;
  }
  void finish(const Give&) override {}

 private:
  Map map_;
  bool is_first_ = true;
};

// All texts as one, which only the end makes sure.
class Whole final : public DecodeStep {
 public:
  explicit Whole(std::unique_ptr<DecodeStep> step) : step_(std::move(step)) {}
  void push(std::string text, const Give&) override { text_ += text; }
  void finish(const Give& give) override {
    step_->push(std::move(text_), give);
    step_->finish(give);
  }

 private:
  std::unique_ptr<DecodeStep> step_;
  std::string text_;
};

struct StripRule {
  std::string content;
  std::int64_t start = 0, stop = 0;
};

// Takes up to `start` characters away from the beginning of all texts.
class StripBeginning final : public DecodeStep {
 public:
  explicit StripBeginning(StripRule rule) : rule_(std::move(rule)) {}
  void push(std::string text, const Give& give) override {
    std::string_view left = text;
    while (rule_.start > 0 && left.starts_with(rule_.content)) {
      left.remove_prefix(rule_.content.size());
      --rule_.start;
    }
    if (!left.empty()) rule_.start = 0;
    give(std::string(left));
  }
  void finish(const Give&) override {}

 private:
  StripRule rule_;
};

std::string stripped(const StripRule& rule, std::string_view text) {
  for (std::int64_t i = 0; i < rule.start && text.starts_with(rule.content); ++i)
    text.remove_prefix(rule.content.size());
  for (std::int64_t i = 0; i < rule.stop && text.ends_with(rule.content); ++i)
    text.remove_suffix(rule.content.size());
  return std::string(text);
}

class SpacedTokens final : public DecodeStep {
 public:
  void push(std::string text, const Give& give) override {
    give(is_first_ ? std::move(text) : " " + text);
    is_first_ = false;
  }
  void finish(const Give&) override {}

 private:
  bool is_first_ = true;
};

// One character.
std::string character(const Component& component, const char* key) {
  const std::string out = component.text(key);
  if (out.empty() || code_point_at(out, 0).bytes != out.size()) component.refuse("wants one character");
  return out;
}

class PlanMaker {
 public:
  void add(const Component& component) {
    const std::string type = component.type();
    if (type == "Sequence") {
      for (std::size_t i = 0; i < component.size("decoders"); ++i) add(component.member("decoders", i));
    } else if (type == "ByteLevel") {
      add_step([] { return std::make_unique<LossyText>(true); });
    } else if (type == "ByteFallback") {
      add_step([] { return std::make_unique<ByteFallback>(); });
    } else if (type == "Fuse") {
      is_fused_ = true;
    } else if (type == "Replace") {
      const auto [pattern, is_regex] = pattern_of(component);
      const std::shared_ptr<Matcher> matcher = is_regex ? make_matcher(pattern) : text_matcher(pattern);
      const std::string content = component.text("content");
      add_map([matcher, content](const std::string& text, bool) {
        return replaced(text, *matcher, content, GrowthLimit(text.size()));
      });
    } else if (type == "Strip") {
      add_strip(component);
    } else if (type == "Metaspace") {
      add_metaspace(component);
    } else {
      component.refuse_type("ByteLevel, ByteFallback, Fuse, Metaspace, Replace, Strip and Sequence");
    }
  }

  DecodePlan take() { return std::move(out_); }

 private:
  using Make = std::function<std::unique_ptr<DecodeStep>()>;
  void add_step(Make make) {
    if (is_fused_) make = [make] { return std::make_unique<Whole>(make()); };
    out_.steps.push_back(std::move(make));
  }
  void add_map(Mapped::Map map) {
    add_step([map = std::move(map)] { return std::make_unique<Mapped>(map); });
  }
  void add_strip(const Component& component) {
    const StripRule rule{character(component, "content"), component.number("start"),
                         component.number("stop")};
    if (is_fused_ && rule.stop == 0)
      out_.steps.push_back([rule] { return std::make_unique<StripBeginning>(rule); });
    else
      add_map([rule](const std::string& text, bool) { return stripped(rule, text); });
  }
  void add_metaspace(const Component& component) {
    const std::string mark = character(component, "replacement");
    const bool drops_first = !component.has("prepend_scheme") || component.text("prepend_scheme") != "never";
    add_map([mark, drops_first](const std::string& text, bool is_first) {
      std::string out;
      std::size_t at = 0;
      for (std::size_t found; (found = text.find(mark, at)) != std::string::npos; at = found + mark.size()) {
        out += text.substr(at, found - at);
        if (!is_first || !drops_first) out += ' ';
      }
      return out + text.substr(at);
    });
  }

  DecodePlan out_;
  bool is_fused_ = false;
};

}  // namespace

DecodePlan make_decode_plan(const Component& component) {
  if (component.type() == "ByteLevel")
    return {.steps = {[] { return std::make_unique<LossyText>(false); }}, .by_bytes = true};
  PlanMaker maker;
  maker.add(component);
  return maker.take();
}

DecodePlan spaced_plan() {
  return {.steps = {[] { return std::make_unique<SpacedTokens>(); }}};
}

DecodeChain::DecodeChain(const DecodePlan& plan) {
  for (const auto& make : plan.steps) steps_.push_back(make());
}

void DecodeChain::push_from(std::size_t step, std::string text, std::string& out) {
  const bool is_last = step == steps_.size();
  if (is_last) made_ += text.size();
  GrowthLimit(taken_).check(is_last ? made_ : text.size());
  if (is_last) {
    out += text;
    return;
  }
  steps_[step]->push(std::move(text), [&](std::string next) { push_from(step + 1, std::move(next), out); });
}

std::string DecodeChain::push(std::string text) {
  std::string out;
  taken_ += text.size();
  push_from(0, std::move(text), out);
  return out;
}

std::string DecodeChain::finish() {
  std::string out;
  for (std::size_t step = 0; step < steps_.size(); ++step)
    steps_[step]->finish([&](std::string next) { push_from(step + 1, std::move(next), out); });
  return out;
}

}  // namespace tessera::tokenizer
