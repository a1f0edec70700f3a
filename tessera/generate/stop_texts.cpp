#include "tessera/generate/stop_texts.hpp"

#include <algorithm>
#include <utility>

namespace tessera::generate {

std::string StopTexts::push(std::string_view more) {
  if (is_met_) return "";
  waiting_ += more;
  std::size_t first = waiting_.size(), kept = 0;
  for (const std::string& stop : stops_) {
    if (const auto at = waiting_.find(stop); at != waiting_.npos) {
      is_met_ = true;
      first = std::min(first, at);
    }
    for (std::size_t length = std::min(stop.size() - 1, waiting_.size()); length > kept; --length)
      if (waiting_.ends_with(std::string_view(stop).substr(0, length))) kept = length;
  }
  std::string out = waiting_.substr(0, is_met_ ? first : waiting_.size() - kept);
  waiting_.erase(0, is_met_ ? waiting_.size() : out.size());
  return out;
}

std::string StopTexts::finish() { return std::exchange(waiting_, ""); }

}  // namespace tessera::generate
