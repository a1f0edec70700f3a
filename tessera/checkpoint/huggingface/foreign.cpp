#include "tessera/checkpoint/huggingface/foreign.hpp"

#include <algorithm>

#include "tessera/base/box.hpp"
#include "tessera/base/error.hpp"
#include "tessera/families/families.hpp"

namespace tessera::checkpoint {
namespace {

// The family whose prefix a name has; null: none.
const foreign::ForeignFamily* prefixed(const std::string& name) {
  const auto all = families::foreign_families();
  const auto found = std::ranges::find_if(all, [&](const foreign::ForeignFamily& family) {
    return !family.prefix.empty() && name.starts_with(family.prefix);
  });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace

foreign::ForeignPlace foreign_place(const std::string& name) {
  const foreign::ForeignFamily* family = prefixed(name);
  return family && family->place ? family->place(name) : foreign::ForeignPlace{.tensor = name};
}

std::vector<foreign::ForeignStack> foreign_stacks(const std::string& name,
                                                  const std::vector<std::int64_t>& shape) {
  std::vector<foreign::ForeignStack> out;
  for (const foreign::ForeignFamily& family : families::foreign_families())
    if (family.stacks)
      for (foreign::ForeignStack& stack : family.stacks(name, shape)) out.push_back(std::move(stack));
  return out;
}

std::vector<std::int64_t> foreign_shape(const std::vector<std::int64_t>& shape) {
  return shape.size() == 4 ? std::vector{shape[0], shape[1] * shape[2], shape[3]} : shape;
}

std::vector<std::int64_t> shape_in_stack(const std::vector<std::int64_t>& shape, std::size_t num_tensors) {
  std::size_t dim = 0, tensors = 1;
  while (tensors < num_tensors && dim < shape.size()) tensors *= static_cast<std::size_t>(shape[dim++]);
  TESSERA_CHECK(tensors == num_tensors, num_tensors, " tensors of a parameter of ", shape_text(shape));
  return {shape.begin() + static_cast<std::ptrdiff_t>(dim), shape.end()};
}

bool is_derived(const std::string& foreign_name) {
  return std::ranges::any_of(families::foreign_families(), [&](const foreign::ForeignFamily& family) {
    return std::ranges::any_of(family.derived,
                               [&](std::string_view ending) { return foreign_name.ends_with(ending); });
  });
}

std::string without_prefix(const std::string& name) {
  const foreign::ForeignFamily* family = prefixed(name);
  return family ? name.substr(family->prefix.size()) : name;
}

}  // namespace tessera::checkpoint
