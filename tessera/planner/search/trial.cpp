#include "tessera/planner/search/trial.hpp"

#include <algorithm>

#include "tessera/families/families.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/memory/memory.hpp"
#include "tessera/planner/search/rates_for.hpp"
#include "tessera/simulate/report.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera::planner {
namespace {

// The run with that number of micro-batches.
spec::Run of_micro_batches(spec::Run run, std::int64_t count) {
  run.training.global_batch = count * run.layout.dp() * run.layout.micro_batch;
  run.layout.micro_batches_by_rank.clear();
  return run;
}

std::uint64_t num_ops(const program::Program& program) {
  std::uint64_t out = 0;
  for (const program::Sequence& sequence : program.classes) out += sequence.ops.size();
  return out;
}

// A step with more micro-batches than were simulated: two simulations, continued as a line.
void continue_to(const Sample& sample, const Refined& first, Refined& out) {
  const double times =
      static_cast<double>(sample.all - sample.more) / static_cast<double>(sample.more - sample.few);
  const double second = out.seconds;
  out.seconds += times * (second - first.seconds);
  for (std::size_t i = 0; i < out.parts.size(); ++i)
    out.parts[i].seconds += times * (out.parts[i].seconds - first.parts[i].seconds);
  out.bubble *= second / out.seconds, out.exposed *= second / out.seconds;
}

}  // namespace

double Refined::most_bytes() const { return *std::ranges::max_element(peak_bytes); }

Sample::Sample(const spec::Run& run)
    : all(run.num_micro_batches()),
      few(std::max<std::int64_t>(3 * run.layout.pp, 4)),
      more(few + run.layout.pp) {
  if (all <= more) few = more = all;
}

Trial::Trial(const spec::Run& run, const Candidate& candidate, const Cluster& cluster,
             const Constants& constants)
    : cluster_(cluster), constants_(constants), sample_(run) {
  out_.run = run, out_.candidate = candidate;
  program_ = plan::compile_unchecked(families::step_request(of(sample_.few)));
}

std::uint64_t Trial::ops() const { return ops_ + num_ops(program_); }

double Trial::least_bytes() const { return static_cast<double>(plan::peak_bytes(program_)); }

double Trial::simulate_few() {
  simulate_one(first_);
  return first_.seconds;
}

double Trial::simulate_all() {
  if (sample_.is_whole()) {
    take(first_);
  } else {
    ops_ += num_ops(program_);
    program_ = plan::compile_unchecked(families::step_request(of(sample_.more)));
    Refined second;
    simulate_one(second);
    take(second);
    continue_to(sample_, first_, out_);
  }
  const double fixed = out_.candidate.estimate.fixed;
  out_.seconds += fixed;
  out_.parts.push_back({"time that depends on nothing", fixed});
  return out_.seconds;
}

double Trial::hold() {
  const plan::DevicePlan device = plan::device_plan(out_.run.cluster.transport, program_);
  out_.peak_bytes.clear();
  for (const plan::RankMemory& rank : plan::memory_of(program_, device))
    out_.peak_bytes.push_back(static_cast<double>(rank.peak_bytes));
  return out_.most_bytes();
}

spec::Run Trial::of(std::int64_t micro_batches) const {
  return micro_batches == sample_.all ? out_.run : of_micro_batches(out_.run, micro_batches);
}

void Trial::simulate_one(Refined& to) const {
  const simulate::Rates rates = rates_for(out_.candidate, cluster_, constants_, program_.tables);
  const simulate::OpCosts costs = simulate::costs_at(rates, program_);
  const simulate::Timeline timeline = simulate::simulate(program_, costs);
  const simulate::Report report = simulate::report(program_, timeline);
  double busy = 0, ranks = 0;
  for (const auto& of_class : report.classes) {
    busy += of_class.busy * static_cast<double>(of_class.num_ranks);
    ranks += static_cast<double>(of_class.num_ranks);
  }
  to.seconds = report.step_seconds, to.bubble = report.bubble;
  to.exposed = std::max(0.0, 1 - busy / ranks * report.makespan / report.step_seconds);
  to.parts = parts_of(program_, costs, timeline, report.step_seconds);
}

void Trial::take(const Refined& from) {
  out_.seconds = from.seconds, out_.bubble = from.bubble, out_.exposed = from.exposed,
  out_.parts = from.parts;
}

}  // namespace tessera::planner
