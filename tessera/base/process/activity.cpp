#include "tessera/base/process/activity.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "tessera/base/clock.hpp"

namespace tessera {

namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

template <typename T>
void append(std::string& out, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Takes values off the front; `good` turns false at the end of the bytes and stays so.
struct Reader {
  std::string_view bytes;
  bool good = true;
  template <typename T>
  T take() {
    T value{};
    if (bytes.size() < sizeof(T)) good = false;
    if (!good) return value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    bytes.remove_prefix(sizeof(T));
    return value;
  }
};

// A time as its age; -1: it hasn't come.
double age_of(double seconds, double now_seconds) { return seconds > 0 ? now_seconds - seconds : -1; }
double time_of(double age, double now_seconds) { return age >= 0 ? now_seconds - age : 0; }

}  // namespace

bool should_be_short(Doing doing) {
  switch (doing) {
    case Doing::meeting:
    case Doing::loading:
    case Doing::resuming:
    case Doing::reading_data:
    case Doing::writing:
    case Doing::saving:
    case Doing::communicating:
    case Doing::sending:
    case Doing::closing:
      return true;
    case Doing::starting:
    case Doing::preparing:
    case Doing::joining:
    case Doing::evaluating:
    case Doing::serving:
    case Doing::computing:
    case Doing::finished:
      return false;
  }
  return false;
}

const Activity* RankState::now() const {
  return lanes.empty() || lanes.front().recent.empty() ? nullptr : &lanes.front().recent.back();
}

namespace {

// The earlier of `earliest` (0: none) and the start of what should be short and is under way.
double earlier(double earliest, Doing doing, double started, double ended) {
  if (started == 0 || ended != 0 || !should_be_short(doing)) return earliest;
  return earliest == 0 ? started : std::min(earliest, started);
}

double later(double latest, Doing doing, double issued, double started, double ended) {
  if (doing == Doing::preparing && started != 0 && ended == 0) return std::numeric_limits<double>::max();
  return std::max({latest, issued, started, ended});
}

}  // namespace

double RankState::waiting_since_seconds() const {
  double earliest = 0;
  for (const auto& lane : lanes)
    if (!lane.recent.empty()) {
      const Activity& now = lane.recent.back();
      earliest = earlier(earliest, now.doing, now.started_seconds, now.ended_seconds);
    }
  return earliest;
}

double RankState::progress_seconds() const {
  double latest = 0;
  for (const auto& lane : lanes)
    if (!lane.recent.empty()) {
      const Activity& now = lane.recent.back();
      latest = later(latest, now.doing, now.issued_seconds, now.started_seconds, now.ended_seconds);
    }
  return latest;
}

Activity RankState::busiest() const {
  const Activity* at = now();
  for (const LaneState& lane : lanes)
    if ((!at || !at->under_way()) && !lane.recent.empty() && lane.recent.back().under_way())
      at = &lane.recent.back();
  return at ? *at : Activity{};
}

std::string to_bytes(const RankState& state, double now_seconds) {
  std::string out;
  append(out, age_of(state.beat_seconds, now_seconds));
  append(out, state.resident_bytes);
  append(out, state.error_code);
  append(out, static_cast<std::uint32_t>(state.error.size()));
  out += state.error;
  append(out, static_cast<std::uint32_t>(state.lanes.size()));
  for (const auto& lane : state.lanes) {
    append(out, lane.axes);
    append(out, lane.direction);
    append(out, static_cast<std::uint32_t>(lane.recent.size()));
    for (const auto& activity : lane.recent) {
      append(out, activity.doing);
      append(out, activity.op);
      append(out, activity.step);
      for (const double seconds : {activity.issued_seconds, activity.started_seconds, activity.ended_seconds})
        append(out, age_of(seconds, now_seconds));
    }
  }
  return out;
}

std::optional<RankState> parse_rank_state(std::string_view bytes, double now_seconds) {
  Reader in{bytes};
  RankState state;
  state.beat_seconds = time_of(in.take<double>(), now_seconds);
  state.resident_bytes = in.take<std::int64_t>();
  state.error_code = in.take<std::int32_t>();
  const auto error_bytes = in.take<std::uint32_t>();
  if (!in.good || error_bytes > in.bytes.size()) return std::nullopt;
  state.error = in.bytes.substr(0, error_bytes);
  in.bytes.remove_prefix(error_bytes);
  const auto num_lanes = in.take<std::uint32_t>();
  for (std::uint32_t i = 0; in.good && i < num_lanes; ++i) {
    auto& lane = state.lanes.emplace_back();
    lane.axes = in.take<std::int16_t>();
    lane.direction = in.take<std::uint8_t>();
    const auto num_recent = in.take<std::uint32_t>();
    for (std::uint32_t j = 0; in.good && j < num_recent; ++j) {
      auto& activity = lane.recent.emplace_back();
      activity.doing = in.take<Doing>();
      if (activity.doing > Doing::finished) return std::nullopt;
      activity.op = in.take<std::int32_t>();
      activity.step = in.take<std::int64_t>();
      activity.issued_seconds = time_of(in.take<double>(), now_seconds);
      activity.started_seconds = time_of(in.take<double>(), now_seconds);
      activity.ended_seconds = time_of(in.take<double>(), now_seconds);
    }
  }
  if (!in.good || !in.bytes.empty()) return std::nullopt;
  return state;
}

void ActivityLog::beat(double now_seconds, std::int64_t resident_bytes) {
  resident_bytes_.store(resident_bytes, kRelaxed);
  beat_seconds_.store(now_seconds);
}

std::optional<std::size_t> ActivityLog::index_of(std::size_t lane) {
  if (lane == kSavingLane) return kLanes;
  return lane < kLanes ? std::optional(lane) : std::nullopt;
}

void ActivityLog::name_lane(std::size_t lane, std::int16_t axes, std::uint8_t direction) {
  if (lane >= kLanes) return;
  lanes_[lane].axes_and_one.store(static_cast<std::int16_t>(axes + 1), kRelaxed);
  lanes_[lane].direction.store(direction, kRelaxed);
}

const ActivityLog::Entry& ActivityLog::newest(std::size_t lane) const {
  const std::uint64_t count = lanes_[lane].count.load(std::memory_order_acquire);
  return lanes_[lane].ring[(count == 0 ? 0 : count - 1) % kRecent];
}

ActivityLog::Entry& ActivityLog::newest(std::size_t lane) {
  return const_cast<Entry&>(std::as_const(*this).newest(lane));
}

double ActivityLog::waiting_since_seconds() const {
  double earliest = 0;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const Entry& now = newest(lane);
    earliest = earlier(earliest, now.doing.load(kRelaxed), now.started_seconds.load(kRelaxed),
                       now.ended_seconds.load(kRelaxed));
  }
  return earliest;
}

