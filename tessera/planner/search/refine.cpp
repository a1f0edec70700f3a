#include "tessera/planner/search/refine.hpp"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>

#include "tessera/planner/search/bound.hpp"
#include "tessera/planner/search/deal.hpp"
#include "tessera/planner/search/trial.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::planner {
namespace {

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
    out_.ran_out = candidates_.size() == limits_.keep;
    for (const Candidate& candidate : candidates_) {
      if (is_over(candidate)) {
        out_.ran_out = false;
        break;
      }
      if (!is_wanted(candidate)) continue;
      spec::Run one = run_;
      one.layout = candidate.layout;
      one.cluster.devices = 0;
      if (!spec::problems(one, spec::any_build()).empty()) continue;
      ++out_.simulated;
      try_one(one, candidate);
      if (progress_) progress_(out_.simulated, best_, candidate.least_seconds);
    }
    if (out_.ran_out && !out_.fitting.empty())
      out_.gap = std::max(0.0, 1 - candidates_.back().least_seconds / best_);
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
