// Some of the ranks of a job, numbered anew.
#pragma once

#include <vector>

#include "tessera/collective/group.hpp"

namespace tessera::collective {

class PartCommunicator final : public Communicator {
 public:
  // `ranks`: those of `all`, by their number in the part; this one is among them. `all` must outlive it.
  PartCommunicator(const Communicator& all, std::vector<int> ranks);
  void abort() const override { all_.abort(); }

 private:
  std::vector<std::shared_ptr<Link>> connect(const std::vector<std::vector<int>>& rank_lists) const override;

  const Communicator& all_;
  const std::vector<int> ranks_;
};

}  // namespace tessera::collective
