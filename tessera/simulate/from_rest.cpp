#include "tessera/simulate/from_rest.hpp"

#include <algorithm>
#include <queue>
#include <tuple>

#include "tessera/base/error.hpp"
#include "tessera/program/check/advance.hpp"
#include "tessera/simulate/links.hpp"

namespace tessera::simulate {
namespace {

using program::Advance;
using program::Partners;
using program::Phase;

Partners partners_of(const program::Program& program) {
  std::vector<program::Problem> problems;
  Partners partners = program::find_partners(program, problems);
  TESSERA_CHECK(problems.empty(), "a program that can't be simulated:\n", program::to_text(problems));
  return partners;
}

class Simulation {
 public:
  Simulation(const program::Program& program, const OpCosts& costs)
      : program_(program),
        costs_(costs),
        partners_(partners_of(program)),
        walk_(program, partners_),
        links_(program.tables, program.classes.size()) {
    for (const auto& cost : costs.costs) seconds_.push_back(total_seconds(cost));
    for (const auto& sequence : program.classes) out_.classes.emplace_back(sequence.ops.size());
  }

  Timeline run(Queues queues) {
    walk_.restart({.rendezvous = true, .one_queue = queues == Queues::one_per_device});
    for (;;) {
      for (std::uint32_t op = walk_.next(); op != Advance::kNone; op = walk_.next()) start(op);
      if (events_.empty()) break;
      const Event event = events_.top();
      events_.pop();
      if (event.version != runs_[event.run].version) continue;  // its link was shared anew since
      now_ = event.seconds;
      end_phase(event.run);
    }
    TESSERA_CHECK(walk_.num_left() == 0, walk_.num_left(), " ops never run: the program gets stuck");
    out_.makespan = makespan();
    return std::move(out_);
  }

 private:
  // An op under way, or several that happen together.
  struct Run {
    std::uint32_t op = 0, cost = 0, phase = 0;
    std::uint32_t version = 0;  // of its event; older ones are void
    double left = 0;            // seconds of the phase at full speed, as of `told`
    double told = 0, speed = 1;
    std::vector<std::uint32_t> links;
  };
  struct Event {
    double seconds;
    std::uint64_t number;  // events of one time come in the order in which they were made
    std::uint32_t run, version;
    bool operator<(const Event& other) const {
      return std::tie(seconds, number) > std::tie(other.seconds, other.number);
    }
  };

  template <typename Act>
  void for_members(std::uint32_t op, Act act) const {
    const std::uint32_t meeting = partners_.meeting[op];
    if (meeting == Partners::kAlone) return act(walk_.place(op));
    for (const std::uint32_t member : partners_.members_of(meeting)) act(walk_.place(member));
  }

  void start(std::uint32_t op) {
    std::uint32_t longest = 0;
    double seconds = -1;
    for_members(op, [&](program::Place place) {
      const std::uint32_t cost = costs_.of_op[place.rank_class][place.op];
      if (seconds_[cost] > seconds) longest = cost, seconds = seconds_[cost];
      out_.classes[place.rank_class][place.op].start = now_;
    });
    if (seconds <= 0) return finish(op);
    if (idle_.empty()) {
      idle_.push_back(static_cast<std::uint32_t>(runs_.size()));
      runs_.emplace_back();
    }
    const std::uint32_t at = idle_.back();
    idle_.pop_back();
    runs_[at].op = op;
    runs_[at].cost = longest;
    runs_[at].phase = 0;
    start_phase(at);
  }

  void finish(std::uint32_t op) {
    for_members(op, [&](program::Place place) { out_.classes[place.rank_class][place.op].end = now_; });
    walk_.end(op);
  }

  void start_phase(std::uint32_t at) {
    Run& run = runs_[at];
    const auto& phases = costs_.costs[run.cost].phases;
    while (run.phase < phases.size() && phases[run.phase].seconds <= 0) ++run.phase;
    if (run.phase == phases.size()) {
      idle_.push_back(at);
      return finish(run.op);
    }
    run.left = phases[run.phase].seconds;
    run.told = now_;
    run.speed = 1;
    if (phases[run.phase].axes < 0) return tell_end(at);
    take_links(run, phases[run.phase].axes);
    run.speed = 0;  // not going yet: `share` sets it off
    for (const std::uint32_t link : run.links) links_.enter(link, at);
    for (const std::uint32_t link : run.links) share(link);
  }

  void end_phase(std::uint32_t at) {
    Run& run = runs_[at];
    for (const std::uint32_t link : run.links) links_.leave(link, at);
    for (const std::uint32_t link : run.links) share(link);
    run.links.clear();
    ++run.phase;
    start_phase(at);
  }

  void take_links(Run& run, std::int16_t axes) const {
    const std::uint32_t meeting = partners_.meeting[run.op];
    const bool is_transfer = meeting != Partners::kAlone && partners_.is_transfer[meeting];
    bool is_out = true;
    for_members(run.op, [&](program::Place place) {
      if (!is_transfer || is_out) run.links.push_back(links_.out(place.rank_class, axes));
      if (!is_transfer || !is_out) run.links.push_back(links_.in(place.rank_class, axes));
      is_out = false;
    });
  }

  // The users of a link have changed: their speeds, and when they end.
  void share(std::uint32_t link) {
    for (const std::uint32_t at : links_.users(link)) {
      Run& run = runs_[at];
      std::size_t most = 1;
      for (const std::uint32_t other : run.links) most = std::max(most, links_.users(other).size());
      const double speed = 1.0 / static_cast<double>(most);
      if (speed == run.speed) continue;
      run.left -= (now_ - run.told) * run.speed;
      run.told = now_;
      run.speed = speed;
      tell_end(at);
    }
  }

  void tell_end(std::uint32_t at) {
    Run& run = runs_[at];
    events_.push({now_ + std::max(run.left, 0.0) / run.speed, num_events_++, at, ++run.version});
  }

  double makespan() const {
    double last = 0;
    for (std::size_t c = 0; c < program_.classes.size(); ++c) {
      const auto& ops = program_.classes[c].ops;
      for (std::size_t at = 0; at < ops.size(); ++at)
        if (program::is_compute(ops[at].what)) last = std::max(last, out_.classes[c][at].end);
    }
    return last;
  }

  const program::Program& program_;
  const OpCosts& costs_;
  std::vector<double> seconds_;  // per cost
  const Partners partners_;
  Advance walk_;
  Links links_;
  Timeline out_;
  double now_ = 0;
  std::vector<Run> runs_;
  std::vector<std::uint32_t> idle_;  // of `runs_`
  std::priority_queue<Event> events_;
  std::uint64_t num_events_ = 0;
};

}  // namespace

Timeline from_rest(const program::Program& program, const OpCosts& costs, Queues queues) {
  return Simulation(program, costs).run(queues);
}

}  // namespace tessera::simulate
