#include <ostream>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"
#include "tessera/cli/tokenizer/tokenizer_commands.hpp"
#include "tessera/metrics/field.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

namespace tessera::cli {

namespace {

using tokenizer::Token;

// White space and bytes that print nothing, made visible: "·the", "\n", "\xE2".
std::string visible(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == ' ') {
      out += "·";
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7F) {
      out += {'\\', 'x', kDigits[byte / 16], kDigits[byte % 16]};
    } else {
      out += c;
    }
  }
  return out;
}

struct ShownToken {
  Token token = 0;
  std::string entry;  // as the vocabulary has it
  std::string text;   // that became sure with this token
};

std::vector<ShownToken> shown_tokens(const tokenizer::Tokenizer& tokenizer,
                                     const std::vector<Token>& tokens) {
  const auto decoder = tokenizer.decoder();
  std::vector<ShownToken> out;
  for (const Token token : tokens) out.push_back({token, tokenizer.text_of(token), decoder->push(token)});
  if (!out.empty()) out.back().text += decoder->finish();
  return out;
}

}  // namespace

int tokenizer_show(const TokenizerShowOptions& options, std::ostream& out) {
  const auto tokenizer = tokenizer::open_tokenizer(options.tokenizer);
  std::vector<Token> tokens;
  if (options.special) tokens = tokenizer->prefix();
  tokenizer->encoder()->encode(options.text, tokens);
  if (options.special)
    for (const Token token : tokenizer->suffix()) tokens.push_back(token);
  const std::string decoded = tokenizer->decode(tokens, true);
  const auto shown = shown_tokens(*tokenizer, tokens);
  if (options.json) {
    std::vector<metrics::Record> list;
    for (const auto& [token, entry, text] : shown)
      list.push_back({{"token", static_cast<std::int64_t>(token)}, {"entry", entry}, {"text", text}});
    out << metrics::json_object(metrics::Record{{"bytes", std::ssize(options.text)},
                                                {"tokens", list},
                                                {"decoded", decoded},
                                                {"vocabulary_size", tokenizer->vocabulary_size()}})
        << "\n";
    return 0;
  }
  std::vector<std::vector<std::string>> rows = {{"token", "text", "in the vocabulary"}};
  for (const auto& [token, entry, text] : shown) rows.push_back({cat(token), visible(text), visible(entry)});
  out << table(rows);
  out << cat(tokens.size(), " tokens of ", options.text.size(), " bytes; the vocabulary has ",
             tokenizer->vocabulary_size(), "; decoding gives ",
             decoded == options.text ? "the text back" : cat("'", visible(decoded), "'"), "\n");
  return 0;
}

}  // namespace tessera::cli
