#include "tessera/checkpoint/huggingface/parameter_places.hpp"

#include <algorithm>
#include <set>

#include "tessera/base/box.hpp"
#include "tessera/base/error.hpp"

namespace tessera::checkpoint {

namespace {

const std::string kHead = "lm_head.weight";

void check_tensor(const TensorFiles& files, const Wanted& parameter, const foreign::ForeignPlace& place) {
  const TensorBytes& found = files.tensor(place.tensor);
  const std::string where = cat(place.tensor, " in ", files.path());
  if (found.dtype != "F32" && found.dtype != "F64" && found.dtype != "BF16" && found.dtype != "F16")
    throw UserError(cat(where, " is stored as ", found.dtype, "; weights may be F64, F32, BF16 or F16"));
  auto needed = foreign_shape(parameter.shape);
  needed.front() *= place.parts;
  if (place.transposed) std::swap(needed.front(), needed.back());
  auto compared = found.shape;
  if (place.may_be_longer && !compared.empty()) compared.front() = std::min(compared.front(), needed.front());
  if (compared != needed)
    throw UserError(cat(where, " is ", shape_text(found.shape), "; the model of this run needs ",
                        shape_text(needed), ". Make [model] match the file."));
}

// A tied head may lie in the file a second time; a head of its own is another model, though every shape fits.
void check_tied_head(const TensorFiles& files, const std::string& table) {
  const TensorBytes &head = files.tensor(kHead), &tied = files.tensor(table);
  if (head.dtype == tied.dtype && head.shape == tied.shape && std::ranges::equal(head.bytes, tied.bytes))
    return;
  throw UserError(cat(kHead, " in ", files.path(), " differs from ", table,
                      ", and the head of this run is tied to that table. Write model.tied_embeddings = false "
                      "to train the head of the file."));
}

}  // namespace

foreign::ForeignPlace place_of(const std::string& name,
                               const std::function<bool(const std::string&)>& is_there) {
  foreign::ForeignPlace place = foreign_place(name);
  if (is_there(name) && !place.may_be_longer) return {.tensor = name};
  if (const std::string bare = without_prefix(place.tensor); !is_there(place.tensor) && is_there(bare))
    place.tensor = bare;
  if (!is_there(place.tensor)) place.tensor = name;  // so that the complaint speaks of the parameter
  return place;
}

foreign::ForeignPlace place_of(const std::string& name, const TensorFiles& files) {
  return place_of(name, [&](const std::string& tensor) { return files.tensors().contains(tensor); });
}

std::optional<std::vector<std::string>> stack_of(const Wanted& parameter,
                                                 const std::function<bool(const std::string&)>& is_there) {
  if (is_there(parameter.name)) return std::nullopt;
  for (foreign::ForeignStack& stack : foreign_stacks(parameter.name, parameter.shape))
    if (std::ranges::any_of(stack.tensors, is_there)) return std::move(stack.tensors);
  return std::nullopt;
}

std::optional<std::vector<std::string>> stack_of(const Wanted& parameter, const TensorFiles& files) {
  return stack_of(parameter, [&](const std::string& tensor) { return files.tensors().contains(tensor); });
}

void check_fits(const TensorFiles& files, std::span<const Wanted> parameters) {
  std::set<std::string> used;
  for (const Wanted& parameter : parameters) {
    if (const auto stack = stack_of(parameter, files)) {
      for (const std::string& tensor : *stack) {
        check_tensor(files, {tensor, shape_in_stack(parameter.shape, stack->size())}, {.tensor = tensor});
        if (files.tensor(tensor).dtype != files.tensor(stack->front()).dtype)
          throw UserError(cat(tensor, " in ", files.path(), " has another dtype than ", stack->front(),
                              ", with which it makes one parameter"));
      }
      used.insert(stack->begin(), stack->end());
      continue;
    }
    const foreign::ForeignPlace place = place_of(parameter.name, files);
    check_tensor(files, parameter, place);
    used.insert(place.tensor);
  }
  if (files.tensors().contains(kHead) && !used.contains(kHead))
    check_tied_head(files, place_of(parameters.front().name, files).tensor);
  // A tensor that nothing reads means another model: more layers, biases, experts.
  for (const auto& [name, tensor] : files.tensors())
    if (!used.contains(name) && name != kHead && !is_derived(name))
      throw UserError(cat(files.path(), " holds ", name,
                          ", which the model of this run has not. Make [model] match the file."));
}

}  // namespace tessera::checkpoint
