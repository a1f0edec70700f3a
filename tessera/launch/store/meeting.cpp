#include "tessera/launch/store/meeting.hpp"

#include <algorithm>
#include <charconv>

#include "tessera/base/error.hpp"

namespace tessera::launch {
namespace {

constexpr std::size_t kTextsOfOne = 3;

bool waits_as(const Participant& participant, Request::Kind kind) {
  return participant.waits_with && participant.waits_with->kind == kind;
}

}  // namespace

MeetingAnswer answer_of(std::span<const Participant> participants, const std::set<int>& gone) {
  MeetingAnswer out;
  const auto is_called = [](const Participant& participant, const std::string& name) {
    return name == cat(participant.rank);
  };
  const auto joins = [&](const std::string& name) {
    return std::ranges::any_of(participants, [&](const Participant& each) {
      return each.is_new && is_called(each, name) && waits_as(each, Request::Kind::join);
    });
  };
  const Request* meeting = nullptr;
  bool is_anybody_left = false;
  for (const Participant& each : participants) {
    is_anybody_left = is_anybody_left || !each.is_new;
    if (!each.is_new && each.waits_with) meeting = each.waits_with;
  }
  const auto add = [&](std::size_t place) {
    const Participant& each = participants[place];
    out.to.push_back(place);
    out.attendants.push_back({each.rank, each.is_new ? "" : each.waits_with->report, each.is_new});
  };
  if (!meeting) {
    // Newcomers that nobody is left to admit.
    for (std::size_t i = 0; i < participants.size() && !is_anybody_left; ++i)
      if (waits_as(participants[i], Request::Kind::join)) out.to.push_back(i);
    return out;
  }
  for (const std::string& name : meeting->keys) {
    const auto has_come = [&](const Participant& each) {
      return !each.is_new && each.waits_with && is_called(each, name);
    };
    const bool is_gone = std::ranges::any_of(gone, [&](int rank) { return name == cat(rank); });
    if (!is_gone && std::ranges::none_of(participants, has_come)) return out;
  }
  for (std::size_t i = 0; i < participants.size(); ++i) {
    const Participant& each = participants[i];
    if (!each.waits_with) continue;
    if (!each.is_new ||
        (meeting->kind == Request::Kind::admit && std::ranges::all_of(each.waits_with->keys, joins)))
      add(i);
  }
  std::ranges::sort(out.attendants, {}, &Attendant::rank);
  return out;
}

Reply to_reply(const std::vector<Attendant>& attendants) {
  Reply out;
  for (const Attendant& each : attendants)
    out.texts.insert(out.texts.end(), {cat(each.rank), each.brought, each.is_new ? "new" : ""});
  return out;
}

std::vector<Attendant> attendants_of(const Reply& reply) {
  std::vector<Attendant> out;
  bool is_sound = reply.texts.size() % kTextsOfOne == 0;
  for (std::size_t i = 0; i < reply.texts.size() && is_sound; i += kTextsOfOne) {
    const std::string& rank = reply.texts[i];
    Attendant& each = out.emplace_back();
    const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), each.rank);
    is_sound = error == std::errc() && end == rank.data() + rank.size();
    each.brought = reply.texts[i + 1];
    each.is_new = !reply.texts[i + 2].empty();
  }
  if (!is_sound) throw PeerLost("the key server sent a list of ranks that is malformed");
  return out;
}

}  // namespace tessera::launch
