// How fast texts are encoded, on one thread, with a cache that begins empty: bench/tokenizer/peers.py.
#include <time.h>

#include <cstdio>
#include <exception>

#include "tessera/base/error.hpp"
#include "tessera/base/files/mapped_file.hpp"
#include "tessera/tokenizer/tokenizer.hpp"

using namespace tessera;

namespace {

// Of this thread on a processor: others on the machine do not count.
double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Prints seconds and tokens.
void measure(const std::string& path, const std::string& text_path) {
  const auto tokenizer = tokenizer::open_tokenizer(path);
  const MappedFile file(text_path);
  const std::string text(file.text());
  const auto encoder = tokenizer->encoder();
  std::vector<tokenizer::Token> tokens;
  const double begun = processor_seconds();
  encoder->encode(text, tokens);
  std::printf("%.6f %zu\n", processor_seconds() - begun, tokens.size());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw UserError("usage: tokenizer_speed TOKENIZER TEXT");
    measure(argv[1], argv[2]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tokenizer_speed: %s\n", error.what());
    return exit_code(error);
  }
}
