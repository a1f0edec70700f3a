#include "tessera/train/servers/server.hpp"

#include "tessera/base/clock.hpp"
#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/collective/part.hpp"
#include "tessera/metrics/outputs/step_outputs.hpp"
#include "tessera/optim/skipped_steps.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/train/resume.hpp"
#include "tessera/train/run_file.hpp"
#include "tessera/train/saver.hpp"
#include "tessera/train/servers/inbox.hpp"
#include "tessera/train/servers/lines.hpp"
#include "tessera/train/servers/requests.hpp"
#include "tessera/train/servers/serving.hpp"
#include "tessera/train/servers/update_log.hpp"

namespace tessera::train {

namespace {

using collective::Communicator;
using collective::Group;
using collective::PartCommunicator;

class Server {
 public:
  Server(const spec::Run& run, const Communicator& all, const Team& team, const LoopOptions& options)
      : run_(run),
        all_(all),
        team_(team),
        options_(options),
        lines_(lines_of(all, team)),
        servers_(all, team.server_ranks()),
        home_(
            session_plan(run_of_servers(run)), servers_, [](auto, auto, auto, auto) {}, {}, options.log),
        is_first_(servers_.rank() == 0),
        requests_(team.workers(), run.layout.updates == spec::Updates::bounded
                                      ? std::optional(run.layout.staleness)
                                      : std::nullopt),
        versions_(static_cast<std::size_t>(team.workers()), 0),
        skipped_(run.training.stop_after_skipped, true) {
    for (int worker = 0; worker < team.workers(); ++worker)
      communicators_.push_back(std::make_unique<PartCommunicator>(all, team.ranks_with(worker)));
  }

  Summary run() {
    Resumed resumed;
    const auto data = identity_of(run_.data);
    if (!options_.checkpoints.empty())
      resumed = resume(home_, run_,
                       {.folder = options_.checkpoints,
                        .from = options_.from,
                        .saves = run_.checkpoint.saves(),
                        .rank = servers_.rank(),
                        .data = data,
                        .accepted = options_.accepted,
                        .known_step = options_.restarts ? options_.restarts->step() : 0});
    const auto progress = home_.progress();
    taken_ = progress.updates - progress.reset_after;
    pushes_ = first_push_ = static_cast<std::int64_t>(progress.next_sample) / share();
    serving_.emplace(run_of_worker(run_), home_, communicators_);
    open_outputs(resumed);
    saver_.emplace(run_, home_,
                   SaverOptions{.folder = options_.checkpoints,
                                .rank = servers_.rank(),
                                .num_ranks = servers_.size(),
                                .log = options_.log,
                                .restarts = is_first_ ? options_.restarts : nullptr,
                                .timeout_seconds = run_.cluster.timeout_seconds,
                                .saved_step = resumed.step,
                                .run_folder = options_.folder,
                                .data = data,
                                .tell = [this](const std::string& text) { tell(text); }});
    std::optional<Inbox> inbox;
    if (is_first_) {
      for (const Group& line : lines_.to_server) send_number(line, progress.step, 0);
      inbox.emplace(lines_.to_server);
    }
    begin_seconds_ = last_seconds_ = now_seconds();
    try {
      const During serving(options_.log, Doing::serving);
      while (serve(inbox ? &*inbox : nullptr))
        if (skipped_.are_too_many()) throw skipped_error();
    } catch (...) {
      all_.abort();  // or the inbox would wait for workers that wait for this server
      throw;
    }
    return finish(resumed);
  }

 private:
  // What all servers do next.
  enum class Act : std::int64_t { pull, push, drop, leave, save, end };
  struct Decision {
    Act act = Act::end;
    std::int64_t worker = 0;
  };

  void tell(const std::string& text) {
    if (outputs_) outputs_->tell(text);
  }

  void open_outputs(const Resumed& resumed) {
    if (!is_first_) return;
    const auto& tables = home_.program().tables;
    const auto workers = run_.layout.dp();
    outputs_.emplace(metrics::OutputOptions{
        .folder = options_.folder,
        .lines = options_.lines,
        .listen = parse_listen_address(run_.metrics.listen),
        .kept_steps = first_push_,
        .title = {.name = options_.name,
                  .about = cat(count_text(static_cast<double>(plan::num_parameters(tables))), " parameters, ",
                               spec::word(run_.layout.precision), ", ", run_.layout.ranks(), " ranks (",
                               spec::shares_text(run_.layout), "), a step is an update of one of ", workers,
                               workers == 1 ? " worker" : " workers"),
                  .place = options_.folder,
                  .peak_source = "",
                  .steps = run_.training.steps * workers,
                  .ranks = run_.layout.ranks()},
        .patience_seconds = run_.cluster.timeout_seconds});
    if (!options_.folder.empty()) log_.emplace(options_.folder, workers, first_push_);
    for (const std::string& complaint :
         keep_run(run_, {.folder = options_.folder, .checkpoints = options_.checkpoints}, resumed.checkpoint))
      tell(cat("warning: ", complaint));
    for (const std::string& note : resumed.notes) tell(note);
  }

