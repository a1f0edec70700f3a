#include <signal.h>

#include <algorithm>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/launch/job.hpp"
#include "tessera/launch/restarts.hpp"

namespace tessera::launch {

std::optional<int> Job::part_of(int rank) const {
  return options_.dispensable_part ? options_.dispensable_part(rank) : std::nullopt;
}

// Whether a rank that may be lost has ended badly; one that shows no sign of life is ended.
bool Job::is_lost(int rank) {
  Child& child = children_[static_cast<std::size_t>(rank)];
  if (const auto& end = child.ending()) return end->code != 0 || end->signal != 0;
  const double now = now_seconds();
  if (options_.timeout_seconds > 0 && !has_finished(rank) &&
      last_sign_seconds(rank, now) < now - options_.timeout_seconds)
    child.signal(SIGKILL);
  return false;
}

void Job::look_for_losses() {
  if (is_ending() || first_) return;
  const bool is_over = are_others_through();
  for (auto& [number, part] : parts_) {
    if (!part.is_lost && is_over) send_away(part);
    if (!part.is_lost) look_at(part);
    if (part.is_lost) clear(part);
    if (part.is_cleared && !is_over) start_again(part);
  }
}

// All but those that may be lost have ended.
bool Job::are_others_through() {
  for (int rank = 0; rank < options_.num_ranks; ++rank)
    if (!may_be_lost(rank) && !has_ended(rank)) return false;
  return true;
}

void Job::look_at(Part& part) {
  const auto lost = std::ranges::find_if(part.ranks, [&](int rank) { return is_lost(rank); });
  if (lost == part.ranks.end()) return;
  const Ending ending = *children_[static_cast<std::size_t>(*lost)].ending();
  part.may_return = may_start_again(ending);
  do_without(part, ending_text(*lost, ending, {board_.states(), now_seconds()}, options_.describer));
}

void Job::do_without(Part& part, const std::string& why) {
  part.is_lost = true;
  part.lost_seconds = now_seconds();
  report_.write(cat(why, "The others continue without it.",
                    options_.part_restarts > 0 && !part.may_return
                        ? " It is not started again: it would end the same way."
                        : "",
                    "\n"));
  end(part);
}

void Job::end(const Part& part) {
  for (const int rank : part.ranks) children_[static_cast<std::size_t>(rank)].signal(SIGKILL);
}

// A part that was started again too late has not come as far as to ask.
void Job::send_away(Part& part) {
  const auto is_loading = [&](int rank) {
    const RankState state = board_.log(rank).state();
    return !has_ended(rank) && (!state.now() || state.now()->doing <= Doing::resuming);
  };
  if (part.restarts == 0 || std::ranges::none_of(part.ranks, is_loading)) return;
  part.is_lost = true;
  end(part);
}

// What its ranks were at last says nothing about the others.
void Job::clear(Part& part) {
  if (part.is_cleared || !std::ranges::all_of(part.ranks, [this](int rank) { return has_ended(rank); }))
    return;
  part.is_cleared = true;
  for (const int rank : part.ranks) {
    pass_on_errors(rank, true);
    board_.clear(rank);
  }
}

// When all of it have ended; each time later than the last.
void Job::start_again(Part& part) {
  if (!part.may_return || part.restarts == options_.part_restarts || stop().signal() != 0 ||
      now_seconds() - part.lost_seconds < seconds_before_restart(part.restarts))
    return;
  ++part.restarts;
  part.is_lost = part.is_cleared = false;
  const std::string who = cat(ranks_text(part.ranks), part.ranks.size() == 1 ? " is" : " are");
  try {
    for (const int rank : part.ranks) {
      stopped_since_seconds_[static_cast<std::size_t>(rank)] = 0;
      children_[static_cast<std::size_t>(rank)] = started(rank, true);
    }
  } catch (const std::exception& error) {
    return do_without(part, cat("tessera: ", who, " not started again: ", error.what(), ". "));
  }
  report_.write(
      cat("tessera: ", who, " started again (", part.restarts, " of ", options_.part_restarts, ")\n"));
}

}  // namespace tessera::launch
