#include "tessera/train/saver.hpp"

#include <cmath>
#include <cstdio>
#include <optional>

#include "tessera/base/clock.hpp"
#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/version.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/spec/load.hpp"
#include "tessera/train/agreement.hpp"

namespace tessera::train {

namespace {

constexpr int kMaxAttempts = 3;
// Sums carry both numbers: how many ranks are done, and, in units of this, on how many it failed.
constexpr double kFailed = 1 << 24;

std::string hash_of_text(const std::string& text) {
  return checkpoint::hash_text(checkpoint::hash_of(std::as_bytes(std::span(text))));
}

}  // namespace

Saver::Saver(const spec::Run& run, Session& session, SaverOptions options)
    : rule_(run.checkpoint),
      copies_(run.checkpoint.background && !spec::offloads(run.layout, spec::Offload::optimizer) &&
              !spec::offloads(run.layout, spec::Offload::parameters)),
      session_(session),
      options_(std::move(options)),
      requests_(options_.run_folder),
      saved_step_(options_.saved_step),
      begin_seconds_(now_seconds()) {
  if (options_.folder.empty()) rule_ = {.every = 0, .every_minutes = 0};
  count_steps();
  taken_at_saved_ = taken_;
  config_ = spec::to_text(run);
  program_hash_ = hash_of_text(program::to_text(session.program()));
  if (options_.restarts) options_.restarts->hold(saved_step_, now_seconds());
  if (options_.rank != 0 || options_.folder.empty()) return;
  const std::string complaint = complaint_of([&] { checkpoint::remove_unfinished(options_.folder); });
  if (!complaint.empty()) tell(cat("warning: what an earlier save left stays: ", complaint));
}

Saver::~Saver() {
  if (thread_.joinable()) thread_.join();
}

void Saver::tell(const std::string& text) const {
  if (options_.rank == 0 && options_.tell) options_.tell(text);
}

void Saver::after_step(std::int64_t step) {
  count_steps();
  if (phase_ != Phase::idle) poll();
  if (phase_ == Phase::idle && is_removal_due_ && taken_ > taken_at_saved_) remove_old();
  if (rule_.every == 0 || step % rule_.every != 0) return;
  if (has_new_weights()) return save(step);
  const std::int64_t newest = is_saving() ? step_ : saved_step_;
  if (!is_told_skipped_ && step != newest)
    tell(cat("step ", step, " is not saved: no step after step ", newest,
             " was taken, so the weights are the same"));
  is_told_skipped_ = true;
}

// Compared with the newest checkpoint, or the one that is being written.
bool Saver::has_new_weights() const { return taken_ > (is_saving() ? taken_at_save_ : taken_at_saved_); }

// Updates of a session count the steps under way as taken.
void Saver::count_steps() {
  const auto progress = session_.progress();
  const auto under_way = static_cast<std::int64_t>(session_.under_way());
  const std::int64_t finished = progress.step - under_way,
                     taken = progress.updates - progress.reset_after - under_way;
  if (finished > finished_) is_last_taken_ = taken > taken_;
  finished_ = finished;
  taken_ = taken;
}

bool Saver::wants_to_save(std::int64_t step) const {
  if (options_.rank != 0 || options_.folder.empty() || step == 0) return false;
  const bool is_time = rule_.every_minutes > 0 &&
                       now_seconds() - begin_seconds_ >= rule_.every_minutes * 60 && step != saved_step_ &&
                       step != step_ && has_new_weights();
  return is_time || (requests_.is_asked() && !is_asked_for_);
}

void Saver::finish(std::int64_t step) {
  count_steps();
  wait();
  // What could not be saved in several attempts is given up.
  if (rule_.saves() && saved_step_ != step && step_ != step) {
    save(step);
    wait();
  }
  // No step will follow, so the last one is the best evidence there is.
  if (is_removal_due_ && (taken_ > taken_at_saved_ || is_last_taken_)) {
    remove_old();
    wait();
  }
}

void Saver::expect_saved(std::int64_t step) const {
  if (!rule_.saves() || saved_step_ == step) return;
  throw UserError(cat("the checkpoint of step ", step, ", the last of this run, could not be saved",
                      last_complaint_.empty() ? "" : cat(": ", last_complaint_), ". ", newest_text(),
                      " The steps after it are lost: make room on the disk and start the run again."));
}

std::string Saver::newest_text() const {
  if (saved_step_ == 0) return "Nothing was saved.";
  const std::string path = checkpoint::step_folder(options_.folder, saved_step_).path;
  if (!checkpoint::is_checkpoint(path))
    return cat("The newest whole checkpoint is that of step ", saved_step_, ".");
  const bool is_current = saved_step_ == session_.progress().step;
  return cat(is_current ? "The run is saved in " : "The newest whole checkpoint is ", path, ".");
}

void Saver::remove_old() {
  is_removal_due_ = false;
  phase_ = Phase::removing;
  if (options_.rank != 0) return;
  start([this] {
    checkpoint::remove_old(options_.folder, {.last = rule_.keep_last, .every = rule_.keep_every},
                           saved_step_);
  });
}

// Nobody waits for ever: a disk that can't take the answer is told of here.
void Saver::answer(const checkpoint::SaveAnswer& answer) {
  is_asked_for_ = false;
  const std::string complaint = complaint_of([&] { requests_.answer(answer); });
  if (!complaint.empty()) tell(cat("warning: who asked for a save gets no answer: ", complaint));
}

void Saver::save(std::int64_t step) {
  if (options_.folder.empty()) return;
  count_steps();
  wait();
  if (is_removal_due_ && taken_ > taken_at_saved_) {  // or one more than is kept would lie there at a time
    remove_old();
    wait();
  }
  is_asked_for_ = options_.rank == 0 && requests_.is_asked();
  if (step == saved_step_ && has_saved_) {  // nothing was made since
    if (is_asked_for_) answer({step, checkpoint::step_folder(options_.folder, step).path});
    return;
  }
  taken_at_save_ = taken_;
  step_ = step;
  attempts_ = 0;
  begin_seconds_ = now_seconds();
  if (options_.restarts) options_.restarts->hold(step, begin_seconds_);
  progress_ = session_.progress();
  session_.settle();
  progress_.next_sample *= static_cast<std::uint64_t>(options_.samples_of_each);
  is_told_stuck_ = is_told_skipped_ = false;
  if (copies_) {
    const During copying(options_.log, Doing::saving, step);
    snapshot_.take(session_);
  }
  begin();
}

// Also the way to try again.
void Saver::begin() {
  ++attempts_;
  phase_ = Phase::writing;
  save_ = {options_.folder, step_, checkpoint::new_save_id()};
  std::string complaint;
  if (options_.rank == 0) {
    const During saving(options_.log, Doing::saving, step_);
    complaint = complaint_of([&] { checkpoint::begin_save(save_); });
  }
  // Nobody writes before the folder is there: the others hear its id, or 0.
  const std::int64_t id =
      number_of_first(session_, options_.rank, complaint.empty() ? static_cast<std::int64_t>(save_.id) : 0);
  save_.id = static_cast<std::uint64_t>(id);
  if (id == 0) {
    complaint_ = complaint;
    return end_phase(true);
  }
  start([this] {
    const std::string folder = checkpoint::saving_path(save_);
    checkpoint::Manifest part{.written_by = kVersion,
                              .progress = progress_,
                              .config = config_,
                              .program_hash = program_hash_,
                              .data = options_.data};
    if (copies_)
      snapshot_.write(folder, options_.rank, part, began_);
    else
      write_state(session_, folder, options_.rank, part, began_);
    began_();
    checkpoint::write_part(folder, options_.rank, part);
  });
  if (!copies_) wait();
}

void Saver::start(std::function<void()> work) {
  complaint_.clear();
  done_ = false;
  thread_ = std::thread([this, work = std::move(work)] {
    std::optional<During> saving;
    began_ = [&] {
      saving.reset();
      saving.emplace(options_.log, Doing::saving, step_, ActivityLog::kSavingLane);
    };
    began_();
    complaint_ = complaint_of(work);
    saving.reset();
    done_ = true;
  });
}

bool Saver::is_here_done() {
  if (!thread_.joinable()) return true;
  if (!done_) return false;
  thread_.join();
  return true;
}

// The next steps go on meanwhile; only when the next save is due does a disk that hangs hold up the run.
void Saver::tell_if_stuck() {
  if (is_told_stuck_ || !options_.log) return;
  const auto state = options_.log->state();
  for (const LaneState& lane : state.lanes) {
    const Activity& at = lane.recent.back();
    const double seconds = now_seconds() - at.started_seconds;
    if (at.doing != Doing::saving || !at.under_way() || seconds < options_.timeout_seconds) continue;
    is_told_stuck_ = true;
    const std::string text =
        cat("warning: the disk has taken nothing of the checkpoint of step ", step_, " for ",
            fixed(seconds, 1), " s; training goes on until the next save is due");
    if (options_.rank == 0)
      tell(text);
    else
      std::fputs((text + "\n").c_str(), stderr);
  }
}

// All ranks call it together.
void Saver::poll() {
  if (!done_) tell_if_stuck();
  const bool done = is_here_done();
  const double sum = session_.sum((done ? 1 : 0) + (done && !complaint_.empty() ? kFailed : 0));
  const double num_failed = std::floor(sum / kFailed);
  if (sum - num_failed * kFailed == options_.num_ranks) end_phase(num_failed > 0);
}

void Saver::wait() {
  while (phase_ != Phase::idle) {
    if (thread_.joinable()) {
      // Waits for the lane of the thread, which shows whether it gets on.
      if (options_.log) options_.log->issue(0, Doing::saving, -1, step_, now_seconds());
      thread_.join();
    }
    poll();
  }
}

// The attempt at a save has failed.
void Saver::end_attempt() {
  const bool again = attempts_ < kMaxAttempts;
  tell(cat("warning: the checkpoint of step ", step_, " could not be saved (attempt ", attempts_, " of ",
           kMaxAttempts, complaint_.empty() ? "" : ": ", complaint_, "); ",
           again ? "trying again" : "it is given up"));
  if (options_.rank != 0 && !complaint_.empty())
    std::fputs(cat("checkpoint of step ", step_, ": ", complaint_, "\n").c_str(), stderr);
  last_complaint_ = complaint_;
  complaint_.clear();
  phase_ = Phase::idle;
  if (options_.rank == 0 && save_.id != 0)
    complaint_of([&] { checkpoint::abandon_save(save_); });  // what stays, the next run removes
  if (again) return begin();
  if (is_asked_for_) answer({0, cat("the checkpoint of step ", step_, " could not be saved")});
}

void Saver::end_phase(bool failed) {
  if (phase_ == Phase::removing) {
    phase_ = Phase::idle;
    if (!complaint_.empty()) tell(cat("warning: an old checkpoint stays: ", complaint_));
    complaint_.clear();
    return;
  }
  if (failed) return end_attempt();
  if (phase_ == Phase::writing) {
    phase_ = Phase::committing;
    if (options_.rank == 0) start([this] { checkpoint::commit_save(save_, options_.num_ranks); });
    return;
  }
  phase_ = Phase::idle;
  saved_step_ = step_;
  has_saved_ = true;
  if (options_.restarts) options_.restarts->save(step_);
  // A checkpoint that brings nothing new replaces nothing.
  is_removal_due_ = rule_.keep_last > 0 && (is_removal_due_ || taken_at_save_ > taken_at_saved_);
  taken_at_saved_ = taken_at_save_;
  if (is_asked_for_) answer({step_, checkpoint::step_folder(options_.folder, step_).path});
  tell(cat("saved the checkpoint of step ", step_, " in ", fixed(now_seconds() - begin_seconds_, 1), " s"));
}

}  // namespace tessera::train
