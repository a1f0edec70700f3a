// The placements of stages on ranks and the fixed schedules that suit them, with which a search begins.
#pragma once

#include <string>
#include <vector>

#include "tessera/program/schedule/schedules.hpp"

namespace tessera::program {

enum class Shape { blocked, looped, vee };

// A pipeline whose stages lie in this shape; its costs are those of the stages as they lie.
struct Placed {
  Shape shape = Shape::looped;
  std::vector<std::uint32_t> rank_of_stage;
  Pipeline pipeline;
};

// For people: "2 stages per rank in a V".
std::string word(const Placed& placed);

// The shapes that so many stages per rank can take, the simplest first, each with the costs of the pipeline.
std::vector<Placed> placements(const Pipeline& pipeline);

struct NamedOrder {
  std::string name;
  Order order;
};

// The fixed schedules of the shape. Those made for fewer stages per rank run several neighbouring ones as
// one.
std::vector<NamedOrder> fixed_orders(const Placed& placed);

}  // namespace tessera::program
