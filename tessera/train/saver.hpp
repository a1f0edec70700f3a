// Saves a run while it goes on: by steps, by time, when asked, and after its last step. A copy of the state
// is written by a thread of its own, beside the next steps; the ranks agree between steps on how far they
// are, and the first of them commits.
//
// A save that fails warns and is tried again from the same copy; it never ends the training, and a run whose
// last state is not saved ends with an error. At most one is under way: a step at which the next is due waits
// for it.
//
// Old checkpoints are removed once a step has been taken from the newest one. Until then its weights may be
// ones from which every gradient is infinite. A state that differs from the newest checkpoint by skipped
// steps alone has the same weights, so it is saved only on request or at the end, and replaces nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "tessera/base/process/restart_log.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/folder/save_request.hpp"
#include "tessera/train/saved.hpp"

namespace tessera::train {

struct SaverOptions {
  std::string folder;  // of the run's checkpoints
  int rank = 0, num_ranks = 1;
  ActivityLog* log = nullptr;
  RestartLog* restarts = nullptr;  // of the job; on one rank
  double timeout_seconds = 60;     // a disk that takes nothing for so long beside the steps is told of
  std::int64_t saved_step = 0;     // where the run goes on from
  std::string run_folder = "";     // where people ask for a save; empty: nowhere
  std::optional<checkpoint::DataIdentity> data = std::nullopt;  // that the run reads
  std::int64_t samples_of_each = 1;                             // of the run, for one of the session
  std::function<void(const std::string&)> tell;                 // rank 0: a line for the user
};

class Saver {
 public:
  Saver(const spec::Run& run, Session& session, SaverOptions options);
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // All ranks call it after each step.
  void after_step(std::int64_t step);
  // Whether this rank wants the step that was just made to be saved, by the clock or because it is asked to;
  // only rank 0 ever does.
  bool wants_to_save(std::int64_t step) const;
  // All ranks call it when one of them wants it.
  void save(std::int64_t step);
  // Returns when nothing is under way. All ranks call it.
  void wait();
  // The last step is saved, if anything is; returns when nothing is under way.
  void finish(std::int64_t step);
  // After finish(step): throws UserError, on all ranks, if the run saves checkpoints and this step has none.
  void expect_saved(std::int64_t step) const;
  // The newest that is saved, or where the run goes on from.
  std::int64_t saved_step() const { return saved_step_; }
  // Says, as a sentence for people, which checkpoint is the newest whole one.
  std::string newest_text() const;
  // Whether this rank's thread is at work.
  bool is_writing() const { return thread_.joinable() && !done_; }

 private:
  enum class Phase { idle, writing, committing, removing };
  void begin();
  void poll();
  void start(std::function<void()> work);
  bool is_here_done();
  void tell_if_stuck();
  void count_steps();
  bool is_saving() const { return phase_ == Phase::writing || phase_ == Phase::committing; }
  bool has_new_weights() const;
  void remove_old();
  void end_phase(bool failed);
  void end_attempt();
  void tell(const std::string& text) const;
  void answer(const checkpoint::SaveAnswer& answer);

  spec::Checkpoint rule_;
  bool copies_;  // false: steps wait while the state itself is written
  std::string config_, program_hash_;
  Session& session_;
  SaverOptions options_;
  checkpoint::SaveRequests requests_;
  Phase phase_ = Phase::idle;
  std::int64_t step_ = 0;  // that is being saved, or was last
  checkpoint::Save save_;  // the attempt at it
  std::int64_t saved_step_;
  bool has_saved_ = false;     // and not only gone on from there
  bool is_asked_for_ = false;  // this save
  bool is_told_stuck_ = false, is_told_skipped_ = false;
  bool is_removal_due_ = false;  // of what the newest checkpoint replaces
  // Steps that were finished and those of them that were taken, up to the last, to the state that is being
  // saved and to the newest that is.
  std::int64_t finished_ = 0, taken_ = 0, taken_at_save_ = 0, taken_at_saved_ = 0;
  bool is_last_taken_ = false;
  int attempts_ = 0;
  double begin_seconds_ = 0;
  Snapshot snapshot_;
  checkpoint::Progress progress_;  // of the copy
  std::string complaint_;          // of the work; read when it is done
  std::string last_complaint_;     // of the last attempt that failed
  std::atomic<bool> done_ = false;
  std::function<void()> began_;  // of the thread: shows that it gets on
  std::thread thread_;           // does the work
};

}  // namespace tessera::train
