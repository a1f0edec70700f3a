#include "tessera/collective/part.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"

namespace tessera::collective {

namespace {

int number_in(const std::vector<int>& ranks, int rank) {
  const auto found = std::ranges::find(ranks, rank);
  TESSERA_CHECK(found != ranks.end(), "rank ", rank, " has no number in a part that it is not in");
  return static_cast<int>(found - ranks.begin());
}

}  // namespace

PartCommunicator::PartCommunicator(const Communicator& all, std::vector<int> ranks)
    : Communicator(number_in(ranks, all.rank()), static_cast<int>(ranks.size()), all.device()),
      all_(all),
      ranks_(std::move(ranks)) {}

std::vector<std::shared_ptr<Link>> PartCommunicator::connect(
    const std::vector<std::vector<int>>& rank_lists) const {
  std::vector<std::vector<int>> lists = rank_lists;
  for (std::vector<int>& list : lists)
    for (int& rank : list) rank = ranks_.at(static_cast<std::size_t>(rank));
  return all_.connect(lists);
}

}  // namespace tessera::collective
