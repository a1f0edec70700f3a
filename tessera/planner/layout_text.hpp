// A layout in words, and as the keys that make it.
#pragma once

#include <string>
#include <vector>

#include "tessera/spec/spec.hpp"

namespace tessera::planner {

// "pp 8, tp 8, dp 16, zero 1, 1f1b, micro-batch 1".
std::string layout_text(const spec::Layout& layout);
// The keys by which it differs from the defaults: "layout.pp=8".
std::vector<std::string> layout_keys(const spec::Layout& layout);

}  // namespace tessera::planner
