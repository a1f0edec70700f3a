#include "tessera/tokenizer/pipeline/normalizer.hpp"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "tessera/tokenizer/pipeline/replaced.hpp"
#include "tessera/tokenizer/split/code_bits.hpp"
#include "tessera/tokenizer/split/matcher.hpp"
#include "tessera/tokenizer/unicode/normalize.hpp"

namespace tessera::tokenizer {

namespace {

class NormalFormNormalizer final : public Normalizer {
 public:
  explicit NormalFormNormalizer(NormalForm form) : form_(form) {}
  std::string normalize(std::string_view text, const GrowthLimit& limit) const override {
    std::string out = normalized(text, form_);
    limit.check(out.size());
    return out;
  }

 private:
  NormalForm form_;
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  std::string normalize(std::string_view text, const GrowthLimit& limit) const override {
    limit.check(prefix_.size() + text.size());
    return text.empty() ? std::string() : prefix_ + std::string(text);
  }

 private:
  std::string prefix_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  ReplaceNormalizer(std::unique_ptr<Matcher> matcher, std::string content)
      : matcher_(std::move(matcher)), content_(std::move(content)) {}
  std::string normalize(std::string_view text, const GrowthLimit& limit) const override {
    return replaced(text, *matcher_, content_, limit);
  }

 private:
  std::unique_ptr<Matcher> matcher_;
  std::string content_;
};

class StripNormalizer final : public Normalizer {
 public:
  StripNormalizer(bool left, bool right) : left_(left), right_(right) {}
  std::string normalize(std::string_view text, const GrowthLimit&) const override {
    while (left_ && !text.empty() && space_.has(code_point_at(text, 0).value))
      text.remove_prefix(code_point_at(text, 0).bytes);
    while (right_ && !text.empty()) {
      const std::size_t last = before(text, text.size());
      if (!space_.has(code_point_at(text, last).value)) break;
      text = text.substr(0, last);
    }
    return std::string(text);
  }

 private:
  bool left_, right_;
  CodeBits space_{ranges_of(CodeSet::space)};
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  std::string normalize(std::string_view text, const GrowthLimit& limit) const override {
    std::string out(text);
    for (const auto& step : steps_) out = step->normalize(out, limit);
    return out;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

std::optional<NormalForm> form_of(const std::string& type) {
  if (type == "NFC") return NormalForm::nfc;
  if (type == "NFD") return NormalForm::nfd;
  if (type == "NFKC") return NormalForm::nfkc;
  if (type == "NFKD") return NormalForm::nfkd;
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Normalizer> make_normalizer(const Component& component) {
  const std::string type = component.type();
  if (const auto form = form_of(type)) return std::make_unique<NormalFormNormalizer>(*form);
  if (type == "Prepend") return std::make_unique<PrependNormalizer>(component.text("prepend"));
  if (type == "Strip")
    return std::make_unique<StripNormalizer>(component.flag("strip_left"), component.flag("strip_right"));
  if (type == "Replace") {
    const auto [pattern, is_regex] = pattern_of(component);
    return std::make_unique<ReplaceNormalizer>(is_regex ? make_matcher(pattern) : text_matcher(pattern),
                                               component.text("content"));
  }
  if (type == "Sequence") {
    std::vector<std::unique_ptr<Normalizer>> steps;
    for (std::size_t i = 0; i < component.size("normalizers"); ++i)
      steps.push_back(make_normalizer(component.member("normalizers", i)));
    return std::make_unique<NormalizerSequence>(std::move(steps));
  }
  component.refuse_type("NFC, NFD, NFKC, NFKD, Prepend, Replace, Strip and Sequence");
}

}  // namespace tessera::tokenizer
