// Makes a panel from a program and when its ops run, or from what a trace measured.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/draw/picture.hpp"
#include "tessera/simulate/timeline.hpp"

namespace tessera::draw {

// A group of lanes for each class of equal ranks.
Panel predicted(const program::Program& program, const simulate::Timeline& timeline,
                Held held = Held::activations);

// An op of a step as it was traced; times of all ranks are on one clock.
struct Traced {
  std::int64_t rank = 0;
  std::string lane;  // in words, as program::name_of says
  std::int64_t step = 0;
  std::optional<std::uint32_t> segment;  // of compute
  Bar bar;
};

// The step of median length; the panel's times count from its first op.
std::int64_t middle_step(std::span<const Traced> traced);
// Of so many steps from that one on.
Panel measured(std::span<const Traced> traced, std::int64_t step, std::int64_t num_steps = 1);
// Whether the trace is of a program whose steps do.
bool steps_overlap(std::span<const Traced> traced);

}  // namespace tessera::draw
