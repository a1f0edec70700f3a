#include "tessera/train/loop.hpp"

#include <deque>

#include "tessera/base/clock.hpp"
#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/process/resident.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/metrics/display/first_step.hpp"
#include "tessera/metrics/outputs/step_outputs.hpp"
#include "tessera/metrics/trace/intervals.hpp"
#include "tessera/optim/skipped_steps.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/flops.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/tensor/peak.hpp"
#include "tessera/train/agreement.hpp"
#include "tessera/train/evaluate.hpp"
#include "tessera/train/replicas.hpp"
#include "tessera/train/resume.hpp"
#include "tessera/train/run_file.hpp"
#include "tessera/train/saver.hpp"
#include "tessera/train/session.hpp"
#include "tessera/train/trace/tracer.hpp"

namespace tessera::train {

namespace {

constexpr double kPeakSeconds = 0.1;  // spent on measuring the peak, once

metrics::RunTitle title_of(const spec::Run& run, const Session& session, const LoopOptions& options) {
  const auto& layout = run.layout;
  const auto& tables = session.program().tables;
  const std::string stages = layout.pp == 1 ? "" : cat("pp ", layout.pp, " ", session.schedule(), ", ");
  const std::string precision = spec::word(layout.precision);
  const std::string lossy = spec::lossy_text(layout);
  return {.name = options.name,
          .about = cat(count_text(static_cast<double>(plan::num_parameters(tables))), " parameters, ",
                       precision, ", ", layout.ranks(), layout.ranks() == 1 ? " rank" : " ranks", " (",
                       stages, spec::shares_text(layout), "), ", tables.num_micro, " x ", layout.micro_batch,
                       " x ", run.model.sequence, " tokens a rank",
                       lossy.empty() ? "" : cat(", lossy traffic (", lossy, ")"),
                       layout.pp > 1 || session.note().empty() ? "" : cat(", ", session.note())),
          .place = options.folder,
          .peak_source = run.cluster.peak_tflops > 0 ? "cluster.peak_tflops"
                                                     : cat("measured, ", precision, " matrix product"),
          .steps = run.training.steps,
          .ranks = layout.ranks()};
}

// Seconds in which a collective was under way and no op of this rank's own. Collectives inside a segment
// count as compute; a receive that waits for another stage is the pipeline's bubble, not the network's time.
double exposed_seconds(const std::vector<engine::OpTime>& times, const program::Sequence& sequence,
                       const program::Tables& tables) {
  std::vector<metrics::Interval> communication, compute;
  for (const auto& time : times) {
    const auto& op = sequence.ops[time.op];
    if (op.what == program::OpKind::send || op.what == program::OpKind::receive) continue;
    const bool meets_others = op.along >= 0 && tables.size_of(op.along) > 1;
    (meets_others ? communication : compute).emplace_back(time.start_seconds, time.end_seconds);
  }
  return metrics::covered_seconds(communication) - metrics::overlap_seconds(communication, compute);
}

// What the steps so far add up to.
class Tally {
 public:
  void add(const engine::StepReport& report, double seconds) {
    if (losses_.empty()) summary_.first_loss = report.loss;
    // The first step pays for pages and caches; it counts only when there is no other.
    if (losses_.size() == 1) step_seconds_.clear(), token_rates_.clear(), counted_seconds_ = 0;
    step_seconds_.push_back(seconds);
    counted_seconds_ += seconds;
    token_rates_.push_back(report.tokens / seconds);
    losses_.push_back(report.loss);
    summary_.moved = report.moved;
    summary_.steps_not_taken += report.taken ? 0 : 1;
  }

  std::int64_t steps_not_taken() const { return summary_.steps_not_taken; }
  // Of what is still to come, at the pace so far.
  double left_seconds(std::int64_t steps) const {
    return counted_seconds_ / static_cast<double>(step_seconds_.size()) * static_cast<double>(steps);
  }

  Summary summary(const program::Tables& tables, std::int64_t ranks, double seconds) const {
    Summary out = summary_;
    out.steps = static_cast<std::int64_t>(losses_.size());
    out.parameters = plan::num_parameters(tables);
    out.ranks = ranks;
    out.seconds = seconds;
    out.step_seconds = median(step_seconds_);
    out.tokens_per_second = median(token_rates_);
    if (losses_.empty()) return out;
    out.last_loss = losses_.back();
    const std::size_t last = std::min<std::size_t>(10, losses_.size());
    for (std::size_t i = losses_.size() - last; i < losses_.size(); ++i)
      out.mean_loss_of_last_ten += losses_[i] / static_cast<double>(last);
    return out;
  }

