#include "tessera/tokenizer/pipeline/replaced.hpp"

namespace tessera::tokenizer {

std::string replaced(std::string_view text, const Matcher& matcher, std::string_view content,
                     const GrowthLimit& limit) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  std::size_t at = 0;
  while (const Match match = matcher.find(text, at)) {
    out += text.substr(at, match.begin - at);
    out += content;
    limit.check(out.size());
    at = match.end;
  }
  out += text.substr(at);
  limit.check(out.size());
  return out;
}

}  // namespace tessera::tokenizer
