#include "tessera/train/loop.hpp"

#include <cstdio>
#include <deque>
#include <filesystem>
#include <optional>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/statistics.hpp"
#include "tessera/metrics/json_lines.hpp"
#include "tessera/metrics/step_line.hpp"
#include "tessera/metrics/trace.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/program/text.hpp"
#include "tessera/train/session.hpp"

namespace tessera::train {

namespace {

void print_line(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

std::string headline(const spec::Run& run, const Session& session) {
  const auto& layout = run.layout;
  return cat(count_text(static_cast<double>(plan::num_parameters(session.program().tables))), " parameters, ",
             layout.ranks(), " rank(s): dp ", layout.dp(), ", ", session.program().tables.num_micro,
             " micro-batch(es) of ", layout.micro_batch, " x ", run.model.sequence, " tokens, ",
             run.training.steps, " steps");
}

std::string row_of(const program::Lane& lane, const program::Tables& tables) {
  switch (lane.kind) {
    case program::LaneKind::compute:
      return "compute";
    case program::LaneKind::copy:
      return "copy";
    case program::LaneKind::communication:
      return cat("communication ", tables.axis_sets[static_cast<std::size_t>(lane.axes)].name,
                 lane.direction ? " down" : "");
  }
  throw Bug("a lane outside its kinds");
}

// Events of one rank, kept until the end of the run.
class Tracer {
 public:
  // An empty path traces nothing; one that can't be written is told before the first step.
  Tracer(const Session& session, const collective::Communicator& communicator, const std::string& path)
      : path_(path),
        program_(session.program()),
        sequence_(program_.classes.at(
            program_.tables.class_of_rank.at(static_cast<std::size_t>(communicator.rank())))),
        rank_(communicator.rank()) {
    if (!path_.empty()) metrics::write_trace(part(rank_), events_);
  }

  void add(std::int64_t step, const std::vector<engine::OpTime>& times) {
    if (path_.empty()) return;
    for (const auto& time : times) {
      const auto& op = sequence_.ops[time.op];
      events_.push_back({program::word(op, program_.tables),
                         rank_,
                         row_of(op.lane, program_.tables),
                         time.start_seconds,
                         time.end_seconds - time.start_seconds,
                         {{"step", step}}});
    }
  }

  // One file for all ranks: each writes its part beside it, rank 0 joins them.
  void write(const collective::Group& world) {
    if (path_.empty()) return;
    if (rank_ != 0) metrics::write_trace(part(rank_), events_);
    world.barrier();
    if (rank_ != 0) return;
    for (std::int64_t rank = 1; rank < world.size(); ++rank) {
      const auto more = metrics::read_trace(part(rank));
      events_.insert(events_.end(), more.begin(), more.end());
      std::filesystem::remove(part(rank));
    }
    metrics::write_trace(path_, events_);
  }

 private:
  std::string part(std::int64_t rank) const { return rank == 0 ? path_ : cat(path_, ".rank", rank); }

  std::string path_;
  const program::Program& program_;
  const program::Sequence& sequence_;
  std::int64_t rank_;
  std::vector<metrics::Event> events_;
};

std::optional<metrics::JsonLines> open_records(const std::string& folder) {
  if (folder.empty()) return std::nullopt;
  const auto path = std::filesystem::path(folder) / "metrics.jsonl";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) std::filesystem::remove(path, error);
  if (error)
    throw UserError(
        cat("cannot write to --out ", folder, ": ", error.message(), ". Name a folder you may write to."));
  return std::optional<metrics::JsonLines>(std::in_place, path.string());
}

// What the steps so far add up to.
class Tally {
 public:
  void add(std::int64_t step, const engine::StepReport& report, double seconds) {
    if (step == 1) summary_.first_loss = report.loss;
    // The first step pays for pages and caches; it counts only when there is no other.
    if (step == 2) step_seconds_.clear(), token_rates_.clear();
    step_seconds_.push_back(seconds);
    token_rates_.push_back(report.tokens / seconds);
    losses_.push_back(report.loss);
    summary_.steps_not_taken += report.taken ? 0 : 1;
  }

  Summary summary(const Session& session, std::int64_t ranks, double seconds) const {
    Summary out = summary_;
    out.steps = static_cast<std::int64_t>(losses_.size());
    out.parameters = plan::num_parameters(session.program().tables);
    out.ranks = ranks;
    out.seconds = seconds;
    out.step_seconds = median(step_seconds_);
    out.tokens_per_second = median(token_rates_);
    out.last_loss = losses_.back();
    const std::size_t last = std::min<std::size_t>(10, losses_.size());
    for (std::size_t i = losses_.size() - last; i < losses_.size(); ++i)
      out.mean_loss_of_last_ten += losses_[i] / static_cast<double>(last);
    return out;
  }

 private:
  Summary summary_;
  std::vector<double> step_seconds_, token_rates_, losses_;
};

}  // namespace

Summary train(const spec::Run& run, const collective::Communicator& communicator,
              const LoopOptions& options) {
  Session session(run, communicator, corpus_source(run));
  const std::int64_t steps = run.training.steps;
  const bool tells = communicator.rank() == 0;
  auto records = tells ? open_records(options.folder) : std::nullopt;
  Tracer tracer(session, communicator, options.trace);
  if (tells && options.lines) print_line(headline(run, session));

  Tally tally;
  const double begin = now_seconds();
  for (std::int64_t step = 1; step <= steps; ++step) {
    const double start = now_seconds();
    const auto report = session.step();
    const double end = now_seconds(), seconds = end - start, rate = report.tokens / seconds;
    tally.add(step, report, seconds);
    tracer.add(step, report.times);
    if (tells && options.lines)
      print_line(metrics::step_line(
          {.step = step,
           .steps = steps,
           .loss = report.loss,
           .tokens_per_second = rate,
           .grad_norm = report.gradient_norm,
           .learning_rate = session.learning_rate(),
           .step_seconds = seconds,
           .left_seconds = (end - begin) / static_cast<double>(step) * static_cast<double>(steps - step),
           .taken = report.taken}));
    if (records)
      records->write(metrics::Record{{"step", step},
                                     {"loss", report.loss},
                                     {"gradient_norm", report.gradient_norm},
                                     {"learning_rate", session.learning_rate()},
                                     {"tokens", report.tokens},
                                     {"tokens_per_second", rate},
                                     {"step_seconds", seconds},
                                     {"taken", report.taken}});
  }
  const auto summary = tally.summary(session, communicator.size(), now_seconds() - begin);
  tracer.write(session.data_group());
  return summary;
}

}  // namespace tessera::train
