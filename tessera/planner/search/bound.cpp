#include "tessera/planner/search/bound.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "tessera/base/text.hpp"
#include "tessera/families/families.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/stages/cuts.hpp"
#include "tessera/plan/stages/staging.hpp"
#include "tessera/planner/search/rates_for.hpp"
#include "tessera/planner/search/step_bound.hpp"
#include "tessera/program/schedule/balance_stages.hpp"
#include "tessera/program/schedule/registry.hpp"
#include "tessera/program/schedule/schedules.hpp"

namespace tessera::planner {
namespace {

using program::OpKind;

// What the tables depend on.
std::string key_of(const spec::Layout& l, bool with_data) {
  std::string out =
      cat(l.tp, " ", static_cast<int>(l.tp_kind), " ", l.cp, " ", l.cp_heads, " ", l.ep, " ", l.etp, " ",
          l.micro_batch, " ", static_cast<int>(l.recompute), " ", l.tp_overlap, l.ep_overlap);
  if (with_data) out += cat(" ", l.zero, " ", l.dp_replicate, " ", l.dp_shard);
  return out;
}

// What each rank holds of its stages by an order, when it holds most micro-batches and when most of them
// wait.
std::vector<Moments> moments_by(const program::Order& order) {
  std::vector<Moments> out;
  for (const auto& tasks : order.ranks) {
    Moment now, most, waits;
    double kept = 0, waiting = 0, most_kept = 0, most_waiting = 0;
    for (const program::Task& task : tasks) {
      InFlight& of_stage = now[task.stage];
      const auto add = [&](double begun, double halved) {
        of_stage.kept += begun, of_stage.waiting += halved, kept += begun, waiting += halved;
      };
      if (task.what == OpKind::forward) add(1, 0);
      if (task.what == OpKind::backward) add(-1, 0);
      if (task.what == OpKind::backward_input) add(-1, 1);
      if (task.what == OpKind::backward_weight) add(0, -1);
      if (kept > most_kept) most = now, most_kept = kept;
      if (waiting > most_waiting) waits = now, most_waiting = waiting;
    }
    out.push_back({most, waits});
  }
  return out;
}

}  // namespace

Bound::Bound(const spec::Run& run, const Cluster& cluster, const Constants& constants)
    : run_(run), cluster_(cluster), constants_(constants), small_(with_one_of_each_kind(run, unit_like_)) {}

Bound::Units Bound::described(const Candidate& candidate) {
  spec::Run run = small_;
  run.layout = candidate.layout;
  run.layout.pp = 1;
  run.layout.stages.clear(), run.layout.micro_batches_by_rank.clear();
  // Layouts that only share the state differently have one model.
  spec::Layout plain = run.layout;
  plain.recompute = spec::Recompute::none;
  const std::string key = key_of(plain, run.model.experts > 0);
  auto found = requests_.find(key);
  if (found == requests_.end()) found = requests_.emplace(key, families::step_request(run)).first;
  plan::StepRequest& request = found->second;
  request.layout = run.layout;
  request.num_micro = run.num_micro_batches();
  const program::Tables tables = plan::describe(request);
  Forwards blocks;
  for (std::size_t i = 1; i + 1 < unit_like_.size(); ++i) {
    const Forwards one = forward_of(tables.units[unit_like_[i]]);
    blocks.flops += one.flops, blocks.moved += one.moved;
  }
  const simulate::Rates rates = rates_for(candidate, cluster_, constants_, tables, blocks);
  auto seconds = unit_seconds(tables, rates);
  const auto dealing = plan::dealing_seconds(run.layout, request.model);
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i].even = dealing[i];
  Units out;
  out.seconds = std::move(seconds);
  out.bytes = unit_bytes(tables, run.layout);
  out.value_bytes = static_cast<double>(tables.values.front().bytes);
  return out;
}

const Bound::Units& Bound::units_of(const Candidate& candidate) {
  const std::string key = key_of(candidate.layout, true);
  if (const auto found = units_.find(key); found != units_.end()) return found->second;
  return units_.emplace(key, described(candidate)).first->second;
}

