#include "tessera/planner/search/refine.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "tessera/plan/compile.hpp"
#include "tessera/plan/memory/memory.hpp"
#include "tessera/planner/search/bound.hpp"
#include "tessera/planner/search/deal.hpp"
#include "tessera/simulate/report.hpp"
#include "tessera/simulate/simulate.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::planner {
namespace {

// The run with so many micro-batches.
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

// Micro-batches that are simulated: few, and a few more; few alone where a step has no more than both.
struct Sample {
  std::int64_t all, few, more;
  explicit Sample(const spec::Run& run)
      : all(run.num_micro_batches()),
        few(std::max<std::int64_t>(3 * run.layout.pp, 4)),
        more(few + run.layout.pp) {
    if (all <= more) few = more = all;
  }
  bool is_whole() const { return few == all; }
};

// Of a step with more micro-batches than were simulated: two simulations, continued as a line.
void continue_to(const Sample& sample, const Refined& first, Refined& out) {
  const double times =
      static_cast<double>(sample.all - sample.more) / static_cast<double>(sample.more - sample.few);
  const double second = out.seconds;
  out.seconds += times * (second - first.seconds);
  for (std::size_t i = 0; i < out.parts.size(); ++i)
    out.parts[i].seconds += times * (out.parts[i].seconds - first.parts[i].seconds);
  out.bubble *= second / out.seconds, out.exposed *= second / out.seconds;
}

// Compiles one layout and simulates its step.
class Trial {
 public:
  Trial(const spec::Run& run, const Candidate& candidate, const Cluster& cluster, const Constants& constants)
      : cluster_(cluster), constants_(constants), sample_(run) {
    out_.run = run, out_.candidate = candidate;
    program_ = plan::compile_unchecked(of(sample_.few));
  }

  const Sample& sample() const { return sample_; }
  std::uint64_t ops() const { return ops_ + num_ops(program_); }
  // Without slots: not all that it will hold.
  double least_bytes() const { return static_cast<double>(plan::peak_bytes(program_)); }

