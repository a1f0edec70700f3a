// Steps whose groups along one axis set do some operations wrongly: a proof that can't notice that proves
// nothing.
#pragma once

#include "tessera/collective/testing/damage.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

// A StepGroups.
struct Damaged {
  std::int16_t axis_set = -1;
  collective::Damage damage;
  std::int16_t other_set = -1;  // of Harm::elsewhere

  void operator()(const collective::Communicator& communicator, const program::Tables& tables,
                  std::vector<collective::Group>& groups) const {
    collective::Group other;
    if (other_set >= 0) {
      const auto peers =
          program::sets_of(tables)[static_cast<std::size_t>(other_set)].peers(communicator.rank());
      other = collective::make_groups(communicator, {{peers.begin(), peers.end()}}).at(0);
    }
    auto& group = groups[static_cast<std::size_t>(axis_set)];
    group = collective::damaged(group, damage, other);
  }
};

}  // namespace tessera::train
