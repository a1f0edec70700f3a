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
  Tracer(const Session& session, const collective::Communicator& communicator)
      : program_(session.program()),
        sequence_(program_.classes.at(
            program_.tables.class_of_rank.at(static_cast<std::size_t>(communicator.rank())))),
        rank_(communicator.rank()) {}

  void add(std::int64_t step, const std::vector<engine::OpTime>& times) {
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
  void write(const std::string& path, const collective::Group& world) {
    const auto part = [&](int rank) { return cat(path, ".rank", rank); };
    if (rank_ != 0) metrics::write_trace(part(static_cast<int>(rank_)), events_);
    world.barrier();
    if (rank_ != 0) return;
    for (int rank = 1; rank < world.size(); ++rank) {
      const auto more = metrics::read_trace(part(rank));
      events_.insert(events_.end(), more.begin(), more.end());
      std::filesystem::remove(part(rank));
    }
    metrics::write_trace(path, events_);
  }

 private:
  const program::Program& program_;
  const program::Sequence& sequence_;
  std::int64_t rank_;
  std::vector<metrics::Event> events_;
};

}  // namespace

Summary train(const spec::Run& run, const collective::Communicator& communicator,
              const LoopOptions& options) {
  Session session(run, communicator, corpus_source(run));
  Tracer tracer(session, communicator);
  const bool tells = communicator.rank() == 0;
  std::optional<metrics::JsonLines> records;
  if (tells && !options.folder.empty()) {
    std::filesystem::create_directories(options.folder);
    const auto path = (std::filesystem::path(options.folder) / "metrics.jsonl").string();
    std::filesystem::remove(path);
    records.emplace(path);
  }
  if (tells && options.lines) print_line(headline(run, session));

  Summary summary{.steps = run.training.steps,
                  .parameters = plan::num_parameters(session.program().tables),
                  .ranks = communicator.size()};
  std::vector<double> step_seconds, token_rates;
  std::deque<double> last_losses;
  const double begin = now_seconds();
  for (std::int64_t step = 1; step <= run.training.steps; ++step) {
    const double start = now_seconds();
    const auto report = session.step();
    const double seconds = now_seconds() - start;
    const double rate = report.tokens / seconds;
    if (step > 1 || run.training.steps == 1) step_seconds.push_back(seconds), token_rates.push_back(rate);
    if (step == 1) summary.first_loss = report.loss;
    summary.last_loss = report.loss;
    last_losses.push_back(report.loss);
    if (last_losses.size() > 10) last_losses.pop_front();
    summary.steps_not_taken += report.taken ? 0 : 1;
    if (!options.trace.empty()) tracer.add(step, report.times);
    const double left =
        (now_seconds() - begin) / static_cast<double>(step) * static_cast<double>(run.training.steps - step);
    if (tells && options.lines)
      print_line(metrics::step_line({.step = step,
                                     .steps = run.training.steps,
                                     .loss = report.loss,
                                     .tokens_per_second = rate,
                                     .grad_norm = report.gradient_norm,
                                     .learning_rate = session.learning_rate(),
                                     .step_seconds = seconds,
                                     .left_seconds = left,
                                     .taken = report.taken}));
    if (records)
      records->write(std::vector<metrics::Field>{{"step", step},
                                                 {"loss", report.loss},
                                                 {"gradient_norm", report.gradient_norm},
                                                 {"learning_rate", session.learning_rate()},
                                                 {"tokens", report.tokens},
                                                 {"tokens_per_second", rate},
                                                 {"step_seconds", seconds},
                                                 {"taken", static_cast<std::int64_t>(report.taken)}});
  }
  summary.seconds = now_seconds() - begin;
  summary.step_seconds = median(step_seconds);
  summary.tokens_per_second = median(token_rates);
  for (const double loss : last_losses)
    summary.mean_loss_of_last_ten += loss / static_cast<double>(last_losses.size());
  if (!options.trace.empty()) tracer.write(options.trace, session.data_group());
  return summary;
}

}  // namespace tessera::train
