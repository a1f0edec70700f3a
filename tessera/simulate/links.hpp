// The links out of and into one rank of each class, per set of mesh axes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "tessera/program/ir/tables.hpp"

namespace tessera::simulate {

class Links {
 public:
  Links(const program::Tables& tables, std::size_t num_classes) {
    std::vector<const std::vector<std::int16_t>*> seen;
    for (const program::AxisSet& set : tables.axis_sets) {
      const auto found = std::ranges::find_if(seen, [&](const auto* axes) { return *axes == set.axes; });
      number_of_set_.push_back(static_cast<std::uint32_t>(found - seen.begin()));
      if (found == seen.end()) seen.push_back(&set.axes);
    }
    num_sets_ = static_cast<std::uint32_t>(seen.size());
    users_.resize(num_classes * num_sets_ * 2);
  }

  std::uint32_t out(std::uint32_t rank_class, std::int16_t axis_set) const {
    return (rank_class * num_sets_ + number_of_set_[static_cast<std::size_t>(axis_set)]) * 2;
  }
  std::uint32_t in(std::uint32_t rank_class, std::int16_t axis_set) const {
    return out(rank_class, axis_set) + 1;
  }
  void enter(std::uint32_t link, std::uint32_t user) { users_[link].push_back(user); }
  void leave(std::uint32_t link, std::uint32_t user) { std::erase(users_[link], user); }
  std::span<const std::uint32_t> users(std::uint32_t link) const { return users_[link]; }

 private:
  std::vector<std::uint32_t> number_of_set_;  // per axis set; equal axes, equal number
  std::uint32_t num_sets_ = 0;
  std::vector<std::vector<std::uint32_t>> users_;  // per class, set, and direction
};

}  // namespace tessera::simulate
