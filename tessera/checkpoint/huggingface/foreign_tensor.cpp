#include "tessera/checkpoint/huggingface/foreign_tensor.hpp"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/checkpoint/format/convert.hpp"
#include "tessera/checkpoint/format/names.hpp"
#include "tessera/checkpoint/format/safetensors.hpp"
#include "tessera/checkpoint/huggingface/parameter_places.hpp"

namespace tessera::checkpoint {

namespace {

constexpr std::int64_t kBlockBytes = 8 << 20;

std::vector<std::byte> read(Checkpoint& from, const std::string& name, const Box& box) {
  const auto element = element_bytes(from.tensor(name).dtype).value();
  std::vector<std::byte> out(static_cast<std::size_t>(box.elements()) * element);
  from.read(name, box, out);
  return out;
}

void for_each_row_block(const ForeignTensor& tensor, const std::string& part, Checkpoint& from,
                        const std::function<void(std::span<const std::byte>)>& take) {
  const Tensor& ours = from.tensor(part);
  const auto element = static_cast<std::int64_t>(element_bytes(ours.dtype).value());
  const std::int64_t count = num_elements(ours.shape) / tensor.runs;
  for (const Box& run : boxes_of_range(ours.shape, tensor.run * count, count))
    for_each_block(run, kBlockBytes / element,
                   [&](const Box& box) { take(converted(read(from, part, box), ours.dtype, tensor.dtype)); });
}

// A block of rows there is a block of columns of each part.
void for_each_turned_block(const ForeignTensor& tensor, Checkpoint& from,
                           const std::function<void(std::span<const std::byte>)>& take) {
  const Tensor& ours = from.tensor(tensor.parts.front());
  const std::int64_t outputs = ours.shape.at(0), inputs = ours.shape.at(1), parts = std::ssize(tensor.parts);
  const auto element = static_cast<std::int64_t>(element_bytes(ours.dtype).value());
  const std::int64_t row_bytes = outputs * parts * element,
                     most = std::max<std::int64_t>(1, kBlockBytes / row_bytes);
  std::vector<std::byte> block;
  for (std::int64_t row = 0; row < inputs; row += most) {
    const std::int64_t count = std::min(most, inputs - row);
    block.resize(static_cast<std::size_t>(count * row_bytes));
    for (std::int64_t part = 0; part < parts; ++part) {
      const auto columns =
          read(from, tensor.parts[static_cast<std::size_t>(part)], {{0, row}, {outputs, count}});
      for (std::int64_t out = 0; out < outputs; ++out)
        for (std::int64_t in = 0; in < count; ++in)
          std::memcpy(block.data() + in * row_bytes + (part * outputs + out) * element,
                      columns.data() + (out * count + in) * element, static_cast<std::size_t>(element));
    }
    take(converted(block, ours.dtype, tensor.dtype));
  }
}

}  // namespace

Shape ForeignTensor::shape(const Checkpoint& from) const {
  Shape out = shape_in_stack(from.tensor(parts.front()).shape, static_cast<std::size_t>(runs));
  if (parts.size() > 1) out.front() *= std::ssize(parts);
  if (transposed) std::swap(out.front(), out.back());
  return out;
}

std::uint64_t ForeignTensor::bytes(const Checkpoint& from) const {
  return static_cast<std::uint64_t>(num_elements(shape(from))) * element_bytes(dtype).value();
}

namespace {

// Where a parameter goes: to the tensors of a stack, or to a place in one; to none if that one is empty.
struct Target {
  std::vector<std::string> stack;
  foreign::ForeignPlace place;
};

std::vector<ForeignTensor> made_of(const Checkpoint& from, const std::string& dtype,
                                   const std::function<Target(const Wanted&)>& target_of) {
  std::map<std::string, ForeignTensor> found;
  for (const auto& [name, tensor] : from.manifest().tensors) {
    if (!is_parameter(name)) continue;
    const auto [stack, place] = target_of({name, tensor.shape});
    const std::string written_as = dtype.empty() ? tensor.dtype : dtype;
    for (std::size_t i = 0; i < stack.size(); ++i)
      found[stack[i]] = {.name = stack[i],
                         .dtype = written_as,
                         .parts = {name},
                         .run = static_cast<std::int64_t>(i),
                         .runs = std::ssize(stack)};
    if (!stack.empty() || place.tensor.empty()) continue;
    ForeignTensor& out = found[place.tensor];
    out.name = place.tensor;
    out.dtype = written_as;
    out.transposed = place.transposed;
    out.parts.resize(static_cast<std::size_t>(place.parts));
    out.parts[static_cast<std::size_t>(place.part)] = name;
  }
  std::vector<ForeignTensor> out;
  for (auto& [name, tensor] : found) {
    for (const std::string& part : tensor.parts) {
      if (part.empty()) throw UserError(cat("the checkpoint lacks a part of '", name, "'"));
      const Tensor &one = from.tensor(part), &first = from.tensor(tensor.parts.front());
      if (one != first || (tensor.transposed && one.shape.size() != 2) ||
          (tensor.parts.size() > 1 && one.shape.empty()))
        throw UserError(cat("the parts of '", name, "' do not fit together: '", part, "' is another"));
    }
    out.push_back(std::move(tensor));
  }
  return out;
}

}  // namespace

std::vector<ForeignTensor> foreign_tensors(const Checkpoint& from, const std::string& dtype,
                                           const std::function<bool(const std::string&)>& is_there) {
  return made_of(from, dtype, [&](const Wanted& parameter) -> Target {
    if (auto stack = stack_of(parameter, is_there)) return {std::move(*stack), {}};
    foreign::ForeignPlace place = place_of(parameter.name, is_there);
    if (!is_there(place.tensor)) place.tensor.clear();
    return {{}, std::move(place)};
  });
}

std::vector<ForeignTensor> foreign_tensors(const Checkpoint& from, const std::string& dtype,
                                           std::string_view type) {
  return made_of(from, dtype, [&](const Wanted& parameter) -> Target {
    for (foreign::ForeignStack& stack : foreign_stacks(parameter.name, parameter.shape))
      if (stack.type == type) return {std::move(stack.tensors), {}};
    return {{}, foreign_place(parameter.name)};
  });
}

void for_each_block(const ForeignTensor& tensor, Checkpoint& from,
                    const std::function<void(std::span<const std::byte>)>& take) {
  if (tensor.transposed) return for_each_turned_block(tensor, from, take);
  for (const std::string& part : tensor.parts) for_each_row_block(tensor, part, from, take);
}

}  // namespace tessera::checkpoint
