#include "tessera/program/ir/tables.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/text.hpp"

namespace tessera::program {

std::int64_t Parameter::elements() const { return num_elements(shape); }

std::vector<std::int64_t> Parameter::whole_shape() const {
  auto whole = shape;
  for (const DimCut& cut : cuts) whole.at(static_cast<std::size_t>(cut.dim)) *= cut.parts;
  return whole;
}

Box Parameter::box(std::int64_t part) const {
  Box out = whole_box(shape);
  for (std::size_t i = cuts.size(); i-- > 0; part /= cuts[i].parts) {
    const auto dim = static_cast<std::size_t>(cuts[i].dim);
    out.offset.at(dim) = part % cuts[i].parts * shape.at(dim);
  }
  return out;
}

std::string Parameter::cut_text() const {
  std::vector<std::string> dims;
  for (const DimCut& cut : cuts) dims.push_back(cat(cut.dim));
  return cat("S(", join(dims, ", "), ")");
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

bool Tables::meets_other_stages(std::int16_t axis_set) const {
  return axis_set >= 0 && stage_axis >= 0 &&
         std::ranges::count(axis_sets.at(static_cast<std::size_t>(axis_set)).axes, stage_axis) > 0;
}

bool Tables::has_servers() const {
  return std::ranges::any_of(axes, [](const Axis& axis) { return axis.servers > 0; });
}

bool Tables::is_served(const Bucket& bucket) const {
  return bucket.sharded_over >= 0 &&
         std::ranges::any_of(
             axis_sets.at(static_cast<std::size_t>(bucket.sharded_over)).axes,
             [&](std::int16_t axis) { return axes.at(static_cast<std::size_t>(axis)).servers > 0; });
}

std::int64_t Tables::num_slices(const Bucket& bucket) const {
  if (!is_served(bucket)) return size_of(bucket.sharded_over);
  std::int64_t product = 1;
  for (const std::int16_t axis : axis_sets.at(static_cast<std::size_t>(bucket.sharded_over)).axes)
    product *= axes.at(static_cast<std::size_t>(axis)).servers > 0
                   ? axes.at(static_cast<std::size_t>(axis)).servers
                   : axes.at(static_cast<std::size_t>(axis)).size;
  return product;
}

std::int64_t Tables::num_workers(const Bucket& bucket) const {
  return is_served(bucket) ? size_of(bucket.sharded_over) - num_slices(bucket) : 0;
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

std::int16_t set_of(AxisSet set, Tables& tables) {
  if (const std::int16_t found = tables.set_called(set.name); found >= 0) return found;
  const auto index = static_cast<std::int16_t>(tables.axis_sets.size());
  tables.axis_sets.push_back(std::move(set));
  tables.groups.push_back(index);
  return index;
}

std::vector<std::int16_t> sum_sets(const Number& number, const Tables& tables) {
  if (!number.summed_along.empty()) return number.summed_along;
  std::vector<std::int16_t> left = number.partial_over, out;
  for (std::int16_t set = 0; set < static_cast<std::int16_t>(tables.axis_sets.size()); ++set) {
    const AxisSet& axes = tables.axis_sets[static_cast<std::size_t>(set)];
    const auto is_left = [&](std::int16_t axis) { return std::ranges::count(left, axis) > 0; };
    if (!axes.only.empty() || !std::ranges::all_of(axes.axes, is_left)) continue;
    std::erase_if(left, [&](std::int16_t axis) { return std::ranges::count(axes.axes, axis) > 0; });
    out.push_back(set);
  }
  TESSERA_CHECK(left.empty(), "no axis sets to sum ", number.name, " over");
  return out;
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