 private:
  Summary summary_;
  std::vector<double> step_seconds_, token_rates_, losses_;
  double counted_seconds_ = 0;  // sum of step_seconds_
};

// What a rank knows of a step when it has ended.
class FactsOfSteps {
 public:
  FactsOfSteps(const Session& session, int rank, const LoopOptions& options)
      : tables_(session.program().tables),
        sequence_(session.program().classes.at(tables_.class_of_rank.at(static_cast<std::size_t>(rank)))),
        options_(options),
        steps_(session.training().steps),
        sequence_length_(session.model().sequence) {
    flops_ = plan::step_flops(session.program(), session.layout(), session.training().global_batch);
  }
  // Of the ranks of the session.
  void set_peak(double flops_per_second) { peak_flops_per_second_ = flops_per_second; }

  // `replicas`: how many do the same as these ranks, each on as many samples. `samples`: those of all steps
  // of the run so far.
  metrics::StepFacts of(std::int64_t step, const engine::StepReport& report, double seconds,
                        const Tally& tally, double replicas, std::int64_t samples) const {
    return {
        .step = step,
        .steps = steps_,
        .loss = report.loss,
        .tokens = report.tokens,
        .total_tokens = samples * sequence_length_,
        .gradient_norm = report.gradient_norm,
        .learning_rate = report.learning_rate,
        .loss_scale = report.loss_scale,
        .step_seconds = seconds,
        .left_seconds = tally.left_seconds(steps_ - step),
        .exposed_seconds = exposed_seconds(report.times, sequence_, tables_),
        .model_flops = flops_.model * replicas,
        .hardware_flops = flops_.hardware * replicas,
        .peak_flops_per_second = peak_flops_per_second_ * replicas,
        .resident_bytes = options_.resident_bytes ? options_.resident_bytes() : std::vector{resident_bytes()},
        .peak_bytes = options_.peak_bytes ? options_.peak_bytes() : std::vector{report.at_peak.total()},
        .moved = report.moved,
        .steps_not_taken = tally.steps_not_taken(),
        .restarts = options_.restarts ? options_.restarts->count() : 0,
        .lost_seconds = options_.restarts ? options_.restarts->lost_seconds(now_seconds()) : 0,
        .taken = report.taken};
  }

