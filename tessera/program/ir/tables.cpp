#include "tessera/program/ir/tables.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::program {

std::int64_t Parameter::elements() const { return num_elements(shape); }

std::vector<std::int64_t> Parameter::whole_shape(std::int64_t num_parts) const {
  auto whole = shape;
  if (num_parts > 1) whole.at(static_cast<std::size_t>(cut_dim)) *= num_parts;
  return whole;
}

Box Parameter::box(const Slice& part) const {
  Box out = whole_box(shape);
  if (part.count > 1) {
    const auto dim = static_cast<std::size_t>(cut_dim);
    out.offset.at(dim) = part.position * shape.at(dim);
  }
  return out;
}

std::int16_t Tables::set_called(std::string_view name) const {
  const auto found = std::ranges::find(axis_sets, name, &AxisSet::name);
  return found == axis_sets.end() ? std::int16_t{-1} : static_cast<std::int16_t>(found - axis_sets.begin());
}

std::vector<std::int16_t> Tables::axes_that(bool (*are)(const Axis&)) const {
  std::vector<std::int16_t> out;
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    if (are(axes[axis])) out.push_back(static_cast<std::int16_t>(axis));
  return out;
}

std::int64_t Tables::size_of(std::int16_t axis_set) const {
  if (axis_set < 0) return 1;
  std::int64_t product = 1;
  const AxisSet& set = axis_sets.at(axis_set);
  for (const std::int16_t axis : set.axes) product *= axes.at(axis).size;
  if (!set.only.empty())
    product = product / axes.at(set.axes.front()).size * static_cast<std::int64_t>(set.only.size());
  return product;
}

void assign_ends(Tables& tables) {
  std::vector<bool> has_reader(tables.values.size(), false);
  for (Segment& segment : tables.segments) {
    segment.ends.clear();
    for (const std::uint32_t value : segment.reads) {
      if (has_reader.at(value)) continue;
      has_reader[value] = true;
      segment.ends.push_back(value);
    }
  }
}

void lay_out(Bucket& bucket, std::int64_t num_shards) {
  std::int64_t offset = 0;
  for (Parameter& parameter : bucket.parameters) {
    TESSERA_CHECK(parameter.elements() > 0, "parameter ", parameter.name, " has no elements");
    parameter.offset = offset;
    offset += parameter.elements();
  }
  const std::int64_t unit = kBucketAlignment * num_shards;
  bucket.elements = (offset + unit - 1) / unit * unit;
}

}  // namespace tessera::program