  // Takes what has come and picks what is next; on the first server.
  Decision decide(Inbox& inbox) {
    for (;;) {
      if (saver_->wants_to_save(steps())) return {Act::save};
      for (; !gone_.empty(); gone_.pop_back())
        if (requests_.is_present(gone_.back())) return {Act::drop, gone_.back()};
      if (const auto next = requests_.take())
        return {next->ask == Ask::pull   ? Act::pull
                : next->ask == Ask::push ? Act::push
                                         : Act::leave,
                next->worker};
      if (requests_.is_over()) return {Act::end};
      constexpr std::chrono::milliseconds kLook{200};
      for (const auto& letter : inbox.take(kLook)) {
        if (letter.ask)
          requests_.ask(letter.worker, *letter.ask);
        else
          gone_.push_back(letter.worker);
      }
    }
  }

  UserError skipped_error() {
    set_progress();
    saver_->finish(steps());
    return skipped_.error(saver_->newest_text());
  }

  // False: all is over.
  bool serve(Inbox* inbox) {
    Decision decision;
    if (inbox) decision = decide(*inbox);
    const auto told =
        numbers_of_first(lines_.team, {static_cast<std::int64_t>(decision.act), decision.worker});
    const auto act = static_cast<Act>(told[0]);
    const auto worker = static_cast<int>(told[1]);
    switch (act) {
      case Act::pull:
        if (!are_served([&] { return serving_->run(worker, program::Service::pull); }))
          return drop(worker), true;
        versions_[static_cast<std::size_t>(worker)] = pushes_;
        return true;
      case Act::push:
        push(worker);
        return true;
      case Act::drop:
        return drop(worker), true;
      case Act::leave:
        requests_.remove(worker);
        serving_->drop(worker);
        ++num_finished_;
        return true;
      case Act::save:
        set_progress();
        saver_->save(steps());
        return true;
      case Act::end:
        break;
    }
    return false;
  }

  // Whether it succeeded on all servers.
  template <typename Work>
  bool are_served(Work work) {
    return most_of(lines_.team, work() ? 0 : 1) == 0;
  }

  void push(int worker) {
    const auto at = static_cast<std::size_t>(worker);
    if (!is_first_) requests_.ask(worker, Ask::push), requests_.take();
    // Nobody updates before all have the gradient.
    if (!are_served([&] { return serving_->run(worker, program::Service::push); })) return drop(worker);
    ++pushes_;
    const double rate = rate_of_push(run_, pushes_);
    if (!are_served([&] {
          return serving_->run(worker, program::Service::update,
                               engine::Turns::Update{.learning_rate = rate, .count = taken_ + 1});
        }))
      throw Bug("a server did not update what another did");
    const engine::StepReport& report = serving_->report(worker);
    taken_ += report.taken ? 1 : 0;
    skipped_.add({.step = pushes_,
                  .taken = report.taken,
                  .loss = report.loss,
                  .gradient_norm = report.gradient_norm,
                  .loss_scale = report.loss_scale});
    if (is_first_) note(worker, versions_[at], rate, report);
    if (pushes_ % run_.layout.dp() == 0) {
      set_progress();
      saver_->after_step(steps());
    }
  }

