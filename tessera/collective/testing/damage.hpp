// Fault injection for tests: a Damage makes chosen operations of a group wrong in one of four ways; shapes
// stay right and no rank waits for ever. For tests with ranks as threads: all members of all groups of an
// axis must be damaged alike.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "tessera/collective/group.hpp"

namespace tessera::collective {

// skipped: an all-gather is copies of the own part, a reduce-scatter the own slice, an all-reduce, a
// broadcast and an all-to-all what the member brought, a send zeros. twice: what came out goes in once more;
// a send is posted twice. scaled: what came out, times the members of the group. elsewhere: over another
// group, so that members meet that should not have; a send takes what another member there sends.
enum class Harm { skipped, twice, scaled, elsewhere };
inline constexpr std::array kHarms = {Harm::skipped, Harm::twice, Harm::scaled, Harm::elsewhere};

const char* word(Harm harm);

struct Damage {
  Harm harm = Harm::skipped;
  CallKind kind = CallKind::all_reduce;
  CallDirection direction = CallDirection::forward;
  std::optional<std::int64_t> only;  // of the calls of that kind and direction, from 0; nothing: all of them
};

// A group over the connection of `group` that does some operations wrongly. `other` is the group of
// Harm::elsewhere, with a connection that nothing else uses.
Group damaged(const Group& group, const Damage& damage, const Group& other = Group());

}  // namespace tessera::collective
