#include "tessera/tokenizer/json_tokenizer.hpp"

#include <nlohmann/json.hpp>

#include "tessera/base/error.hpp"
#include "tessera/base/json_depth.hpp"
#include "tessera/tokenizer/pipeline/model_json.hpp"
#include "tessera/tokenizer/pipeline_tokenizer.hpp"

namespace tessera::tokenizer {

namespace {

constexpr int kMostDepth = 20;

struct SpecialTokens {
  std::vector<Token> prefix, suffix;
};

Token token_number(const Component& where, std::int64_t id) {
  if (id < 0 || id >= kMostTokens) where.refuse(cat("the token number ", id, " is out of range"));
  return static_cast<Token>(id);
}

// Bert's and RoBERTa's: [text, number] around the text.
Token paired_token(const Component& component, const char* key) {
  if (component.size(key) != 2 || !component.json.at(key).at(1).is_number_unsigned())
    component.refuse(cat("'", key, "' is not [text, number]"));
  return token_number(component, component.json.at(key).at(1).get<std::int64_t>());
}

void add_template(const Component& component, SpecialTokens& out) {
  bool after_text = false;
  for (std::size_t i = 0; i < component.size("single"); ++i) {
    const Component piece = component.member("single", i);
    if (piece.has("Sequence")) {
      if (after_text) piece.refuse("a template with the text twice is not known");
      after_text = true;
      continue;
    }
    const std::string name = piece.inner("SpecialToken").text("id");
    const Component special = component.inner("special_tokens").inner(name.c_str());
    for (std::size_t at = 0; at < special.size("ids"); ++at) {
      const auto& id = special.json.at("ids").at(at);
      if (!id.is_number_unsigned()) special.refuse("'ids' holds what is no number");
      (after_text ? out.suffix : out.prefix).push_back(token_number(special, id.get<std::int64_t>()));
    }
  }
}

void add_special(const Component& component, SpecialTokens& out) {
  const std::string type = component.type();
  if (type == "Sequence") {
    for (std::size_t i = 0; i < component.size("processors"); ++i) {
      SpecialTokens inner;
      add_special(component.member("processors", i), inner);
      out.prefix.insert(out.prefix.begin(), inner.prefix.begin(), inner.prefix.end());
      out.suffix.insert(out.suffix.end(), inner.suffix.begin(), inner.suffix.end());
    }
  } else if (type == "TemplateProcessing") {
    add_template(component, out);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    out.prefix.push_back(paired_token(component, "cls"));
    out.suffix.push_back(paired_token(component, "sep"));
  } else if (type != "ByteLevel") {
    component.refuse_type("TemplateProcessing, ByteLevel, BertProcessing, RobertaProcessing and Sequence");
  }
}

std::vector<AddedToken> added_tokens(const Component& file) {
  std::vector<AddedToken> out;
  for (std::size_t i = 0; file.has("added_tokens") && i < file.size("added_tokens"); ++i) {
    const Component each = file.member("added_tokens", i);
    out.push_back({.id = token_number(each, each.number("id")),
                   .content = each.text("content"),
                   .single_word = each.flag("single_word"),
                   .lstrip = each.flag("lstrip"),
                   .rstrip = each.flag("rstrip"),
                   .normalized = each.flag("normalized"),
                   .special = each.flag("special")});
  }
  return out;
}

}  // namespace

std::unique_ptr<Tokenizer> parse_tokenizer_json(std::string_view text, const std::string& path) {
  if (json_depth(text) > kMostDepth) throw UserError(cat(path, ": is nested deeper than a tokenizer.json"));
  const auto json = nlohmann::json::parse(text, nullptr, false);
  const Component file{json, path};
  if (json.is_discarded() || !json.is_object()) file.refuse("is not a JSON object; is it a tokenizer.json?");

  PipelineParts parts;
  parts.where = path;
  if (file.has("normalizer")) parts.normalizer = make_normalizer(file.inner("normalizer"));
  if (file.has("pre_tokenizer")) parts.pre_tokenizers = make_pre_tokenizers(file.inner("pre_tokenizer"));
  parts.decode_plan = file.has("decoder") ? make_decode_plan(file.inner("decoder")) : spaced_plan();
  parts.added = added_tokens(file);
  if (file.has("post_processor")) {
    SpecialTokens special;
    add_special(file.inner("post_processor"), special);
    parts.prefix = std::move(special.prefix);
    parts.suffix = std::move(special.suffix);
  }
  parts.model = read_model(file.inner("model"), parts.pre_tokenizers.by_bytes);
  return make_pipeline_tokenizer(std::move(parts));
}

}  // namespace tessera::tokenizer
