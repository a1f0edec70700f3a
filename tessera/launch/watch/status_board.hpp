// Memory in which the ranks of a job show what they do to their launcher, which can read it when a rank is
// stopped or dead. It has no name in any file system, so nothing is left of it.
#pragma once

#include <vector>

#include "tessera/base/process/activity.hpp"
#include "tessera/base/process/restart_log.hpp"
#include "tessera/base/process/stop_request.hpp"
#include "tessera/launch/net/channel.hpp"

namespace tessera::launch {

class StatusBoard {
 public:
  // New and blank. Throws UserError when the system has no room for it.
  explicit StatusBoard(int num_ranks);
  // One that a launcher made and handed down; throws UserError when it is for another number of ranks.
  StatusBoard(Descriptor inherited, int num_ranks);
  ~StatusBoard();
  StatusBoard(const StatusBoard&) = delete;
  StatusBoard& operator=(const StatusBoard&) = delete;

  const Descriptor& descriptor() const { return descriptor_; }
  ActivityLog& log(int rank) { return logs_[rank]; }
  const ActivityLog& log(int rank) const { return logs_[rank]; }
  // Blank again, for a rank that is started anew.
  void clear(int rank);
  StopRequest& stop_request() { return head_->stop_request; }
  RestartLog& restart_log() { return head_->restart_log; }
  std::vector<RankState> states() const;
  // By rank.
  std::vector<std::int64_t> resident_bytes() const;
  std::vector<std::int64_t> peak_bytes() const;

 private:
  // The whole job.
  struct Head {
    StopRequest stop_request;
    RestartLog restart_log;
  };
  void map();

  int num_ranks_;
  Descriptor descriptor_;
  void* memory_ = nullptr;
  Head* head_ = nullptr;
  ActivityLog* logs_ = nullptr;
};

}  // namespace tessera::launch
