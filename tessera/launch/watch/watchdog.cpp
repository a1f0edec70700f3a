#include "tessera/launch/watch/watchdog.hpp"

#include <algorithm>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/process/quiet_thread.hpp"

namespace tessera::launch {

Watchdog::Watchdog(int num_ranks, double timeout_seconds, RankDescriber describer,
                   std::function<void(const std::string&)> tell)
    : timeout_seconds_(timeout_seconds),
      describer_(std::move(describer)),
      tell_(std::move(tell)),
      states_(static_cast<std::size_t>(num_ranks)) {
  thread_ = quiet_thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::hear(int rank, std::string_view bytes) {
  auto state = parse_rank_state(bytes, now_seconds());
  const std::scoped_lock lock(mutex_);
  if (state && state->error_code == kExitPeerLost && peer_lost_seconds_ == 0)
    peer_lost_seconds_ = now_seconds();
  if (state && rank >= 0 && rank < static_cast<int>(states_.size()))
    states_[static_cast<std::size_t>(rank)] = std::move(*state);
}

void Watchdog::lose(int rank) {
  const std::scoped_lock lock(mutex_);
  if (lost_ >= 0 || rank < 0 || rank >= static_cast<int>(states_.size())) return;
  lost_ = rank;
  lost_seconds_ = now_seconds();
}

std::string Watchdog::judgement(double now) const {
  // Copied only when there is something to tell: this looks ten times a second.
  const auto snapshot = [&] { return Snapshot{states_, now}; };
  const auto told_of = [&](const auto& is_cause) -> std::string {
    const auto found = std::ranges::find_if(states_, is_cause, &RankState::error_code);
    if (found == states_.end()) return "";
    return ending_text(static_cast<int>(found - states_.begin()), {found->error_code, 0}, snapshot(),
                       describer_);
  };
  const auto is_old = [&](double seconds) { return seconds > 0 && now - seconds > kSecondsForTheCause; };
  if (const auto text = told_of([](int code) { return code != 0 && code != kExitPeerLost; }); !text.empty())
    return text;
  if (lost_ >= 0) return is_old(lost_seconds_) ? lost_text(lost_, snapshot(), describer_) : "";
  if (is_old(peer_lost_seconds_)) return told_of([](int code) { return code == kExitPeerLost; });
  const double limit = now - timeout_seconds_;
  const auto gets_on = [&](const RankState& state) { return state.progress_seconds() >= limit; };
  const bool all_stand = std::ranges::none_of(states_, gets_on);
  const auto hangs = [&](const RankState& state) {
    if (state.is_finished()) return false;
    const double waiting = state.waiting_since_seconds();
    return state.beat_seconds > 0 &&
           (state.beat_seconds < limit || (all_stand && waiting > 0 && waiting < limit));
  };
  if (!std::ranges::any_of(states_, hangs)) return "";
  return hang_text(describer_.culprit(states_, now), timeout_seconds_, "");
}

void Watchdog::watch() {
  constexpr std::chrono::milliseconds kLook{100};
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return ended_; })) {
    std::string message;
    try {
      message = judgement(now_seconds());
    } catch (const std::exception& error) {  // thread edge
      message = cat("tessera: a rank failed or hangs, and to say more failed too: ", error.what(), "\n");
    }
    if (message.empty()) continue;
    lock.unlock();
    tell_(message);
    return;
  }
}

}  // namespace tessera::launch
