// The walk of a program. All classes of a program advance together: an op starts when its lane is free, its
// waits have ended and whoever it meets is there. Without a clock this is the check that nobody gets stuck;
// simulate adds the clock.
#pragma once

#include <cstdint>
#include <vector>

#include "tessera/program/check/partners.hpp"

namespace tessera::program {

struct Place {
  std::uint32_t rank_class = 0, op = 0;
};

class Advance {
 public:
  struct Mode {
    bool rendezvous = true;  // a send and its receive happen at one time; false: a send needs nobody
    bool one_queue = false;  // all communication of a rank keeps its order of issue
  };

  // The partners must outlive it.
  Advance(const Program& program, const Partners& partners);

  // Back to the start of the step.
  void restart(Mode mode);
  // An op that may start, by its number, and is taken to have started; of ops that happen together it stands
  // for all. kNone: nothing can start before something ends.
  std::uint32_t next();
  // An op that `next` gave has ended, on all that it stands for.
  void end(std::uint32_t op);

  bool is_done(std::uint32_t op) const { return is_done_[op]; }
  Place place(std::uint32_t op) const {
    const std::uint32_t c = class_of_lane_[entries_[op].lane];
    return {c, op - partners_.first[c]};
  }
  // Ops that have not ended.
  std::uint32_t num_left() const { return num_left_; }
  // Whether the op happens together with the other members of its meeting.
  bool is_joint(std::uint32_t op) const { return is_joint(entries_[op]); }

  static constexpr std::uint32_t kNone = 0xffff'ffffu;

 private:
  struct LaneState {
    std::uint32_t head = kNone;  // the next op, or the one under way
    bool is_busy = false;        // under way, or waiting for whom it meets
  };
  struct ClassState {
    std::uint32_t first_lane = 0, num_lanes = 0;
    std::uint32_t lane = 0, num_tried = 0;  // the lane to try, lanes tried since something changed
    std::uint32_t queue_head = 0;           // with one queue: the next op that communicates
    bool is_listed = false;
  };

  // What the walk needs of an op, side by side: most of its time goes into fetching this.
  struct Entry {
    std::uint32_t lane = 0;       // lanes of all classes are numbered through
    std::uint32_t after = kNone;  // the next op of its lane
    std::uint32_t first_wait = 0;
    std::uint32_t meeting = Partners::kAlone;
    std::uint16_t num_waits = 0;
    bool is_queued = false, is_transfer = false, is_send = false;
  };

  bool is_joint(const Entry& entry) const {
    return entry.meeting != Partners::kAlone && (mode_.rendezvous || !entry.is_transfer);
  }
  bool may_start(std::uint32_t op, const Entry& entry, const ClassState& state) const;
  bool meets(const Entry& entry);
  void list(std::uint32_t c);
  void finish(std::uint32_t op);
  void pass_queue(std::uint32_t c);

  const Partners& partners_;
  std::vector<Entry> entries_;        // per op
  std::vector<std::uint32_t> waits_;  // of this step, by number
  std::vector<std::uint32_t> first_of_lane_, class_of_lane_;

  Mode mode_;
  std::vector<LaneState> lanes_;
  std::vector<ClassState> classes_;
  std::vector<std::uint32_t> num_there_;  // per meeting
  std::vector<std::uint32_t> to_try_;     // classes in which something may have become possible
  std::vector<std::uint8_t> is_done_;     // per op
  std::uint32_t num_left_ = 0;
};

}  // namespace tessera::program
