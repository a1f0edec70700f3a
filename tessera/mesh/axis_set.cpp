#include <algorithm>
#include <functional>

#include "tessera/base/error.hpp"
#include "tessera/mesh/mesh.hpp"

namespace tessera::mesh {

void AxisSet::check(Rank rank) const {
  TESSERA_CHECK(rank >= 0 && rank < num_ranks_, "rank ", rank, " of a mesh of ", num_ranks_);
}

std::int64_t AxisSet::Digit::of(Rank rank) const {
  const std::int64_t found = on_mesh(rank);
  if (only.empty()) return found;
  const auto place = std::ranges::lower_bound(only, found);
  return place == only.end() || *place != found ? -1 : place - only.begin();
}

std::int64_t AxisSet::Digit::offset(std::int64_t place) const {
  return (only.empty() ? place : only[static_cast<std::size_t>(place)]) * stride;
}

AxisSet AxisSet::only(std::vector<std::int64_t> coordinates) const {
  AxisSet out = *this;
  TESSERA_CHECK(!out.digits_.empty() && !coordinates.empty() &&
                    std::ranges::adjacent_find(coordinates, std::greater_equal()) == coordinates.end() &&
                    coordinates.front() >= 0 && coordinates.back() < out.digits_.front().full_size,
                "coordinates of the outermost axis of a set must rise, and lie on it");
  Digit& digit = out.digits_.front();
  out.size_ = out.size_ / digit.size * static_cast<std::int64_t>(coordinates.size());
  digit.size = static_cast<std::int64_t>(coordinates.size());
  digit.only = std::move(coordinates);
  return out;
}

bool AxisSet::holds(Rank rank) const {
  check(rank);
  return std::ranges::none_of(digits_, [&](const Digit& digit) { return digit.of(rank) < 0; });
}

std::int64_t AxisSet::num_groups() const {
  std::int64_t out = 1;
  for (const auto& digit : rest_) out *= digit.size;
  return out;
}

std::int64_t AxisSet::coordinate(Rank rank) const {
  TESSERA_CHECK(holds(rank), "rank ", rank, " is in no group along (", join(names_, ", "), ")");
  std::int64_t out = 0;
  for (const auto& digit : digits_) out = out * digit.size + digit.of(rank);
  return out;
}

Rank AxisSet::origin(Rank rank) const {
  check(rank);
  for (const auto& digit : digits_) rank -= digit.on_mesh(rank) * digit.stride;
  return rank;
}

Rank AxisSet::member(Rank rank, std::int64_t coordinate) const {
  TESSERA_CHECK(coordinate >= 0 && coordinate < size_, "coordinate ", coordinate, " in a group of ", size_);
  Rank out = origin(rank);
  for (auto digit = digits_.rbegin(); digit != digits_.rend(); ++digit) {
    out += digit->offset(coordinate % digit->size);
    coordinate /= digit->size;
  }
  return out;
}

Rank AxisSet::neighbour(Rank rank, std::int64_t hop) const {
  return member(rank, (coordinate(rank) + hop % size_ + size_) % size_);
}

std::vector<Rank> AxisSet::peers(Rank rank) const {
  if (!holds(rank)) return {rank};
  std::vector<Rank> out = {member(rank, 0)};
  out.reserve(static_cast<std::size_t>(size_));
  // Innermost digit first: each further digit repeats what is there, further on.
  for (auto digit = digits_.rbegin(); digit != digits_.rend(); ++digit) {
    const std::size_t inner = out.size();
    for (std::int64_t i = 1; i < digit->size; ++i) {
      for (std::size_t j = 0; j < inner; ++j) out.push_back(out[j] + digit->offset(i) - digit->offset(0));
    }
  }
  return out;
}

std::vector<std::vector<Rank>> AxisSet::groups() const {
  AxisSet across;
  across.digits_ = rest_;
  across.size_ = num_groups();
  across.num_ranks_ = num_ranks_;
  std::vector<std::vector<Rank>> out;
  out.reserve(static_cast<std::size_t>(num_groups()));
  for (const Rank first : across.peers(0)) out.push_back(peers(member(first, 0)));
  return out;
}

std::int64_t AxisSet::group_index(Rank rank) const {
  check(rank);
  std::int64_t out = 0;
  for (const auto& digit : rest_) out = out * digit.size + digit.of(rank);
  return out;
}

}  // namespace tessera::mesh
