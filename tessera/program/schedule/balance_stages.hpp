// Divides a model's units (embedding, blocks, head) among stages, in runs of even cost.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::program {

// Units per stage, at least one each: the most loaded rank has as little as was found, and so has the largest
// stage (the least possible with one stage per rank). Throws UserError if there are fewer units than stages.
std::vector<std::uint32_t> balance_stages(std::span<const double> unit_seconds,
                                          std::span<const std::uint32_t> rank_of_stage);

}  // namespace tessera::program
