// Whether a run may go on from a checkpoint: the same model, and the data and the optimizer that it was
// trained with, unless the user has said that they changed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/checkpoint/folder/checkpoint.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

// What the user has said about going on.
struct Accepted {
  bool changed_data = false;     // --accept-changed-data
  bool reset_optimizer = false;  // --reset-optimizer
};

// Throws UserError that says what differs, with both values; it is no question of damage. Returns, for the
// user, what differs and was accepted. `data` is that of the run, which
// the session is all of, or a part.
std::vector<std::string> check_fits(const Session& session, const spec::Run& run,
                                    const checkpoint::Checkpoint& from,
                                    const std::optional<checkpoint::DataIdentity>& data,
                                    const Accepted& accepted);

// Whether training goes on where it was saved; weights alone are where a run begins.
bool goes_on(const checkpoint::Manifest& saved);

// Whether what the checkpoint keeps beside the weights is what the optimizer of this session keeps.
bool has_same_optimizer(const Session& session, const checkpoint::Manifest& saved);

}  // namespace tessera::train
