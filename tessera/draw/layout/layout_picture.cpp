#include "tessera/draw/layout/layout_picture.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/program/passes/holdings.hpp"

namespace tessera::draw {
namespace {

using program::Bucket;
using program::Parameter;
using program::Placement;
using program::Tables;

// Where each rank of a bucket's holders stands: its part among those of the ranks that the bucket is cut
// over, and its slice of that part.
struct Place {
  std::int64_t part = 0, slice = 0;
  auto operator<=>(const Place&) const = default;
};
using Holders = std::map<Place, std::vector<mesh::Rank>>;

std::int64_t coordinate(const std::vector<mesh::AxisSet>& sets, std::int16_t set, mesh::Rank rank) {
  return set < 0 ? 0 : sets[static_cast<std::size_t>(set)].coordinate(rank);
}

std::vector<Box> stored_boxes(const Parameter& parameter, const Bucket& bucket, const Tables& tables,
                              const Place& place) {
  const std::int64_t slice_elements = bucket.elements / tables.num_slices(bucket);
  const std::int64_t begin = std::max(place.slice * slice_elements, parameter.offset);
  const std::int64_t end =
      std::min((place.slice + 1) * slice_elements, parameter.offset + parameter.elements());
  if (begin >= end) return {};
  const Box part = parameter.box(place.part);
  std::vector<Box> out = boxes_of_range(parameter.shape, begin - parameter.offset, end - begin);
  for (Box& box : out) box = moved(std::move(box), part.offset);
  return out;
}

// The axes of the set that a parameter is cut over, in their order, are those of its first cut, then of the
// next.
std::int64_t dim_cut_by(std::int16_t axis, const Tables& tables, const Bucket& bucket,
                        const Parameter& parameter) {
  std::size_t cut = 0;
  std::int64_t parts = 1;
  for (const std::int16_t each : tables.axis_sets[static_cast<std::size_t>(bucket.cut_over)].axes) {
    const std::int64_t size = tables.axes[static_cast<std::size_t>(each)].size;
    if (size > 1 && parts == parameter.cuts.at(cut).parts) ++cut, parts = 1;
    parts *= size;
    if (each == axis) break;
  }
  return parameter.cuts.at(cut).dim;
}

std::string placement_word(const Tables& tables, const Bucket& bucket, const Parameter& parameter,
                           const program::AxisPlacement& on) {
  const auto has = [&](std::int16_t set) {
    return set >= 0 && std::ranges::count(tables.axis_sets[static_cast<std::size_t>(set)].axes, on.axis) > 0;
  };
  if (has(bucket.cut_over)) return cat("S(", dim_cut_by(on.axis, tables, bucket, parameter), ")");
  const char* word = on.placement == Placement::replicated  ? "R"
                     : on.placement == Placement::invariant ? "I"
                                                            : "S";
  return cat(word, has(bucket.sharded_over) ? " in slices" : "");
}

std::string placements_text(const Tables& tables, const Bucket& bucket, const Parameter& parameter) {
  std::vector<std::string> words;
  for (const program::AxisPlacement& on : bucket.placement) {
    const program::Axis& axis = tables.axes[static_cast<std::size_t>(on.axis)];
    if (axis.size > 1) words.push_back(cat(axis.name, " ", placement_word(tables, bucket, parameter, on)));
  }
  return words.empty() ? "whole" : join(words, ", ");
}

HeldParameter held(const Parameter& parameter, const Bucket& bucket, const Tables& tables,
                   const Holders& holders) {
  const std::int64_t num_parts = tables.size_of(bucket.cut_over);
  HeldParameter out{.name = parameter.name,
                    .bucket = bucket.name,
                    .shape = parameter.whole_shape(),
                    .placements = placements_text(tables, bucket, parameter)};
  for (std::int64_t part = 0; part < num_parts; ++part) out.parts.push_back(parameter.box(part));
  std::map<std::int64_t, std::vector<mesh::Rank>> by_part;
  for (const auto& [place, ranks] : holders) {
    if (auto boxes = stored_boxes(parameter, bucket, tables, place); !boxes.empty())
      out.pieces.push_back({std::move(boxes), ranks});
    by_part[place.part].insert(by_part[place.part].end(), ranks.begin(), ranks.end());
  }
  for (auto& [part, ranks] : by_part) {
    std::ranges::sort(ranks);
    out.unsliced.push_back({{out.parts[static_cast<std::size_t>(part)]}, std::move(ranks)});
  }
  return out;
}

}  // namespace

std::int64_t HeldPiece::elements() const {
  std::int64_t out = 0;
  for (const Box& box : boxes) out += box.elements();
  return out;
}

std::int64_t num_copies(std::span<const HeldPiece> pieces) {
  return std::ssize(
      std::ranges::min_element(pieces, {}, [](const HeldPiece& piece) { return piece.ranks.size(); })->ranks);
}

std::vector<std::vector<Kept>> LayoutPicture::groups() const {
  const bool all_alike = std::ranges::all_of(
      parameters, [](const HeldParameter& parameter) { return parameter.pieces == parameter.unsliced; });
  std::vector<std::vector<Kept>> out(1);
  for (const Kept kept : kAllKept) {
    if (!all_alike && !out.back().empty() && is_sliced(out.back().back(), zero) != is_sliced(kept, zero))
      out.emplace_back();
    out.back().push_back(kept);
  }
  return out;
}

std::string names_of(std::span<const Kept> kept) {
  constexpr const char* kNames[] = {"weights", "gradients", "optimizer state"};
  std::vector<std::string> names;
  for (const Kept each : kept) names.emplace_back(kNames[static_cast<int>(each)]);
  return join(names, ", ");
}

std::int64_t LayoutPicture::stage_of(mesh::Rank rank) const {
  if (stage_axis < 0) return 0;
  return ranks[static_cast<std::size_t>(rank)].coordinates[static_cast<std::size_t>(stage_axis)];
}

std::int64_t LayoutPicture::stage_stride() const {
  std::int64_t out = 1;
  for (std::size_t axis = static_cast<std::size_t>(stage_axis + 1); axis < axes.size(); ++axis)
    out *= axes[axis].size;
  return out;
}

HeldParameter held_value(const LayoutPicture& picture, const std::string& name, const Shape& shape,
                         const std::vector<ValueCut>& cuts, const std::vector<std::string>& others) {
  HeldParameter out{.name = name, .bucket = "", .shape = shape, .placements = "", .parts = {}};
  const auto index_of = [&](const std::string& axis) {
    const auto found = std::ranges::find(picture.axes, axis, &program::Axis::name);
    TESSERA_CHECK(found != picture.axes.end(), "no axis is called ", axis);
    return static_cast<std::size_t>(found - picture.axes.begin());
  };
  std::vector<bool> leads(picture.axes.size(), false);
  std::vector<std::string> words;
  const auto say = [&](const std::string& axis, const std::string& word) {
    leads[index_of(axis)] = true;
    if (picture.axes[index_of(axis)].size > 1) words.push_back(cat(axis, " ", word));
  };
  for (const ValueCut& cut : cuts)
    for (const std::string& axis : cut.axes) say(axis, cat("S(", cut.dim, ")"));
  for (const std::string& axis : others) say(axis, "R");
  out.placements = join(words, ", ");
  std::vector<std::pair<Box, std::vector<mesh::Rank>>> blocks;
  for (std::size_t rank = 0; rank < picture.ranks.size(); ++rank) {
    const auto& at = picture.ranks[rank].coordinates;
    bool is_reached = true;
    for (std::size_t axis = 0; axis < at.size(); ++axis) is_reached &= leads[axis] || at[axis] == 0;
    if (!is_reached) continue;
    Box box = whole_box(shape);
    for (const ValueCut& cut : cuts) {
      std::int64_t part = 0, parts = 1;
      for (const std::string& axis : cut.axes) {
        part = part * picture.axes[index_of(axis)].size + at[index_of(axis)];
        parts *= picture.axes[index_of(axis)].size;
      }
      box.extent[cut.dim] = shape[cut.dim] / parts;
      box.offset[cut.dim] = part * box.extent[cut.dim];
    }
    const auto found = std::ranges::find(blocks, box, [](const auto& block) { return block.first; });
    if (found == blocks.end())
      blocks.push_back({box, {static_cast<mesh::Rank>(rank)}});
    else
      found->second.push_back(static_cast<mesh::Rank>(rank));
  }
  for (auto& [box, ranks] : blocks) {
    out.parts.push_back(box);
    out.unsliced.push_back({{box}, std::move(ranks)});
  }
  out.pieces = out.unsliced;
  return out;
}

LayoutPicture layout_picture(const program::Program& program, int zero) {
  const Tables& tables = program.tables;
  LayoutPicture out{.axes = tables.axes, .stage_axis = tables.stage_axis, .zero = zero};
  const mesh::Mesh mesh = program::mesh_of(tables);
  const auto sets = program::sets_of(tables);
  std::vector<program::Holdings> of_classes;
  for (const program::Sequence& sequence : program.classes)
    of_classes.push_back(program::holdings(sequence, tables));
  for (mesh::Rank rank = 0; rank < mesh.size(); ++rank) out.ranks.push_back({mesh.coordinates(rank)});

  for (std::size_t b = 0; b < tables.buckets.size(); ++b) {
    const Bucket& bucket = tables.buckets[b];
    Holders holders;
    for (mesh::Rank rank = 0; rank < mesh.size(); ++rank)
      if (of_classes[tables.class_of_rank[static_cast<std::size_t>(rank)]].buckets[b])
        if (const auto slice = program::slice_held(bucket, tables, rank))
          holders[{coordinate(sets, bucket.cut_over, rank), slice->position}].push_back(rank);
    for (const Parameter& parameter : bucket.parameters) {
      const HeldParameter& added = out.parameters.emplace_back(held(parameter, bucket, tables, holders));
      for (const HeldPiece& piece : added.pieces)
        for (const mesh::Rank rank : piece.ranks)
          out.ranks[static_cast<std::size_t>(rank)].sliced += piece.elements();
      for (const HeldPiece& piece : added.unsliced)
        for (const mesh::Rank rank : piece.ranks)
          out.ranks[static_cast<std::size_t>(rank)].unsliced += piece.elements();
    }
  }
  return out;
}

}  // namespace tessera::draw
