// The log of what a rank is doing and did last, in memory without pointers: another process that shares it
// can read it when the rank itself no longer answers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class Doing : std::uint8_t {
  starting,   // loading, compiling the program
  meeting,    // waiting for all ranks to connect
  preparing,  // drawing weights, which takes one rank longer than another
  loading,    // reading starting weights
  resuming,   // reading a checkpoint
  joining,    // of a replica that was started again: ready, until the others meet
  reading_data,
  writing,        // metrics of a step
  saving,         // a checkpoint
  evaluating,     // held-out samples
  serving,        // a parameter server: what workers ask for, when they ask
  computing,      // an op of its own
  communicating,  // an op that needs others
  sending,        // the step is through but for sends that nobody has received
  closing,        // the trace and what else is written at the end
  finished,
};

// One thing done on a lane; times on the steady clock, 0 while it hasn't come to that.
struct Activity {
  Doing doing = Doing::starting;
  std::int32_t op = -1;  // index into the rank's sequence; -1: none
  std::int64_t step = 0;
  double issued_seconds = 0;   // its turn came; it may wait for other lanes
  double started_seconds = 0;  // runs
  double ended_seconds = 0;
  bool under_way() const { return started_seconds > 0 && ended_seconds == 0; }
  bool operator==(const Activity&) const = default;
};

struct LaneState {
  std::int16_t axes = -1;  // of the lane: -1 computes, else the axis set it communicates over
  std::uint8_t direction = 0;
  std::vector<Activity> recent;  // oldest first; the last one is now
  bool operator==(const LaneState&) const = default;
};

// What is known of a rank at one time.
struct RankState {
  double beat_seconds = 0;  // its last sign of life; 0: none yet
  std::int64_t resident_bytes = 0;
  std::vector<LaneState> lanes;  // the compute lane first
  std::string error;             // what it threw, if it has
  std::int32_t error_code = 0;   // the exit code that belongs to it
  bool operator==(const RankState&) const = default;

  // What the main lane is at.
  const Activity* now() const;
  bool is_finished() const { return now() && now()->doing == Doing::finished; }
  // Since when something that should not last is under way, on any lane: the earliest; 0: nothing is.
  double waiting_since_seconds() const;
  // When something last began or ended, on any lane; 0: nothing has; while it prepares: later than any time.
  // In a pipeline a rank may rightly wait for long while others get on.
  double progress_seconds() const;
  // What says most about it: the main lane, or, where that only waits for another lane, what is under way
  // there.
  Activity busiest() const;
};

// Whether it should be over soon, unless something is wrong: all but computing and starting up.
bool should_be_short(Doing doing);

// Times are written as ages at `now_seconds`, so that a reader with another clock can place them on its own.
std::string to_bytes(const RankState& state, double now_seconds);
std::optional<RankState> parse_rank_state(std::string_view bytes, double now_seconds);

// Written by one rank, each lane by its own thread; read by anybody at any time. A reader that comes while
// the oldest entry is being replaced may see parts of two; what has stood still is read exactly.
class ActivityLog {
 public:
  static constexpr std::size_t kLanes = 12;
  static constexpr std::size_t kSavingLane = static_cast<std::size_t>(-1);  // of the thread that saves
  static constexpr std::size_t kRecent = 16;                                // per lane
  static constexpr std::size_t kErrorBytes = 2048;

  void beat(double now_seconds, std::int64_t resident_bytes);
  // The most that tensors of the rank held during the step that has just ended.
  void held(std::int64_t peak_bytes) { peak_bytes_ = peak_bytes; }
  void name_lane(std::size_t lane, std::int16_t axes, std::uint8_t direction);
  // An op's turn has come on its lane; it starts, it ends.
  void issue(std::size_t lane, Doing doing, std::int32_t op, std::int64_t step, double now_seconds);
  void start(std::size_t lane, double now_seconds);
  void end(std::size_t lane, double now_seconds);
  // The first error stays.
  void fail(std::string_view error, int exit_code);
  bool has_failed() const { return error_bytes_ != 0; }

  RankState state() const;
  std::int64_t resident_bytes() const { return resident_bytes_; }
  std::int64_t peak_bytes() const { return peak_bytes_; }
  double beat_seconds() const { return beat_seconds_; }
  // As of its state, without copying that.
  double waiting_since_seconds() const;
  double progress_seconds() const;

 private:
  struct Entry {
    std::atomic<Doing> doing;
    std::atomic<std::int32_t> op;
    std::atomic<std::int64_t> step;
    std::atomic<double> issued_seconds, started_seconds, ended_seconds;
  };
  struct Lane {
    std::atomic<std::int16_t> axes_and_one;  // so that zeroed memory is a compute lane
    std::atomic<std::uint8_t> direction;
    std::atomic<std::uint64_t> count;  // entries ever issued; 0: the lane is not used
    std::array<Entry, kRecent> ring;
  };

  // Of lanes_; nothing: a program of more lanes is watched on its first ones.
  static std::optional<std::size_t> index_of(std::size_t lane);
  Entry& newest(std::size_t lane);
  const Entry& newest(std::size_t lane) const;

  std::atomic<double> beat_seconds_;
  std::atomic<std::int64_t> resident_bytes_, peak_bytes_;
  std::atomic<std::uint32_t> error_bytes_;
  std::atomic<std::int32_t> error_code_;
  std::array<char, kErrorBytes> error_;
  std::array<Lane, kLanes + 1> lanes_;  // the saving lane last
};

// Something that is no op, for as long as it lives: on the main lane, which is not inside an op then, or the
// saving lane. One at a time on a lane.
class During {
 public:
  During(ActivityLog* log, Doing doing, std::int64_t step = 0, std::size_t lane = 0);
  ~During();
  During(const During&) = delete;
  During& operator=(const During&) = delete;

 private:
  ActivityLog* log_;
  std::size_t lane_;
};

}  // namespace tessera