  // Seconds of few micro-batches.
  double simulate_few() {
    simulate_one(first_);
    return first_.seconds;
  }
  // The whole step, after few.
  double simulate_all() {
    if (sample_.is_whole()) {
      take(first_);
    } else {
      ops_ += num_ops(program_);
      program_ = plan::compile_unchecked(of(sample_.more));
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
  double hold() {
    const plan::DevicePlan device = plan::device_plan(out_.run, program_);
    out_.peak_bytes.clear();
    for (const plan::RankMemory& rank : plan::memory_of(program_, device))
      out_.peak_bytes.push_back(static_cast<double>(rank.peak_bytes));
    return out_.most_bytes();
  }
  Refined take_out() { return std::move(out_); }

 private:
  spec::Run of(std::int64_t micro_batches) const {
    return micro_batches == sample_.all ? out_.run : of_micro_batches(out_.run, micro_batches);
  }

  void simulate_one(Refined& to) const {
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

  void take(const Refined& from) {
    out_.seconds = from.seconds, out_.bubble = from.bubble, out_.exposed = from.exposed,
    out_.parts = from.parts;
  }

  const Cluster& cluster_;
  const Constants& constants_;
  const Sample sample_;
  program::Program program_;
  Refined first_, out_;
  std::uint64_t ops_ = 0;
};

// By a fitted profile, whose error was measured, the closed form and what runs like it were off; or of
// unequal devices, which the simulator takes for equal.
void price_by_form(Refined& refined, const Cluster& cluster, const Fit& fit) {
  refined.seconds = fit.predict(measured_run(refined.candidate, cluster)).seconds;
  refined.parts = parts_of(refined.candidate.estimate, refined.seconds);
}

class BestFirst {
 public:
  BestFirst(const spec::Run& run, const Found& found, const Cluster& cluster, const Limits& limits,
            const Fit& fit, const Effort& effort, const Progress& progress)
      : run_(run),
        cluster_(cluster),
        limits_(limits),
        fit_(fit),
        effort_(effort),
        progress_(progress),
        bound_(run_, cluster, fit.constants()),
        candidates_(found.fitting) {
    if (!limits.by_form) return;
    for (Candidate& candidate : candidates_)
      candidate.least_seconds = fit.predict(measured_run(candidate, cluster)).seconds;
    std::ranges::sort(candidates_, {}, &Candidate::least_seconds);
  }

  Outcome all() {
    for (const Candidate& candidate : candidates_) {
      if (is_over(candidate)) break;
      if (!is_wanted(candidate)) continue;
      spec::Run one = run_;
      one.layout = candidate.layout;
      one.cluster.devices = 0;
      if (!spec::problems(one, spec::any_build()).empty()) continue;
      ++out_.simulated;
      try_one(one, candidate);
      if (progress_) progress_(out_.simulated, best_, candidate.least_seconds);
    }
    std::ranges::sort(out_.fitting, {}, &Refined::seconds);
    return std::move(out_);
  }

 private:
  static constexpr std::size_t kAlternatives = 8;
  static constexpr std::int64_t kMostForAlternatives = 40;

  using Mesh = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  static Mesh mesh_of(const spec::Layout& l) { return {l.pp, l.tp, l.cp, l.ep, l.micro_batch}; }

  bool needs_more() const { return static_cast<std::size_t>(out_.simulated) < effort_.least; }
  bool needs_alternatives() const {
    return meshes_.size() < kAlternatives && out_.simulated < kMostForAlternatives;
  }

  bool is_over(const Candidate& next) {
    if (needs_more()) return false;
    const bool is_spent = effort_.most_ops > 0 && ops_ > effort_.most_ops;
    if (next.least_seconds >= best_) return is_spent || !needs_alternatives();
    if (is_spent && !out_.fitting.empty()) out_.gap = 1 - next.least_seconds / best_;
    return out_.gap > 0;
  }

  // What can't be the best is simulated if its mesh is a new one.
  bool is_wanted(const Candidate& next) const {
    return needs_more() || next.least_seconds < best_ || !meshes_.contains(mesh_of(next.layout));
  }

  void try_one(const spec::Run& one, const Candidate& candidate) {
    Trial trial(one, candidate, cluster_, fit_.constants());
    const bool is_new = needs_more() || (needs_alternatives() && !meshes_.contains(mesh_of(one.layout)));
    if (trial.least_bytes() > limits_.memory_bytes) return spend(trial);
    const double few = trial.simulate_few();
    if (!is_new && !limits_.by_form && few + rest(candidate, trial.sample()) >= best_) return spend(trial);
    trial.simulate_all();
    spend(trial);
    if (trial.hold() > limits_.memory_bytes) return;
    Refined refined = trial.take_out();
    if (limits_.by_form) price_by_form(refined, cluster_, fit_);
    best_ = std::min(best_, refined.seconds);
    meshes_.insert(mesh_of(one.layout));
    out_.fitting.push_back(std::move(refined));
  }

  void spend(const Trial& trial) { ops_ += trial.ops(); }

  // At least, of the micro-batches that are not simulated.
  double rest(const Candidate& candidate, const Sample& sample) {
    if (sample.is_whole()) return candidate.estimate.fixed;
    Candidate few = candidate;
    few.work.global_batch = static_cast<double>(sample.few) * few.work.dp * few.work.micro_batch;
    return candidate.least_seconds - bound_.seconds(few) + candidate.estimate.fixed;
  }

  const spec::Run& run_;
  const Cluster& cluster_;
  const Limits& limits_;
  const Fit& fit_;
  const Effort effort_;
  const Progress& progress_;
  Bound bound_;
  std::vector<Candidate> candidates_;
  std::set<Mesh> meshes_;  // of what fits
  double best_ = std::numeric_limits<double>::infinity();
  std::uint64_t ops_ = 0;
  Outcome out_;
};

}  // namespace

double Refined::most_bytes() const { return *std::ranges::max_element(peak_bytes); }

MeasuredRun measured_run(const Candidate& candidate, const Cluster& cluster) {
  MeasuredRun out;
  out.work = candidate.work, out.device = cluster.slowest().device, out.network = cluster.network;
  return out;
}

Refined refine_one(const spec::Run& run, const Cluster& cluster, const Fit& fit) {
  const Candidate candidate = candidate_of(run, cluster.slowest().device, cluster.network, fit.constants(),
                                           speeds_of(cluster, run, fit.constants()));
  Trial trial(run, candidate, cluster, fit.constants());
  trial.simulate_few();
  trial.simulate_all();
  trial.hold();
  Refined out = trial.take_out();
  if (is_by_form(cluster, fit)) price_by_form(out, cluster, fit);
  return out;
}

bool is_by_form(const Cluster& cluster, const Fit& fit) { return cluster.is_uneven() || !fit.runs().empty(); }

Outcome best_first(const spec::Run& run, const Found& found, const Cluster& cluster, const Limits& limits,
                   const Fit& fit, const Effort& effort, const Progress& progress) {
  return BestFirst(run, found, cluster, limits, fit, effort, progress).all();
}

}  // namespace tessera::planner