 private:
  const program::Tables& tables_;
  const program::Sequence& sequence_;
  const LoopOptions& options_;
  std::int64_t steps_, sequence_length_;
  program::StepFlops flops_;
  double peak_flops_per_second_ = 0;
};

}  // namespace

Summary train(const spec::Run& run, const collective::Communicator& communicator,
              const LoopOptions& options) {
  PhaseTimer start_timer = options.start;
  start_timer.end("joining");
  const ActivityLog* reported = communicator.rank() == 0 && options.lines ? options.log : nullptr;
  std::optional<metrics::FirstStep> beginning(std::in_place, reported);
  std::optional<During> opening(std::in_place, options.log, Doing::reading_data);
  Source source = corpus_source(run.data, run.model);
  const auto data = identity_of(run.data);
  std::optional<HeldOut> evaluated;
  if (run.evaluation.every > 0) evaluated = held_out(run.data, run.model, run.evaluation);
  opening.reset();
  Replicas replicas(run, communicator, options.attendance, options.log);
  const int own_rank = replicas.communicator().rank();
  Session session(session_plan(replicas.run()), replicas.communicator(), replicas.source(std::move(source)),
                  {}, options.log, &start_timer);
  if (!run.training.record_choices.empty()) session.record_choices();
  const auto& tables = session.program().tables;
  const auto ranks = static_cast<double>(replicas.communicator().size());
  const std::string checkpoints = options.checkpoints;
  Resumed resumed;
  if (!checkpoints.empty() && !replicas.is_newcomer())
    resumed = resume(session, run,
                     {.folder = checkpoints,
                      .from = options.from,
                      .saves = run.checkpoint.saves(),
                      .rank = own_rank,
                      .data = data,
                      .accepted = options.accepted,
                      .known_step = options.restarts ? options.restarts->step() : 0});
  if (!replicas.begin(session)) return {};
  if (replicas.is_newcomer()) resumed.step = session.progress().step;
  // Before the outputs, which remove what an earlier run left: what may be refused comes first.
  std::optional<During> making(std::in_place, options.log, Doing::writing);
  Tracer tracer(session.program(), own_rank, options.trace);
  beginning.reset();
  std::optional<metrics::StepOutputs> outputs;
  if (communicator.rank() == 0)
    outputs.emplace(metrics::OutputOptions{.folder = options.folder,
                                           .lines = options.lines,
                                           .listen = parse_listen_address(run.metrics.listen),
                                           .kept_steps = resumed.step,
                                           .title = title_of(run, session, options),
                                           .patience_seconds = run.cluster.timeout_seconds});
  making.reset();
  const auto tell = [&](const std::string& text) {
    if (outputs) outputs->tell(text);
  };
  if (outputs)
    for (const std::string& complaint :
         keep_run(run, {.folder = options.folder, .checkpoints = checkpoints}, resumed.checkpoint))
      tell(cat("warning: ", complaint));
  for (const std::string& note : resumed.notes) tell(note);
  metrics::FirstStep first_step(
      reported,
      session.program().classes.at(tables.class_of_rank.at(static_cast<std::size_t>(own_rank))).ops.size(),
      tell);
  Saver saver(run, session,
              {.folder = replicas.is_first() ? checkpoints : "",
               .rank = own_rank,
               .num_ranks = replicas.communicator().size(),
               .log = options.log,
               .restarts = communicator.rank() == 0 ? options.restarts : nullptr,
               .timeout_seconds = run.cluster.timeout_seconds,
               .saved_step = resumed.step,
               .run_folder = options.folder,
               .data = data,
               .samples_of_each = replicas.count(),
               .tell = tell});
  FactsOfSteps facts(session, own_rank, options);
  facts.set_peak(run.cluster.peak_tflops * 1e12 * ranks);

  Tally tally;
  std::optional<metrics::EvaluationFacts> last_evaluation;
  optim::SkippedSteps skipped(run.training.stop_after_skipped, tables.updates_wait);
  std::int64_t peak_bytes = 0;
  std::string trouble;    // why this rank can't make the next step
  bool must_end = false;  // as a rank can't
  const double begin = now_seconds();
  const std::int64_t first = resumed.step + 1;
  const auto evaluates_after = [&](std::int64_t step) {
    return evaluated && (step % run.evaluation.every == 0 || step == run.training.steps);
  };
  const auto saves_after = [&](std::int64_t step) {
    return run.checkpoint.every > 0 && step % run.checkpoint.every == 0;
  };
  double last_end = begin;  // of the step before, less what was done between the steps
  const auto between_steps = [&](auto work) {
    const double start = now_seconds();
    work();
    last_end += now_seconds() - start;
  };
  bool is_followed = false;  // the last step that was begun: one more is begun in any case
  // The first of the steps under way ends.
  const auto finish_step = [&] {
    const std::int64_t step = session.progress().step - static_cast<std::int64_t>(session.under_way()) + 1;
    auto report = session.finish_step();
    report.tokens *= static_cast<double>(replicas.num_present());
    const double seconds = now_seconds() - last_end;
    last_end += seconds;
    if (options.log) options.log->held(report.at_peak.total());
    if (step == first) {
      start_timer.end("first step");
      first_step.end();
    }
    const bool is_last = step == run.training.steps;
    replicas.after_step(step, is_last || saves_after(step) || evaluates_after(step));
    for (MovedAlong& moved : replicas.take_moved()) report.moved.along.push_back(std::move(moved));
    tally.add(report, seconds);
    skipped.add({.step = step,
                 .taken = report.taken,
                 .loss = report.loss,
                 .gradient_norm = report.gradient_norm,
                 .loss_scale = report.loss_scale});
    if (skipped.has_spoilt_weights()) {
      if (is_followed) session.begin_step();
      while (session.under_way() > 0) session.finish_step();
      saver.wait();  // what is being saved is the last state that is good
      throw skipped.spoilt_error(saver.newest_text());
    }
    tracer.add(step, report.times);
    const auto begun = static_cast<std::int64_t>(session.under_way()) * session.training().global_batch;
    auto told =
        facts.of(step, report, seconds, tally, static_cast<double>(replicas.num_present()),
                 (static_cast<std::int64_t>(session.progress().next_sample) - begun) * replicas.count());
    told.expert_loads = session.expert_loads();
    if (evaluates_after(step))
      between_steps([&] { last_evaluation = told.evaluation = evaluate(session, *evaluated); });
    if (outputs) {
      const During writing(options.log, Doing::writing, step);
      outputs->add(told);
    }
    if (told.evaluation) tell(cat("evaluated after step ", step, ": ", metrics::to_text(*told.evaluation)));
    peak_bytes = std::max(peak_bytes, told.peak_bytes_of_most());
  };
  const auto finish_all = [&] {
    while (session.under_way() > 0) finish_step();
  };
  // Before the step of that number: can it be made, is the one before it to be saved, is the run to stop?
  Agreement agreement(session, replicas.are_apart() ? Agreement::Sums([&](auto values) {
                        return replicas.sums(std::move(values));
                      })
                                                    : nullptr);
  const auto consult = [&](std::int64_t step) {
    const std::int64_t to_read =
        replicas.are_apart() ? run.training.local_steps : step - session.progress().step;
    trouble = complaint_of([&] { session.read_ahead(static_cast<std::size_t>(to_read)); });
    // The others continue without it.
    if (!trouble.empty() && replicas.may_be_lost()) throw UserError(trouble);
    agreement.ask({.stop_signal = options.stop ? options.stop->signal() : 0,
                   .save = saver.wants_to_save(step - 1),
                   .end = !trouble.empty()});
  };
  // Where steps overlap, an answer is asked for a step ahead: nobody waits for it. Where a step's first
  // forwards run in the one before, two steps ahead: that one must know whether it is followed.
  const bool overlaps = tables.steps_overlap;
  const std::size_t must_know = session.runs_ahead() ? 2 : 1;
  std::deque<Wishes> known;        // of the next steps
  std::int64_t asked = first - 1;  // of which step last
  for (std::int64_t step = first; step <= run.training.steps; ++step) {
    if (!overlaps) last_end = now_seconds();
    // Replicas that are apart go on until they meet.
    const bool meet = !replicas.are_apart() || step == first || replicas.meet_after(step - 1);
    if (!meet) asked = step, known.push_back({});
    if (asked < step) consult(++asked);
    const auto learn = [&] {
      for (std::int64_t of = step + std::ssize(known); known.size() < must_know && of <= run.training.steps;
           ++of) {
        if (asked < of) consult(++asked);
        known.push_back(agreement.answer());
        for (const std::string& news : replicas.take_news()) tell(cat(news, " from step ", of, " on"));
      }
    };
    if (overlaps)
      learn();
    else
      between_steps(learn);
    const Wishes wishes = known.front();
    known.pop_front();
    must_end = wishes.end;
    if (replicas.meet_after(step - 1)) replicas.exchange(step - 1, wishes != Wishes());
    if (must_end) break;
    if (wishes.save || wishes.stop_signal != 0) finish_all();
    if (wishes.save) between_steps([&] { saver.save(step - 1); });
    if (wishes.stop_signal != 0) {
      if (options.stop) options.stop->take_over(wishes.stop_signal, now_seconds());
      break;
    }
    if (overlaps && asked < run.training.steps) consult(++asked);
    const bool measures = step == first && run.cluster.peak_tflops == 0;
    const bool is_looked_at = evaluates_after(step) || saves_after(step) || measures;
    is_followed = must_know > 1 && !known.empty() && known.front() == Wishes() && !is_looked_at &&
                  !skipped.are_too_many();
    session.begin_step(is_followed);
    if (session.is_full()) finish_step();
    if (is_looked_at) finish_all();
    between_steps([&] {
      // On all ranks at once, as they compute at once; after the first step, so that it comes no later.
      if (measures) {
        const During measuring(options.log, Doing::writing, step);
        facts.set_peak(ranks *
                       tensor::measured_flops_per_second(shard::to_torch(tables.buckets.front().compute),
                                                         kPeakSeconds, session.device()));
      }
      saver.after_step(step);
    });
    if (skipped.are_too_many() && !is_followed) break;
  }
  finish_all();
  for (const std::string& news : replicas.take_news()) tell(cat(news, " at the end"));
  saver.finish(session.progress().step);
  auto summary = tally.summary(tables, communicator.size(), now_seconds() - begin);
  summary.start = start_timer;
  summary.evaluation = last_evaluation;
  summary.resumed_after = resumed.step;
  summary.peak_bytes = peak_bytes;
  {
    const During closing(options.log, Doing::closing);
    if (outputs) summary.incomplete = outputs->finish();
  }
  for (const std::string& lack : tracer.write(communicator, options.log)) {
    tell("warning: " + lack);
    summary.incomplete.push_back(lack);
  }
  {
    const During closing(options.log, Doing::closing);
    outputs.reset();
  }
  const std::string newest = saver.newest_text();
  if (skipped.are_too_many()) throw skipped.error(newest);
  if (!trouble.empty()) throw UserError(cat(trouble, " ", newest));
  if (must_end) throw PeerLost(cat("another rank could not read its next samples. ", newest));
  saver.expect_saved(session.progress().step);
  return summary;
}

}  // namespace tessera::train
