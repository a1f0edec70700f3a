#include "tessera/spec/spec.hpp"

#include <algorithm>

#include "tessera/spec/choice_names.hpp"

namespace tessera::spec {

std::int64_t Model::window_of(std::int64_t layer) const {
  const auto at = static_cast<std::size_t>(layer);
  const bool slides = window_layers.empty() || window_layers[at % window_layers.size()] == 'w';
  return slides && sliding_window < sequence ? sliding_window : 0;
}

std::string Model::windows() const {
  std::string out;
  if (sliding_window == 0) return out;
  for (std::size_t layer = 0; layer < static_cast<std::size_t>(layers); ++layer)
    out += window_layers.empty() ? 'w' : window_layers[layer % window_layers.size()];
  return out;
}

std::int64_t Layout::num_virtual() const {
  if (virtual_stages > 0) return virtual_stages;
  const std::int64_t required = entry(schedule).num_virtual;
  return required > 0 ? required : 2;
}

bool offloads(const Layout& layout, Offload what) {
  const auto names = split_list(layout.offload);
  return std::find(names.begin(), names.end(), word(what)) != names.end();
}

std::vector<std::string> split_list(const std::string& text) {
  std::vector<std::string> out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::size_t first = text.find_first_not_of(' ', at), last = text.find_last_not_of(' ', end - 1);
    if (first < end) out.push_back(text.substr(first, last - first + 1));
    at = end + 1;
  }
  return out;
}

}  // namespace tessera::spec