double ActivityLog::progress_seconds() const {
  double latest = 0;
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    const Entry& now = newest(lane);
    latest = later(latest, now.doing.load(kRelaxed), now.issued_seconds.load(kRelaxed),
                   now.started_seconds.load(kRelaxed), now.ended_seconds.load(kRelaxed));
  }
  return latest;
}

void ActivityLog::issue(std::size_t lane, Doing doing, std::int32_t op, std::int64_t step,
                        double now_seconds) {
  const auto index = index_of(lane);
  if (!index) return;
  const std::uint64_t count = lanes_[*index].count.load(kRelaxed);
  Entry& entry = lanes_[*index].ring[count % kRecent];
  entry.ended_seconds.store(0, kRelaxed);
  entry.started_seconds.store(0, kRelaxed);
  entry.issued_seconds.store(now_seconds, kRelaxed);
  entry.doing.store(doing, kRelaxed);
  entry.op.store(op, kRelaxed);
  entry.step.store(step, kRelaxed);
  lanes_[*index].count.store(count + 1, std::memory_order_release);
}

void ActivityLog::start(std::size_t lane, double now_seconds) {
  if (const auto index = index_of(lane)) newest(*index).started_seconds.store(now_seconds, kRelaxed);
}

void ActivityLog::end(std::size_t lane, double now_seconds) {
  if (const auto index = index_of(lane)) newest(*index).ended_seconds.store(now_seconds, kRelaxed);
}

void ActivityLog::fail(std::string_view error, int exit_code) {
  std::int32_t none = 0;
  if (!error_code_.compare_exchange_strong(none, exit_code)) return;
  const std::size_t size = std::min(error.size(), kErrorBytes);
  std::memcpy(error_.data(), error.data(), size);
  error_bytes_.store(static_cast<std::uint32_t>(size));
}

RankState ActivityLog::state() const {
  RankState state;
  state.beat_seconds = beat_seconds_.load();
  state.resident_bytes = resident_bytes_.load(kRelaxed);
  state.error_code = error_code_.load(kRelaxed);
  state.error.assign(error_.data(), std::min<std::size_t>(error_bytes_.load(), kErrorBytes));
  for (const Lane& lane : lanes_) {
    const std::uint64_t count = lane.count.load(std::memory_order_acquire);
    if (count == 0) continue;
    auto& out = state.lanes.emplace_back();
    out.axes = static_cast<std::int16_t>(lane.axes_and_one.load(kRelaxed) - 1);
    out.direction = lane.direction.load(kRelaxed);
    for (std::uint64_t i = count > kRecent ? count - kRecent : 0; i < count; ++i) {
      const Entry& entry = lane.ring[i % kRecent];
      out.recent.push_back({entry.doing.load(kRelaxed), entry.op.load(kRelaxed), entry.step.load(kRelaxed),
                            entry.issued_seconds.load(kRelaxed), entry.started_seconds.load(kRelaxed),
                            entry.ended_seconds.load(kRelaxed)});
    }
  }
  return state;
}

During::During(ActivityLog* log, Doing doing, std::int64_t step, std::size_t lane) : log_(log), lane_(lane) {
  if (!log_) return;
  const double now = now_seconds();
  log_->issue(lane_, doing, -1, step, now);
  log_->start(lane_, now);
}

During::~During() {
  if (log_) log_->end(lane_, now_seconds());
}

}  // namespace tessera
