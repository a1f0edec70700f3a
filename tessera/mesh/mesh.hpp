// The mesh: ranks as digits over named axes and their factors, with coordinates, peers and groups. Pure
// arithmetic, no table of ranks is kept. The last axis varies fastest.
#pragma once

#include <compare>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::mesh {

using Rank = std::int64_t;

struct Factor {
  std::string name;
  std::int64_t size = 1;
  bool operator==(const Factor&) const = default;
};

// An axis is the product of its factors, outermost first: dp = dp_replicate * dp_shard.
struct Axis {
  std::string name;
  std::vector<Factor> factors;
  Axis(std::string axis_name, std::int64_t size);  // one factor, of the axis's own name
  Axis(std::string axis_name, std::vector<Factor> outermost_first);
  std::int64_t size() const;
  bool operator==(const Axis&) const = default;
};

// Some axes or factors of a mesh in a recorded order, outermost first: dp over tp is not tp over dp.
class AxisSet {
 public:
  // The same set with only those of its groups' members that stand at these coordinates (rising) of its
  // outermost axis: the first and the last stage of a pipeline. Other ranks are in no group.
  AxisSet only(std::vector<std::int64_t> coordinates) const;
  // Whether the rank is in a group; false only for a set made by only().
  bool holds(Rank rank) const;
  // The product of the sizes: how many ranks are in a group along this set.
  std::int64_t size() const { return size_; }
  // The names as they were asked for.
  const std::vector<std::string>& names() const { return names_; }
  // Where the rank stands in its group, from 0; the last name varies fastest.
  std::int64_t coordinate(Rank rank) const;
  // The rank at `coordinate` of the same group.
  Rank member(Rank rank, std::int64_t coordinate) const;
  // The rank `hop` further along the group, as on a ring; hop may be negative.
  Rank neighbour(Rank rank, std::int64_t hop) const;
  // All ranks of this rank's group, in order of coordinate; of a rank in no group: itself.
  std::vector<Rank> peers(Rank rank) const;
  // Every group: a partition of the ranks it holds, in the order of their first members.
  std::vector<std::vector<Rank>> groups() const;
  std::int64_t num_groups() const;
  // Which of groups() holds the rank, or would, if it were in one.
  std::int64_t group_index(Rank rank) const;
  bool operator==(const AxisSet&) const = default;

 private:
  friend class Mesh;
  struct Digit {
    std::int64_t size = 1, stride = 1;
    std::vector<std::int64_t>
        only;  // coordinates on the mesh, if not all of them count; `size` is their number
    std::int64_t full_size = size;  // on the mesh
    std::int64_t on_mesh(Rank rank) const { return rank / stride % full_size; }
    std::int64_t of(Rank rank) const;               // -1: not among `only`
    std::int64_t offset(std::int64_t place) const;  // of the rank at this place of the digit
    bool operator==(const Digit&) const = default;
  };
  AxisSet() = default;
  Rank origin(Rank rank) const;
  void check(Rank rank) const;

  std::vector<std::string> names_;
  std::vector<Digit> digits_, rest_;  // rest_: the other digits of the mesh, in its order
  std::int64_t size_ = 1, num_ranks_ = 1;
};

class Mesh {
 public:
  // Outermost axis first. Throws UserError for a name used twice, a size below 1, a product over 2^60.
  explicit Mesh(std::vector<Axis> axes);

  std::int64_t size() const { return size_; }
  const std::vector<Axis>& axes() const { return axes_; }
  // Whether an axis or factor has this name.
  bool has(std::string_view name) const;
  // The axes or factors of these names; throws UserError for an unknown name, naming the nearest, and for
  // names that overlap. Without names: the set of one rank.
  AxisSet along(std::span<const std::string> names) const;
  template <std::convertible_to<std::string_view>... Names>
  AxisSet along(const Names&... names) const {
    const std::vector<std::string> list = {std::string(std::string_view(names))...};
    return along(std::span<const std::string>(list));
  }
  // All axes, so that along_all().coordinate(rank) == rank.
  AxisSet along_all() const;

  // One coordinate per axis, outermost first, and back.
  std::vector<std::int64_t> coordinates(Rank rank) const;
  Rank rank(std::span<const std::int64_t> coordinates) const;

  // The same ranks with the block of axes first..last (neighbours, outermost first) cut into `axes` of equal
  // product: experts see (dp, cp, tp) as (edp, ep, etp).
  Mesh refolded(std::string_view first, std::string_view last, std::vector<Axis> axes) const;

  bool operator==(const Mesh& other) const { return axes_ == other.axes_; }

 private:
  struct Named {  // digits [begin, end) belong to the axis or factor
    std::string name;
    std::size_t begin = 0, end = 0;
  };
  const Named& find(std::string_view name) const;
  std::size_t axis_index(std::string_view name) const;

  std::vector<Axis> axes_;
  std::vector<AxisSet::Digit> digits_;
  std::vector<Named> names_;
  std::int64_t size_ = 1;
};

// "pp 2, dp 4 (dp_replicate 2, dp_shard 2), tp 1".
std::string to_text(const Mesh& mesh);

}  // namespace tessera::mesh
