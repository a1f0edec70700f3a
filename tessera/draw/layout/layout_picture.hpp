// Which rank keeps which piece of which parameter from step to step: of its weights, its gradients and its
// optimizer state, which ZeRO slices one after the other. From a program's tables; parameters that are cut
// alike are folded into one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/box.hpp"
#include "tessera/mesh/mesh.hpp"
#include "tessera/program/ir/types.hpp"

namespace tessera::draw {

// What is kept of a parameter, in the order in which ZeRO begins to slice it from the end.
enum class Kept { weights, gradients, optimizer };
inline constexpr Kept kAllKept[] = {Kept::weights, Kept::gradients, Kept::optimizer};
// Whether a stage of ZeRO (0 to 3) slices it.
inline bool is_sliced(Kept kept, int zero) { return zero > 2 - static_cast<int>(kept); }

// Elements of a parameter that the same ranks store.
struct HeldPiece {
  std::vector<Box> boxes;         // of the whole parameter, in rising order
  std::vector<mesh::Rank> ranks;  // rising
  std::int64_t elements() const;
  bool operator==(const HeldPiece&) const = default;
};

struct HeldParameter {
  std::string name, bucket;
  Shape shape;                      // of the whole
  std::string placements;           // on the axes of more than one rank: "dp_shard R in slices, tp S(0)"
  std::vector<Box> parts;           // as ranks compute with it: one, or those of the ranks it is cut over
  std::vector<HeldPiece> pieces;    // where it is sliced, by their first elements
  std::vector<HeldPiece> unsliced;  // where it is not
  bool operator==(const HeldParameter&) const = default;
};

// How many ranks hold each piece, at least.
std::int64_t num_copies(std::span<const HeldPiece> pieces);

// Elements that a rank keeps, and on which stage it is.
struct HeldByRank {
  std::vector<std::int64_t> coordinates;  // on each axis
  std::int64_t sliced = 0, unsliced = 0;
  bool operator==(const HeldByRank&) const = default;
};

struct LayoutPicture {
  std::string title;
  std::vector<std::string> notes;
  std::vector<program::Axis> axes;  // outermost first
  std::int16_t stage_axis = -1;
  std::vector<HeldByRank> ranks;
  std::vector<HeldParameter> parameters;
  std::vector<HeldParameter> values;  // of one micro-batch, on the ranks that share it with rank 0
  int zero = 0;

  // What lies alike, one group or two: {weights, gradients} and {optimizer} with ZeRO 1.
  std::vector<std::vector<Kept>> groups() const;
  const std::vector<HeldPiece>& pieces(const HeldParameter& parameter, Kept kept) const {
    return is_sliced(kept, zero) ? parameter.pieces : parameter.unsliced;
  }
  std::int64_t elements(const HeldByRank& rank, Kept kept) const {
    return is_sliced(kept, zero) ? rank.sliced : rank.unsliced;
  }

  std::int64_t stage_of(mesh::Rank rank) const;
  // From a rank to its counterpart on the next stage.
  std::int64_t stage_stride() const;
  mesh::Rank on_first_stage(mesh::Rank rank) const { return rank - stage_of(rank) * stage_stride(); }
  bool operator==(const LayoutPicture&) const = default;
};

// "weights, gradients".
std::string names_of(std::span<const Kept> kept);

// Which axes cut a dim of a value, outermost first.
struct ValueCut {
  std::size_t dim = 0;
  std::vector<std::string> axes;
};
// On the ranks that these axes and `others`, which it is equal on, lead to from rank 0.
HeldParameter held_value(const LayoutPicture& picture, const std::string& name, const Shape& shape,
                         const std::vector<ValueCut>& cuts, const std::vector<std::string>& others);

// Without a title or values; `zero` is the layout's.
LayoutPicture layout_picture(const program::Program& program, int zero);

// Parameters of equal shape and placements whose names differ in a number, and of them those whose pieces lie
// alike.
struct FoldedParameter {
  struct Alike {
    std::string which;  // "0 to 5 on pp 0, 6 to 11 on pp 1"; empty: the name says it
    const HeldParameter* first = nullptr;
  };
  std::string name;  // "model.layers.*.mlp.up_proj.weight"
  std::int64_t count = 0;
  std::vector<Alike> alike;
};

// Points into the picture, in the order of its parameters.
std::vector<FoldedParameter> folded(const LayoutPicture& picture);

// "0", "0, 4", "0, 8 .. 56", "0 to 7".
std::string ranks_label(std::span<const mesh::Rank> ranks);

// A whole file: the mesh, and a card for each folded parameter. Throws UserError when there are more ranks
// than a viewer can show.
std::string to_svg(const LayoutPicture& picture);

}  // namespace tessera::draw