const std::vector<std::uint32_t>& Bound::dealt(const spec::Layout& layout, const Units& units) {
  const bool is_v = spec::entry(layout.schedule).num_virtual == 2;
  // Stages are dealt by what units take relative to each other.
  std::string key = cat(layout.pp, " ", layout.num_virtual(), is_v ? "v " : " ", layout.stages);
  for (const UnitSeconds& unit : units.seconds)
    key += cat(" ", std::lround(1e12 * unit.even / units.seconds[1].even));
  if (const auto found = dealt_.find(key); found != dealt_.end()) return found->second;
  std::vector<double> seconds;
  for (const std::size_t unit : unit_like_) seconds.push_back(units.seconds[unit].even);
  const auto ranks = static_cast<std::uint32_t>(layout.pp);
  if (const auto listed = spec::split_numbers(layout.stages); !layout.stages.empty() && listed)
    return dealt_.emplace(key, std::vector<std::uint32_t>(listed->begin(), listed->end())).first->second;
  const auto rank_of_stage =
      is_v ? program::vee(ranks) : program::looped(ranks, static_cast<std::uint32_t>(layout.num_virtual()));
  return dealt_.emplace(key, program::balance_stages(seconds, rank_of_stage)).first->second;
}

const std::vector<Moments>& Bound::moments(const Candidate& candidate) {
  const spec::Layout& layout = candidate.layout;
  const auto micros =
      static_cast<std::int32_t>(std::min(candidate.work.micro_batches(), static_cast<double>(3 * layout.pp)));
  const std::string key =
      cat(layout.pp, " ", static_cast<int>(layout.schedule), " ", layout.virtual_stages, " ", micros);
  if (const auto found = moments_.find(key); found != moments_.end()) return found->second;
  const program::Pipeline pipeline{static_cast<std::uint32_t>(layout.pp),
                                   static_cast<std::uint32_t>(layout.num_virtual()), micros};
  return moments_.emplace(key, moments_by(spec::entry(layout.schedule).order(pipeline))).first->second;
}

double Bound::bytes(const Candidate& candidate) {
  const Units& units = units_of(candidate);
  const spec::Layout& layout = candidate.layout;
  const std::vector<std::uint32_t> whole = {static_cast<std::uint32_t>(unit_like_.size())};
  const auto& counts = layout.pp > 1 ? dealt(layout, units) : whole;
  std::vector<UnitBytes> stages;
  for (std::size_t unit = 0; const std::uint32_t count : counts) {
    UnitBytes& stage = stages.emplace_back();
    for (const std::size_t end = unit + count; unit < end; ++unit) {
      const UnitBytes& one = units.bytes[unit_like_[unit]];
      stage.durable += one.durable, stage.kept += one.kept, stage.waiting += one.waiting;
      stage.running = std::max(stage.running, one.running);
      stage.gathered = std::max(stage.gathered, one.gathered * (count > 1 ? 2 : 1));
    }
  }
  static const std::vector<Moments> kAlone = {{{{0, {1, 0}}}}};
  double out = 0;
  for (const Moments& of_rank : layout.pp > 1 ? moments(candidate) : kAlone)
    for (const Moment& moment : of_rank) {
      double held = 0, running = 0;
      for (const auto& [stage, now] : moment) {
        held += stages[stage].durable + stages[stage].kept * now.kept + stages[stage].waiting * now.waiting;
        running = std::max(running, stages[stage].running + stages[stage].gathered);
      }
      out = std::max(out, held + running);
    }
  return out;
}

double Bound::even_seconds(const Candidate& candidate) {
  Candidate plain = candidate;  // whatever shares the state: few tables serve many layouts
  if (run_.model.experts == 0)
    plain.layout.zero = 0, plain.layout.dp_replicate = 1, plain.layout.dp_shard = 1;
  const StageSeconds all = stage_of(plain.layout, {units_of(plain).seconds, unit_like_});
  return candidate.work.micro_batches() * std::max(all.forward + all.backward(), all.reduced) /
         candidate.work.pp;
}

double Bound::seconds(const Candidate& candidate) {
  const Units& units = units_of(candidate);
  const spec::Layout& layout = candidate.layout;
  const std::vector<std::uint32_t> whole = {static_cast<std::uint32_t>(unit_like_.size())};
  std::vector<StageSeconds> stages;
  for (std::size_t begin = 0; const std::uint32_t count : layout.pp > 1 ? dealt(layout, units) : whole) {
    stages.push_back(stage_of(layout, {units.seconds, std::span(unit_like_).subspan(begin, count)}));
    begin += count;
  }
  const auto ranks = static_cast<double>(layout.pp);
  const simulate::Rates::Link link = link_over(ranks, candidate.work.devices / ranks, cluster_.network);
  const double hop = units.value_bytes / link.bytes + link.seconds;
  return step_bound(candidate, std::move(stages), hop) + candidate.estimate.fixed;
}

}  // namespace tessera::planner
