// One start of the ranks of a machine: starts them, watches them until none is left, and says how it ended.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/base/files/queued_writer.hpp"
#include "tessera/launch/spawn.hpp"
#include "tessera/launch/store/key_server.hpp"
#include "tessera/launch/watch/child.hpp"
#include "tessera/launch/watch/signal_mailbox.hpp"
#include "tessera/launch/watch/status_board.hpp"

namespace tessera::launch {

struct JobEnd {
  int code = 0;  // of the whole job, if its ranks are not started again
  // Something outside the ranks ended them, or they hung, and nobody had asked for an end.
  bool may_start_again = false;
  int rank = -1;       // the one that failed first or held up the others, or -1
  double seconds = 0;  // when that was noticed
};

class Job {
 public:
  // All of these outlive it. The board is blank but for its stop request and its log of restarts. The mailbox
  // is older than all threads of this process that would take signals.
  Job(const SpawnOptions& options, SignalMailbox& signals, StatusBoard& board, QueuedWriter& report);

  // Failures are reported as soon as they are known. Throws UserError when a rank can't be started; none runs
  // then.
  JobEnd run();

 private:
  struct Failure {
    int rank = 0;
    Ending ending;
  };

  // The ranks of a dispensable part.
  struct Part {
    std::vector<int> ranks;
    bool is_lost = false;
    bool is_cleared = false;  // of a lost one: its ranks have ended, and their places are blank
    bool may_return = true;   // false after its own error, since a restart would hit it again
    double lost_seconds = 0;
    std::int64_t restarts = 0;
  };

  Child started(int rank, bool is_newcomer);
  void start_all();
  void end_all(int signal);
  JobEnd end();

  bool is_ending() const { return ending_since_seconds_ >= 0; }
  bool stops_between_steps() const { return options_.grace_seconds > 0; }
  StopRequest& stop() { return board_.stop_request(); }
  bool is_interrupted();
  bool has_ended(int rank);
  bool has_finished(int rank) const;
  double last_sign_seconds(int rank, double now);
  int count_running();

  std::optional<Ending> failure_of(int rank);
  void look_for_failure();
  void end_if_due();
  void wait_for_news();
  void look_for_request();
  void pass_on_errors(int rank, bool last);
  std::string message();

  // job_hang.cpp
  void look_for_hang();
  bool is_silent(double now, double limit);
  bool is_stuck(double limit);
  void name_culprit(double now);

  // job_parts.cpp
  std::optional<int> part_of(int rank) const;
  bool may_be_lost(int rank) const { return part_of(rank).has_value(); }
  bool is_lost(int rank);
  void look_for_losses();
  bool are_others_through();
  void look_at(Part& part);
  void do_without(Part& part, const std::string& why);
  void end(const Part& part);
  void send_away(Part& part);
  void clear(Part& part);
  void start_again(Part& part);

  const SpawnOptions& options_;
  QueuedWriter& report_;
  SignalMailbox& signals_;
  KeyServer server_;
  StatusBoard& board_;
  std::vector<Child> children_;
  std::vector<double> started_seconds_;
  double all_here_seconds_ = 0;
  std::vector<double> stopped_since_seconds_;  // before their first sign of life; 0 while they run
  std::map<int, Part> parts_;                  // that may be lost
  bool is_stop_told_ = false, is_grace_over_ = false;
  bool ends_at_once_ = false;  // because a signal asked for it
  std::optional<Failure> first_;
  std::optional<Culprit> hang_;
  std::string hang_note_;
  Snapshot snapshot_;  // when it was noticed
  double ending_since_seconds_ = -1;
};

}  // namespace tessera::launch
