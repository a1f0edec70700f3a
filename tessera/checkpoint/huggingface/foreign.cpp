#include "tessera/checkpoint/huggingface/foreign.hpp"

#include <algorithm>

#include "tessera/families/families.hpp"

namespace tessera::checkpoint {
namespace {

// The family whose prefix a name has; null: none.
const ForeignFamily* prefixed(const std::string& name) {
  const auto all = families::foreign_families();
  const auto found = std::ranges::find_if(all, [&](const ForeignFamily& family) {
    return !family.prefix.empty() && name.starts_with(family.prefix);
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

ForeignPlace foreign_place(const std::string& name) {
  const ForeignFamily* family = prefixed(name);
  return family && family->place ? family->place(name) : ForeignPlace{.tensor = name};
}

bool is_derived(const std::string& foreign_name) {
  return std::ranges::any_of(families::foreign_families(), [&](const ForeignFamily& family) {
    return std::ranges::any_of(family.derived,
                               [&](std::string_view ending) { return foreign_name.ends_with(ending); });
  });
}

std::string without_prefix(const std::string& name) {
  const ForeignFamily* family = prefixed(name);
  return family ? name.substr(family->prefix.size()) : name;
}

}  // namespace tessera::checkpoint
