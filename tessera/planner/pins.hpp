// The keys of [layout] that a user gave by hand: the search leaves them as they are.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tessera/spec/spec.hpp"

namespace tessera::planner {

class Pins {
 public:
  Pins() = default;
  // The pins among overrides such as "layout.tp=8"; other sections have none.
  explicit Pins(const std::vector<std::string>& overrides);

  bool has(const std::string& name) const { return names_.contains(name); }
  bool empty() const { return names_.empty(); }

  // A layout with all defaults but what is pinned in `given`, and its precision.
  spec::Layout base(const spec::Run& given) const;
  // Whether the run has what is pinned in `given`.
  bool allow(const spec::Run& run, const spec::Run& given) const;
  // "layout.tp = 8, layout.zero = 3".
  std::string text(const spec::Run& given) const;

 private:
  std::set<std::string> names_;  // of keys, without the section
};

}  // namespace tessera::planner
