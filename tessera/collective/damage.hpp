// Fault injection for tests: a Damage makes chosen operations of a group wrong in one of four ways; shapes
// stay right and no rank waits for ever. For tests with ranks as threads: all members of all groups of an
// axis must be damaged alike.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "tessera/collective/group.hpp"

namespace tessera::collective {

// skipped    an all-gather is copies of the own part, a reduce-scatter the own slice, an all-reduce, a
// broadcast and an
//            all-to-all what the member brought, a send zeros
// twice      what came out goes in once more; a send is posted twice
// scaled     what came out, times the members of the group
// elsewhere  over another group: members that should not have met; a send takes what another member there
// sends
enum class Harm { skipped, twice, scaled, elsewhere };
inline constexpr std::array kHarms = {Harm::skipped, Harm::twice, Harm::scaled, Harm::elsewhere};

const char* word(Harm harm);

struct Damage {
  Harm harm = Harm::skipped;
  CallKind kind = CallKind::all_reduce;
  CallDirection direction = CallDirection::forward;
  std::optional<std::int64_t> only;  // of the calls of that kind and direction, from 0; nothing: all of them
};

// The operations of a Group, done wrongly. `other` is the group of `elsewhere`.
struct Wrongly {
  Group group, other;
  Harm harm;

  void all_reduce(at::Tensor& t, bool is_maximum) const;
  void all_gather(at::Tensor& out, const at::Tensor& in) const;
  void reduce_scatter_sum(at::Tensor& out, const at::Tensor& in) const;
  void all_to_all(at::Tensor& out, const at::Tensor& in, std::span<const std::int64_t> out_rows,
                  std::span<const std::int64_t> in_rows) const;
  void broadcast(at::Tensor& t, int root) const;
  void hand_over(const at::Tensor& t, int to, int tag) const;
};

}  // namespace tessera::collective
