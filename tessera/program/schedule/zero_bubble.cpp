// The schedules whose weight halves fill the gaps: zb-h1 and zb-v (Qi et al., "Zero Bubble Pipeline
// Parallelism" and "Pipeline Parallelism with Controllable Memory", 2024), dualpipe-v (DeepSeek's DualPipe,
// folded in the middle).
#include <algorithm>

#include "tessera/program/schedule/line.hpp"
#include "tessera/program/schedule/schedules.hpp"

namespace tessera::program {
namespace {

// Runs `act` num times (never if num is negative).
template <typename Act>
void times(std::int32_t num, const Act& act) {
  for (std::int32_t i = 0; i < num; ++i) act();
}

// The ends of a V on one rank: a micro-batch comes down through `down` and returns through `up`.
struct Ends {
  std::int32_t num_ranks, rank;
  std::uint32_t down, up;
};

Ends ends_of(const Pipeline& pipeline, std::uint32_t rank) {
  return {static_cast<std::int32_t>(pipeline.num_ranks), static_cast<std::int32_t>(rank), rank,
          2 * pipeline.num_ranks - 1 - rank};
}

template <typename Write>
Order vee_order(const Pipeline& pipeline, const Write& write) {
  TESSERA_CHECK(pipeline.num_virtual == 2, "a V has two stages per rank");
  Order order{pipeline.num_micro, vee(pipeline.num_ranks), {}};
  for (std::uint32_t rank = 0; rank < pipeline.num_ranks; ++rank) {
    Line line;
    write(line, ends_of(pipeline, rank));
    while (line.weights_waiting() > 0) line.oldest_weight();
    order.ranks.push_back(std::move(line).tasks(pipeline.num_micro));
  }
  return order;
}

}  // namespace

Order zero_bubble_h1(const Pipeline& pipeline) {
  TESSERA_CHECK(pipeline.num_virtual == 1, "zb-h1 has one stage per rank");
  Order order{pipeline.num_micro, looped(pipeline.num_ranks, 1), {}};
  for (std::uint32_t rank = 0; rank < pipeline.num_ranks; ++rank) {
    Line line;
    times(std::min<std::int32_t>(pipeline.num_micro, pipeline.num_ranks - 1 - rank),
          [&] { line.forward(rank); });
    // The activations that 1f1b holds less on this rank than on the first are weight halves put off to the
    // end.
    times(pipeline.num_micro, [&] {
      if (line.forwards(rank) < pipeline.num_micro) line.forward(rank);
      line.input(rank);
      if (line.weights_waiting() > rank) line.weight(rank);
    });
    while (line.weights_waiting() > 0) line.weight(rank);
    order.ranks.push_back(std::move(line).tasks(pipeline.num_micro));
  }
  return order;
}

Order zero_bubble_v(const Pipeline& pipeline) {
  // Shorter steps are a longer one with its last micro-batches left out.
  const auto num_micro =
      std::max<std::int32_t>(pipeline.num_micro, 2 * static_cast<std::int32_t>(pipeline.num_ranks) - 1);
  return vee_order(pipeline, [&](Line& line, const Ends& ends) {
    const auto backward = [&](std::uint32_t stage) {
      line.input(stage);
      line.weight(stage);
    };
    times(2 * (ends.num_ranks - ends.rank) - 1, [&] { line.forward(ends.down); });
    times(ends.rank, [&] {
      line.forward(ends.up);
      line.forward(ends.down);
    });
    times(ends.num_ranks - ends.rank, [&] {
      line.forward(ends.up);
      backward(ends.up);
    });
    while (line.forwards(ends.up) < num_micro) {
      if (line.forwards(ends.down) < num_micro) line.forward(ends.down);
      backward(ends.down);
      line.forward(ends.up);
      backward(ends.up);
    }
    times(ends.rank, [&] {
      line.input(ends.down);
      line.input(ends.up);
    });
    times(ends.num_ranks - ends.rank, [&] {
      line.input(ends.down);
      line.oldest_weight();
    });
  });
}

Order dualpipe_v(const Pipeline& pipeline) {
  TESSERA_CHECK(pipeline.num_micro >= 2 * static_cast<std::int32_t>(pipeline.num_ranks),
                "dualpipe-v needs two micro-batches per rank");
  return vee_order(pipeline, [&](Line& line, const Ends& ends) {
    const std::int32_t below = ends.num_ranks - 1 - ends.rank;
    times(2 * below, [&] { line.forward(ends.down); });
    times(ends.rank + 1, [&] {
      line.forward(ends.down);
      line.forward(ends.up);
    });
    times(below, [&] {
      line.input(ends.up);
      line.weight(ends.up);
      line.forward(ends.up);
    });
    times(pipeline.num_micro - 2 * ends.num_ranks + ends.rank + 1, [&] {
      line.forward(ends.down);
      line.backward(ends.up);
      line.forward(ends.up);
      line.backward(ends.down);
    });
    times(below, [&] {
      line.backward(ends.up);
      line.forward(ends.up);
      line.backward(ends.down);
    });
    // From the middle of the last backwards on their weight halves are put off, for the ranks above wait for
    // gradients.
    std::int32_t whole = ends.rank + 1;
    const auto backward = [&](std::uint32_t stage) {
      whole-- > 0 ? line.backward(stage) : line.input(stage);
    };
    times(ends.rank + 1, [&] {
      backward(ends.up);
      backward(ends.down);
    });
    times(below, [&] {
      line.oldest_weight();
      line.input(ends.down);
    });
  });
}

}  // namespace tessera::program
