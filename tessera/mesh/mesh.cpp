#include "tessera/mesh/mesh.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tessera/base/error.hpp"

namespace tessera::mesh {

namespace {
constexpr std::int64_t kMaxRanks = std::int64_t{1} << 60;

std::int64_t product(std::int64_t total, const Factor& factor) {
  if (factor.size < 1)
    throw UserError(cat("axis ", factor.name, " has size ", factor.size, "; the least is 1"));
  if (total > kMaxRanks / factor.size)
    throw UserError(cat("a mesh of more than 2^60 ranks at ", factor.name));
  return total * factor.size;
}
}  // namespace

Axis::Axis(std::string axis_name, std::int64_t size) : name(std::move(axis_name)), factors{{name, size}} {}

Axis::Axis(std::string axis_name, std::vector<Factor> outermost_first)
    : name(std::move(axis_name)), factors(std::move(outermost_first)) {}

std::int64_t Axis::size() const {
  std::int64_t total = 1;
  for (const auto& factor : factors) total = product(total, factor);
  return total;
}

Mesh::Mesh(std::vector<Axis> axes) : axes_(std::move(axes)) {
  const auto add_name = [this](const std::string& name, std::size_t begin, std::size_t end) {
    if (has(name)) throw UserError(cat("two axes or factors of a mesh are called ", name));
    names_.push_back({name, begin, end});
  };
  for (const auto& axis : axes_) {
    const std::size_t begin = digits_.size();
    add_name(axis.name, begin, begin + axis.factors.size());
    for (const auto& factor : axis.factors) {
      size_ = product(size_, factor);
      const bool is_axis = axis.factors.size() == 1 && factor.name == axis.name;
      if (!is_axis) add_name(factor.name, digits_.size(), digits_.size() + 1);
      digits_.push_back({.size = factor.size});
    }
  }
  std::int64_t stride = 1;
  for (auto digit = digits_.rbegin(); digit != digits_.rend(); ++digit) {
    digit->stride = stride;
    stride *= digit->size;
  }
}

bool Mesh::has(std::string_view name) const {
  return std::any_of(names_.begin(), names_.end(), [&](const Named& named) { return named.name == name; });
}

const Mesh::Named& Mesh::find(std::string_view name) const {
  std::vector<std::string> known;
  for (const auto& named : names_) {
    if (named.name == name) return named;
    known.push_back(named.name);
  }
  throw UserError(cat("no axis is called ", name, did_you_mean(nearest(name, known)), " The mesh has ",
                      join(known, ", "), "."));
}

AxisSet Mesh::along(std::span<const std::string> names) const {
  AxisSet out;
  out.num_ranks_ = size_;
  std::vector<bool> taken(digits_.size(), false);
  for (const auto& name : names) {
    const auto& named = find(name);
    for (std::size_t i = named.begin; i < named.end; ++i) {
      if (taken[i]) throw UserError(cat("axis set (", join(names, ", "), ") has a part of ", name, " twice"));
      taken[i] = true;
      out.digits_.push_back(digits_[i]);
      out.size_ *= digits_[i].size;
    }
    out.names_.push_back(name);
  }
  for (std::size_t i = 0; i < digits_.size(); ++i) {
    if (!taken[i]) out.rest_.push_back(digits_[i]);
  }
  return out;
}

AxisSet Mesh::along_all() const {
  std::vector<std::string> names;
  for (const auto& axis : axes_) names.push_back(axis.name);
  return along(std::span<const std::string>(names));
}

std::vector<std::int64_t> Mesh::coordinates(Rank rank) const {
  TESSERA_CHECK(rank >= 0 && rank < size_, "rank ", rank, " of a mesh of ", size_);
  std::vector<std::int64_t> out(axes_.size());
  for (std::size_t i = axes_.size(); i-- > 0;) {
    const std::int64_t size = axes_[i].size();
    out[i] = rank % size;
    rank /= size;
  }
  return out;
}

Rank Mesh::rank(std::span<const std::int64_t> coordinates) const {
  TESSERA_CHECK(coordinates.size() == axes_.size(), coordinates.size(), " coordinates for ", axes_.size(),
                " axes");
  Rank out = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const std::int64_t size = axes_[i].size();
    TESSERA_CHECK(coordinates[i] >= 0 && coordinates[i] < size, "coordinate ", coordinates[i], " on axis ",
                  axes_[i].name, " of size ", size);
    out = out * size + coordinates[i];
  }
  return out;
}

std::size_t Mesh::axis_index(std::string_view name) const {
  const auto& named = find(name);
  const auto axis =
      std::find_if(axes_.begin(), axes_.end(), [&](const Axis& a) { return a.name == named.name; });
  if (axis == axes_.end()) throw UserError(cat(name, " is a factor; only whole axes can be refolded"));
  return static_cast<std::size_t>(axis - axes_.begin());
}

Mesh Mesh::refolded(std::string_view first, std::string_view last, std::vector<Axis> axes) const {
  const std::size_t begin = axis_index(first), end = axis_index(last) + 1;
  if (begin >= end)
    throw UserError(cat("axis ", last, " stands outside of ", first, ": name the outermost first"));
  std::int64_t ranks = 1;
  for (std::size_t i = begin; i < end; ++i) ranks *= axes_[i].size();
  const Mesh block(axes);
  if (ranks != block.size()) {
    throw UserError(cat("axes ", first, " to ", last, " hold ", ranks, " ranks, (", to_text(block),
                        ") holds ", block.size(), "; the products must be equal"));
  }
  std::vector<Axis> all(axes_.begin(), axes_.begin() + static_cast<std::ptrdiff_t>(begin));
  std::move(axes.begin(), axes.end(), std::back_inserter(all));
  all.insert(all.end(), axes_.begin() + static_cast<std::ptrdiff_t>(end), axes_.end());
  return Mesh(std::move(all));
}

std::string to_text(const Mesh& mesh) {
  std::vector<std::string> axes;
  for (const auto& axis : mesh.axes()) {
    std::vector<std::string> factors;
    for (const auto& factor : axis.factors) factors.push_back(cat(factor.name, " ", factor.size));
    const bool plain = axis.factors.size() == 1 && axis.factors[0].name == axis.name;
    axes.push_back(cat(axis.name, " ", axis.size(), plain ? "" : cat(" (", join(factors, ", "), ")")));
  }
  return join(axes, ", ");
}

}  // namespace tessera::mesh
