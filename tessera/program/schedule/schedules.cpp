#include "tessera/program/schedule/schedules.hpp"

#include <algorithm>
#include <span>

#include "tessera/program/schedule/line.hpp"

namespace tessera::program {
namespace {

Order empty_order(const Pipeline& pipeline) {
  return {pipeline.num_micro, looped(pipeline.num_ranks, pipeline.num_virtual),
          std::vector<std::vector<Task>>(pipeline.num_ranks)};
}

// About num_ranks micro-batches each: a rank that ran out of a smaller group would wait for it to come round,
// or for ever. Larger groups first, for the forwards ahead of the first backward are counted by the first
// group.
std::vector<std::int32_t> even_groups(const Pipeline& pipeline) {
  const std::int32_t num_micro = pipeline.num_micro;
  const std::int32_t num_groups = std::max(1, num_micro / static_cast<std::int32_t>(pipeline.num_ranks));
  std::vector<std::int32_t> groups(num_groups, num_micro / num_groups);
  for (std::int32_t i = 0; i < num_micro % num_groups; ++i) ++groups[i];
  return groups;
}

// `ahead` forwards, then a forward and a backward in turn, then the rest of the backwards.
std::vector<Task> in_turn(std::span<const Task> forwards, std::span<const Task> backwards,
                          std::size_t ahead) {
  ahead = std::min(ahead, forwards.size());
  std::vector<Task> out(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(ahead));
  for (std::size_t i = ahead; i < forwards.size(); ++i) {
    out.push_back(forwards[i]);
    out.push_back(backwards[i - ahead]);
  }
  out.insert(out.end(), backwards.end() - static_cast<std::ptrdiff_t>(ahead), backwards.end());
  return out;
}

}  // namespace

std::vector<std::uint32_t> looped(std::uint32_t num_ranks, std::uint32_t num_virtual) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t stage = 0; stage < num_ranks * num_virtual; ++stage) out.push_back(stage % num_ranks);
  return out;
}

std::vector<std::uint32_t> vee(std::uint32_t num_ranks) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t stage = 0; stage < 2 * num_ranks; ++stage)
    out.push_back(std::min(stage, 2 * num_ranks - 1 - stage));
  return out;
}

Order no_order(const Pipeline&) { throw Bug("a search has no order of its own"); }

Order gpipe(const Pipeline& pipeline) {
  TESSERA_CHECK(pipeline.num_virtual == 1, "gpipe has one stage per rank");
  return breadth_first(pipeline);
}

Order one_forward_one_backward(const Pipeline& pipeline) {
  TESSERA_CHECK(pipeline.num_virtual == 1, "1f1b has one stage per rank");
  Order order = empty_order(pipeline);
  for (std::uint32_t rank = 0; rank < pipeline.num_ranks; ++rank) {
    std::vector<Task> forwards, backwards;
    for (std::int32_t micro = 0; micro < pipeline.num_micro; ++micro) {
      forwards.push_back({OpKind::forward, rank, micro});
      backwards.push_back({OpKind::backward, rank, micro});
    }
    order.ranks[rank] = in_turn(forwards, backwards, pipeline.num_ranks - 1 - rank);
  }
  return order;
}

Order interleaved(const Pipeline& pipeline) {
  if (pipeline.num_virtual == 1) return one_forward_one_backward(pipeline);
  const std::vector<std::int32_t> groups = even_groups(pipeline);
  Order order = empty_order(pipeline);
  for (std::uint32_t rank = 0; rank < pipeline.num_ranks; ++rank) {
    std::vector<Task> forwards, backwards;
    std::int32_t first = 0;
    for (const std::int32_t size : groups) {
      for (std::uint32_t chunk = 0; chunk < pipeline.num_virtual; ++chunk)
        for (std::int32_t micro = first; micro < first + size; ++micro) {
          forwards.push_back({OpKind::forward, chunk * pipeline.num_ranks + rank, micro});
          backwards.push_back(
              {OpKind::backward, (pipeline.num_virtual - 1 - chunk) * pipeline.num_ranks + rank, micro});
        }
      first += size;
    }
    // The first group must pass all chunks but the last, and a value goes down the ranks and its gradient
    // comes back.
    const std::size_t ahead = std::size_t{pipeline.num_virtual - 1} * static_cast<std::size_t>(groups[0]) +
                              std::size_t{2} * (pipeline.num_ranks - 1 - rank);
    order.ranks[rank] = in_turn(forwards, backwards, ahead);
  }
  return order;
}

Order breadth_first(const Pipeline& pipeline) {
  Order order = empty_order(pipeline);
  for (std::uint32_t rank = 0; rank < pipeline.num_ranks; ++rank) {
    Line line;
    for (std::uint32_t chunk = 0; chunk < pipeline.num_virtual; ++chunk)
      for (std::int32_t micro = 0; micro < pipeline.num_micro; ++micro)
        line.forward(chunk * pipeline.num_ranks + rank);
    for (std::uint32_t chunk = pipeline.num_virtual; chunk-- > 0;)
      for (std::int32_t micro = 0; micro < pipeline.num_micro; ++micro)
        line.backward(chunk * pipeline.num_ranks + rank);
    order.ranks[rank] = std::move(line).tasks(pipeline.num_micro);
  }
  return order;
}

}  // namespace tessera::program
