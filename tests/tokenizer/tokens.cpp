// Encodes, decodes and learns what another program asks for, which compares the answers with its own:
// compare.py.
//
//   tokens TOKENIZER < questions > answers
//   tokens learn TEXT SPLIT VOCABULARY THREADS > tokenizer.json
//
// A question is the length of a text, in four bytes, and the text. Its answer is how many tokens it has, the
// tokens in four bytes each, and the length and text of decoding them, with special tokens and without.
// Decoding token by token must give the same, or the program stops.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "tessera/base/error.hpp"
#include "tessera/tokenizer/learn/learn.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

using namespace tessera;

namespace {

bool read_number(std::uint32_t& number) { return std::fread(&number, sizeof number, 1, stdin) == 1; }

void write_number(std::size_t number) {
  const auto narrow = static_cast<std::uint32_t>(number);
  std::fwrite(&narrow, sizeof narrow, 1, stdout);
}

void write_text(const std::string& text) {
  write_number(text.size());
  std::fwrite(text.data(), 1, text.size(), stdout);
}

std::string streamed(const tokenizer::Tokenizer& tokenizer, std::span<const tokenizer::Token> tokens) {
  const auto decoder = tokenizer.decoder();
  std::string out;
  for (const auto token : tokens) out += decoder->push(token);
  return out + decoder->finish();
}

void answer(const std::string& path) {
  const auto tokenizer = tokenizer::open_tokenizer(path);
  const auto encoder = tokenizer->encoder();
  std::uint32_t length = 0;
  std::string text;
  std::vector<tokenizer::Token> tokens;
  while (read_number(length)) {
    text.resize(length);
    if (std::fread(text.data(), 1, length, stdin) != length) throw UserError("a question ends too early");
    tokens.clear();
    encoder->encode(text, tokens);
    write_number(tokens.size());
    std::fwrite(tokens.data(), sizeof tokens[0], tokens.size(), stdout);
    const std::string decoded = tokenizer->decode(tokens, false);
    TESSERA_CHECK(streamed(*tokenizer, tokens) == decoded, "decoded token by token it is another text");
    write_text(decoded);
    write_text(tokenizer->decode(tokens, true));
  }
}

void learn(char** words) {
  const auto made = tokenizer::learn_tokenizer({.paths = {words[0]},
                                                .vocabulary_size = std::atoi(words[2]),
                                                .split = words[1],
                                                .threads = std::atoi(words[3])});
  std::fputs(made.json.c_str(), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool learns = argc == 6 && std::string_view(argv[1]) == "learn";
    if (!learns && argc != 2)
      throw UserError("usage: tokens TOKENIZER | learn TEXT SPLIT VOCABULARY THREADS");
    if (learns)
      learn(argv + 2);
    else
      answer(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokens: %s\n", error.what());
    return exit_code(error);
  }
}
