#include "tessera/base/error.hpp"
#include "tessera/mesh/mesh.hpp"

namespace tessera::mesh {

void AxisSet::check(Rank rank) const {
  CHECK(rank >= 0 && rank < num_ranks_, "rank ", rank, " of a mesh of ", num_ranks_);
}

std::int64_t AxisSet::coordinate(Rank rank) const {
  check(rank);
  std::int64_t out = 0;
  for (const auto& digit : digits_) out = out * digit.size + digit.of(rank);
  return out;
}

Rank AxisSet::origin(Rank rank) const {
  check(rank);
  for (const auto& digit : digits_) rank -= digit.of(rank) * digit.stride;
  return rank;
}

Rank AxisSet::member(Rank rank, std::int64_t coordinate) const {
  CHECK(coordinate >= 0 && coordinate < size_, "coordinate ", coordinate, " in a group of ", size_);
  Rank out = origin(rank);
  for (auto digit = digits_.rbegin(); digit != digits_.rend(); ++digit) {
    out += coordinate % digit->size * digit->stride;
    coordinate /= digit->size;
  }
  return out;
}

Rank AxisSet::neighbour(Rank rank, std::int64_t hop) const {
  return member(rank, (coordinate(rank) + hop % size_ + size_) % size_);
}

std::vector<Rank> AxisSet::peers(Rank rank) const {
  std::vector<Rank> out = {origin(rank)};
  out.reserve(static_cast<std::size_t>(size_));
  // Innermost digit first: each further digit repeats what is there, one stride on.
  for (auto digit = digits_.rbegin(); digit != digits_.rend(); ++digit) {
    const std::size_t inner = out.size();
    for (std::int64_t i = 1; i < digit->size; ++i) {
      for (std::size_t j = 0; j < inner; ++j) out.push_back(out[j] + i * digit->stride);
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
  for (const Rank first : across.peers(0)) out.push_back(peers(first));
  return out;
}

std::int64_t AxisSet::group_index(Rank rank) const {
  check(rank);
  std::int64_t out = 0;
  for (const auto& digit : rest_) out = out * digit.size + digit.of(rank);
  return out;
}

}  // namespace tessera::mesh
