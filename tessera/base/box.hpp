// A part of a tensor as a box of its elements, with the common part of two boxes, a row-major range as boxes,
// and the runs in which elements of one box lie in the memory of another.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tessera {

using Shape = std::vector<std::int64_t>;

std::int64_t num_elements(std::span<const std::int64_t> shape);

// "4096 x 4096"; "scalar" without dims.
std::string shape_text(const Shape& shape);

// Elements [offset, offset + extent) along each dim of a tensor; without dims it is the one element of a
// scalar.
struct Box {
  Shape offset, extent;
  std::int64_t elements() const { return num_elements(extent); }
  auto operator<=>(const Box&) const = default;
};

Box whole_box(const Shape& shape);

// The same elements, seen from further away.
Box moved(Box box, const Shape& by);

// Of `count` equal parts, the one at `position`.
struct Slice {
  std::int64_t position = 0, count = 1;
  bool operator==(const Slice&) const = default;
};

// The elements that both hold; nothing if there are none.
std::optional<Box> intersection(const Box& a, const Box& b);

// Elements [first, first + count) of a row-major tensor as boxes in rising order: at most two per dim, less
// one.
std::vector<Box> boxes_of_range(const Shape& shape, std::int64_t first, std::int64_t count);

// The most elements, at most `most`, that are one or several whole rows of some dim: cuts at multiples of it
// (of the shape's row-major elements) leave few boxes.
std::int64_t elements_of_rows(const Shape& shape, std::int64_t most);

// Calls `take` with boxes of at most `most` elements that together are `box`, in its row-major order.
void for_each_block(const Box& box, std::int64_t most, const std::function<void(const Box&)>& take);

// `count` elements side by side in both memories.
struct CopyRun {
  std::int64_t from = 0, to = 0, count = 0;
  bool operator==(const CopyRun&) const = default;
};

// Calls `copy` for each run of `part`, which lies in both boxes; places are counted from the first element of
// each box, whose memory is row-major. In rising order of both.
void for_each_run(const Box& part, const Box& from, const Box& to,
                  const std::function<void(const CopyRun&)>& copy);

// Whether the boxes, taken together, hold every element of the shape once. Says of the first trouble what it
// is.
std::optional<std::string> tiling_problem(const Shape& shape, const std::vector<Box>& boxes);

}  // namespace tessera
