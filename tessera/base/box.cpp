#include "tessera/base/box.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <string>

#include "tessera/base/error.hpp"

namespace tessera {

std::int64_t num_elements(std::span<const std::int64_t> shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

std::string shape_text(const Shape& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(cat(size));
  return sizes.empty() ? "scalar" : join(sizes, " x ");
}

Box whole_box(const Shape& shape) { return {Shape(shape.size(), 0), shape}; }

Box moved(Box box, const Shape& by) {
  for (std::size_t dim = 0; dim < by.size(); ++dim) box.offset.at(dim) += by[dim];
  return box;
}

std::optional<Box> intersection(const Box& a, const Box& b) {
  TESSERA_CHECK(a.offset.size() == b.offset.size(), "boxes of ", a.offset.size(), " and ", b.offset.size(),
                " dims");
  Box out = a;
  for (std::size_t dim = 0; dim < a.offset.size(); ++dim) {
    out.offset[dim] = std::max(a.offset[dim], b.offset[dim]);
    out.extent[dim] =
        std::min(a.offset[dim] + a.extent[dim], b.offset[dim] + b.extent[dim]) - out.offset[dim];
    if (out.extent[dim] <= 0) return std::nullopt;
  }
  return out;
}

namespace {

// Boxes of a range within the dims from `dim` on; what stands before it in `at` is fixed.
void add_boxes(const Shape& shape, std::size_t dim, std::int64_t first, std::int64_t count, Box& at,
               std::vector<Box>& out) {
  if (count == 0) return;
  const auto fix = [&](std::int64_t offset, std::int64_t extent) {
    at.offset[dim] = offset;
    at.extent[dim] = extent;
  };
  if (dim + 1 == shape.size()) {
    fix(first, count);
    out.push_back(at);
    return;
  }
  const std::int64_t row = num_elements(std::span(shape).subspan(dim + 1));
  const std::int64_t lead = std::min(count, (row - first % row) % row), rows = (count - lead) / row;
  const auto within_row = [&](std::int64_t from, std::int64_t some) {
    fix(from / row, 1);
    add_boxes(shape, dim + 1, from % row, some, at, out);
  };
  within_row(first, lead);
  if (rows > 0) {
    Box whole = at;
    whole.offset[dim] = (first + lead) / row;
    whole.extent[dim] = rows;
    for (std::size_t inner = dim + 1; inner < shape.size(); ++inner) {
      whole.offset[inner] = 0;
      whole.extent[inner] = shape[inner];
    }
    out.push_back(std::move(whole));
  }
  within_row(first + lead + rows * row, count - lead - rows * row);
}

}  // namespace

std::vector<Box> boxes_of_range(const Shape& shape, std::int64_t first, std::int64_t count) {
  TESSERA_CHECK(first >= 0 && count >= 0 && first + count <= num_elements(shape), "elements ", first, " to ",
                first + count, " of a tensor of ", num_elements(shape));
  if (count == 0) return {};
  if (shape.empty()) return {Box{}};
  std::vector<Box> out;
  Box at = whole_box(shape);
  add_boxes(shape, 0, first, count, at, out);
  return out;
}

std::int64_t elements_of_rows(const Shape& shape, std::int64_t most) {
  TESSERA_CHECK(most > 0);
  std::int64_t row = 1;
  for (std::size_t dim = shape.size(); dim > 0; --dim) {
    const std::int64_t larger = row * std::max<std::int64_t>(1, shape[dim - 1]);
    if (larger > most) return most / row * row;
    row = larger;
  }
  return row;
}

void for_each_block(const Box& box, std::int64_t most, const std::function<void(const Box&)>& take) {
  const std::int64_t all = box.elements(), step = elements_of_rows(box.extent, most);
  for (std::int64_t first = 0; first < all; first += step)
    for (Box& block : boxes_of_range(box.extent, first, std::min(step, all - first))) {
      for (std::size_t dim = 0; dim < box.offset.size(); ++dim) block.offset[dim] += box.offset[dim];
      take(block);
    }
}

namespace {

// Of the element at `position` of the whole tensor, in the memory of a box.
std::int64_t place_in(const Box& box, const Shape& position) {
  std::int64_t place = 0;
  for (std::size_t dim = 0; dim < position.size(); ++dim)
    place = place * box.extent[dim] + position[dim] - box.offset[dim];
  return place;
}

}  // namespace

void for_each_run(const Box& part, const Box& from, const Box& to,
                  const std::function<void(const CopyRun&)>& copy) {
  if (part.elements() == 0) return;
  // The trailing dims that the part fills in both memories are one run, and so is the dim before them.
  std::size_t outer = part.offset.size();
  std::int64_t run = 1;
  while (outer > 0) {
    --outer;
    run *= part.extent[outer];
    if (part.extent[outer] != from.extent[outer] || part.extent[outer] != to.extent[outer]) break;
  }
  Shape position = part.offset;
  while (true) {
    copy({place_in(from, position), place_in(to, position), run});
    std::size_t dim = outer;
    while (dim > 0) {
      --dim;
      if (++position[dim] < part.offset[dim] + part.extent[dim]) break;
      position[dim] = part.offset[dim];
      if (dim == 0) return;
    }
    if (outer == 0) return;
  }
}

// Note [Corners]
// Take the function that is 1 in a box and 0 outside: its differences along every dim are not zero at the
// box's corners alone, where they are 1 or -1. Differences determine the function, so boxes fill a shape once
// each exactly if their corners add up to those of the shape. Comparing pairs of boxes instead takes hours
// for what fits into a few megabytes.
std::optional<std::string> tiling_problem(const Shape& shape, const std::vector<Box>& boxes) {
  const std::int64_t all = num_elements(shape);
  std::int64_t held = 0;
  for (const Box& box : boxes) {
    TESSERA_CHECK(box.offset.size() == shape.size() && box.extent.size() == shape.size());
    if (__builtin_add_overflow(held, box.elements(), &held) || held > all) return "two pieces overlap";
  }
  if (held != all) return cat("pieces hold ", held, " of ", all, " elements");

  std::map<Shape, std::int64_t> corners;
  const auto add_corners = [&](const Box& box, std::int64_t sign) {
    if (box.elements() == 0) return;
    for (std::uint64_t corner = 0; corner < (1ull << shape.size()); ++corner) {
      Shape at = box.offset;
      for (std::size_t dim = 0; dim < shape.size(); ++dim)
        if ((corner >> dim & 1) != 0) at[dim] += box.extent[dim];
      corners[at] += std::popcount(corner) % 2 == 0 ? sign : -sign;
    }
  };
  for (const Box& box : boxes) add_corners(box, 1);
  add_corners(whole_box(shape), -1);
  for (const auto& [at, sum] : corners)
    if (sum != 0) return "two pieces overlap";
  return std::nullopt;
}

}  // namespace tessera
