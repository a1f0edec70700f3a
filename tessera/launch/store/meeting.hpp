// Which of the ranks that wait in a meeting get their answer, and what it is.
//
// Note [Meetings]
// Ranks of a job that does without some of them meet from time to time, and all that are left must come to
// the same view of who that is. Each says whom it expects; the server answers when each of these has come or
// is gone, and all get the same list at once. Whoever came and was gone before the answer is not on it. A
// rank that was started again is a newcomer: nobody waits for it, and it waits for a meeting that admits
// newcomers, together with all that must come with it.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/process/roll_call.hpp"
#include "tessera/launch/net/wire.hpp"

namespace tessera::launch {

// What is known of a connected rank.
struct Participant {
  int rank = 0;
  bool is_new = false;
  const Request* waits_with = nullptr;  // meet, admit or join; null: it does something else
};

struct MeetingAnswer {
  std::vector<std::size_t> to;  // places among the participants; empty: nobody yet
  std::vector<Attendant> attendants;
};
// `gone`: ranks that nobody waits for.
MeetingAnswer answer_of(std::span<const Participant> participants, const std::set<int>& gone);

Reply to_reply(const std::vector<Attendant>& attendants);
// Throws PeerLost when it is malformed.
std::vector<Attendant> attendants_of(const Reply& reply);

}  // namespace tessera::launch