  void note(int worker, std::int64_t version, double rate, const engine::StepReport& report) {
    const double now = now_seconds();
    const Push push{.number = pushes_,
                    .of = {worker, first_push_ / run_.layout.dp() + requests_.updates(worker)},
                    .version = version,
                    .taken = report.taken,
                    .loss = report.loss,
                    .gradient_norm = report.gradient_norm,
                    .seconds = now - begin_seconds_};
    if (log_) {
      log_->add(push);
      for (const std::string& news : log_->take_news()) tell(news);
    }
    const double seconds = now - last_seconds_;
    last_seconds_ = now;
    if (losses_.empty()) summary_.first_loss = report.loss;
    losses_.push_back(report.loss);
    step_seconds_.push_back(seconds);
    tokens_ += report.tokens;
    not_taken_ += report.taken ? 0 : 1;
    const auto peaks = options_.peak_bytes ? options_.peak_bytes() : std::vector<std::int64_t>();
    for (const std::int64_t peak : peaks) summary_.peak_bytes = std::max(summary_.peak_bytes, peak);
    const auto left = run_.training.steps * run_.layout.dp() - pushes_;
    outputs_->add(
        {.step = pushes_,
         .steps = run_.training.steps * run_.layout.dp(),
         .loss = report.loss,
         .tokens = report.tokens,
         .total_tokens = pushes_ * share() * run_.model.sequence,
         .gradient_norm = report.gradient_norm,
         .learning_rate = rate,
         .step_seconds = seconds,
         .left_seconds =
             (now - begin_seconds_) / static_cast<double>(losses_.size()) * static_cast<double>(left),
         .resident_bytes = options_.resident_bytes ? options_.resident_bytes() : std::vector<std::int64_t>(),
         .peak_bytes = peaks,
         .moved = report.moved,
         .steps_not_taken = not_taken_,
         .restarts = options_.restarts ? options_.restarts->count() : 0,
         .lost_seconds = options_.restarts ? options_.restarts->lost_seconds(now) : 0,
         .taken = report.taken});
  }

  void drop(int worker) {
    requests_.remove(worker);
    serving_->drop(worker);
    ++num_lost_;
    if (log_) log_->lose(pushes_, worker);
    tell(cat("worker ", worker, " is lost after ", pushes_, " updates; the others go on"));
  }

  std::int64_t steps() const { return pushes_ / run_.layout.dp(); }
  std::int64_t share() const { return run_.training.global_batch / run_.layout.dp(); }

  // The count of a run that goes on otherwise is that of steps; the optimizer's stays that of updates.
  void set_progress() {
    home_.go_on_from({.step = steps(),
                      .updates = steps(),
                      .next_sample = static_cast<std::uint64_t>(pushes_ * share()),
                      .reset_after = steps() - taken_});
  }

  Summary finish(const Resumed& resumed) {
    set_progress();
    saver_->finish(steps());
    const std::string bits = weight_bits(serving_->buckets(), lines_.team);
    if (log_) log_->end(pushes_, bits);
    serving_.reset();
    if (num_finished_ == 0 && num_lost_ > 0)
      throw PeerLost(
          cat("all ", num_lost_, " workers are lost after ", pushes_, " updates. ", saver_->newest_text()));
    summary_.is_told_here = is_first_;
    summary_.steps = std::ssize(losses_);
    summary_.parameters = plan::num_parameters(home_.program().tables);
    summary_.ranks = run_.layout.ranks();
    summary_.resumed_after = resumed.step;
    summary_.seconds = now_seconds() - begin_seconds_;
    if (!losses_.empty()) {
      summary_.last_loss = losses_.back();
      const auto last = std::min<std::ptrdiff_t>(10, std::ssize(losses_));
      for (auto loss = losses_.end() - last; loss != losses_.end(); ++loss)
        summary_.mean_loss_of_last_ten += *loss / static_cast<double>(last);
      summary_.step_seconds = median(step_seconds_);
      summary_.tokens_per_second = tokens_ / summary_.seconds;
    }
    summary_.steps_not_taken = not_taken_;
    if (outputs_) summary_.incomplete = outputs_->finish();
    saver_->expect_saved(steps());
    if (options_.stop && options_.stop->signal() != 0)
      options_.stop->take_over(options_.stop->signal(), now_seconds());
    return summary_;
  }

  const spec::Run& run_;
  const Communicator& all_;
  const Team& team_;
  const LoopOptions& options_;
  const Lines lines_;
  const PartCommunicator servers_;
  Session home_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::optional<Serving> serving_;
  const bool is_first_;
  Requests requests_;
  std::vector<int> gone_;
  std::vector<std::int64_t> versions_;  // by worker: pushes that its weights have seen
  std::int64_t pushes_ = 0, first_push_ = 0, taken_ = 0;
  std::int64_t num_finished_ = 0, num_lost_ = 0, not_taken_ = 0;
  optim::SkippedSteps skipped_;  // of pushes
  std::optional<metrics::StepOutputs> outputs_;
  std::optional<UpdateLog> log_;
  std::optional<Saver> saver_;
  double begin_seconds_ = 0, last_seconds_ = 0, tokens_ = 0;
  std::vector<double> losses_, step_seconds_;
  Summary summary_;
};

}  // namespace

Summary serve_workers(const spec::Run& run, const Communicator& all, const Team& team,
                      const LoopOptions& options) {
  return Server(run, all, team, options).run();
}

}  // namespace tessera::train
