#include "tessera/planner/search/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "tessera/base/clock.hpp"
#include "tessera/planner/search/bound.hpp"
#include "tessera/planner/search/deal.hpp"

namespace tessera::planner {
namespace {

using spec::Recompute;
using spec::TensorKind;

// What collectives of blocks run under the computation of another micro-batch.
enum class Overlapped : std::uint8_t { none, tensor, experts };

struct ScheduleChoice {
  spec::Schedule schedule;
  std::int64_t virtual_stages;  // 0: as the schedule has it
};

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> out;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    out.push_back(d);
    if (d * d != n) out.push_back(n / d);
  }
  std::ranges::sort(out);
  return out;
}

// Of the optimizer's state on one rank.
double optimizer_bytes(const Workload& work) {
  return work.state_bytes * layer_parameters(work) * work.layers / work.pp / std::max(1.0, work.shard);
}

// Links at their best: every device of a node sends through its own card, and small messages cost no more.
Network without_loss(Network network) {
  network.half_bytes = network.bytes_per_node = network.pod_devices = 0;
  network.network_gbps = std::min(network.link_gbps, network.network_gbps * network.node_devices);
  return network;
}

// By how much the closed form without loss may be above the simulator, and the bound of memory above
// programs: more than was seen by bench/planner/bounds.cpp.
constexpr double kSlackOfForm = 0.9, kSlackOfMemory = 0.8;

class Searching {
 public:
  Searching(const spec::Run& run, const Cluster& cluster, const Limits& limits, const Constants& constants)
      : run_(run),
        model_(run.model),
        given_(run.layout),
        batch_(run.training.global_batch),
        device_(cluster.slowest().device),
        network_(cluster.network),
        limits_(limits),
        constants_(constants),
        speeds_(speeds_of(cluster, run, constants)),
        devices_(static_cast<std::int64_t>(cluster.devices())),
        node_(static_cast<std::int64_t>(cluster.network.node_devices)),
        base_(limits.pins.base(run)),
        lossless_(without_loss(cluster.network)),
        bound_(run_, cluster, constants) {
    if (speeds_.empty()) return;
    double sum = 0;
    for (const double speed : speeds_) sum += speed;
    least_share_ = static_cast<double>(speeds_.size()) / sum;
  }

  Found all() {
    const double start = now_seconds();
    for (const std::int64_t pp : sizes("pp", given_.pp, devices_))
      for (const std::int64_t tp : sizes("tp", given_.tp, devices_ / pp))
        for (const std::int64_t cp : sizes("cp", given_.cp, devices_ / pp / tp)) mesh(pp, tp, cp);
    // The most promising first: what is kept then bounds the others.
    std::ranges::sort(branches_, {}, &Branch::floor);
    for (Branch& one : branches_) branch(one);
    std::ranges::sort(found_.fitting, {}, &Candidate::least_seconds);
    if (found_.too_large && !found_.fitting.empty() &&
        found_.too_large->least_seconds >= found_.fitting.front().least_seconds)
      found_.too_large.reset();
    found_.certificate.seconds = now_seconds() - start;
    return std::move(found_);
  }

 private:
  struct Shared {
    std::int64_t ep = 1, etp = 1;
    std::int64_t ranks() const { return ep * etp; }
  };
  // What can vary once the mesh and the micro-batch are given.
  struct Choices {
    std::vector<ScheduleChoice> schedules;
    std::vector<Recompute> recomputes;
    std::vector<std::pair<std::int64_t, std::int64_t>> sharding;  // ZeRO, ranks of dp_shard
    std::vector<TensorKind> kinds;
    std::vector<Overlapped> overlaps;
    std::vector<std::string> offloads;
    std::vector<std::int64_t> cp_heads;
    std::int64_t size() const {
      return static_cast<std::int64_t>(schedules.size() * recomputes.size() * sharding.size() * kinds.size() *
                                       overlaps.size() * offloads.size() * cp_heads.size());
    }
  };

  // A mesh with its micro-batch.
  struct Branch {
    double floor = 0;  // of its closed form
    spec::Layout layout;
    Choices varied;
  };

  bool is_pinned(const char* key) const { return limits_.pins.has(key); }

  // Divisors, or the one that is pinned.
  std::vector<std::int64_t> sizes(const char* key, std::int64_t own, std::int64_t of) const {
    if (!is_pinned(key)) return divisors(of);
    return of % own == 0 ? std::vector<std::int64_t>{own} : std::vector<std::int64_t>{};
  }

  std::vector<ScheduleChoice> schedules(std::int64_t pp, std::int64_t micro_batches) const {
    if (is_pinned("schedule")) return pinned_schedule(pp);
    if (pp == 1) return {{"1f1b"_schedule, 0}};
    const std::int64_t units = model_.blocks() + 2;
    std::vector<ScheduleChoice> out = {{"1f1b"_schedule, 0}, {"zb-h1"_schedule, 0}};
    if (2 * pp <= units) out.push_back({"zb-v"_schedule, 0});
    std::set<std::int64_t> several = {2, 3, 4, 6, 8, 12};
    if (is_pinned("virtual_stages")) several.insert(given_.virtual_stages);
    for (const std::int64_t chunks : several)
      if (chunks > 1 && chunks * pp <= units && micro_batches % pp == 0)
        out.push_back({"interleaved"_schedule, chunks});
    return out;
  }

  // None if it is one that has no order of its own, or more stages than the model has units.
  std::vector<ScheduleChoice> pinned_schedule(std::int64_t pp) const {
    spec::Layout layout = base_;
    if (spec::entry(layout.schedule).traits.is_search) return {};
    if (pp > 1 && pp * layout.num_virtual() > model_.blocks() + 2) return {};
    return {{layout.schedule, layout.virtual_stages}};
  }

  Choices choices(std::int64_t pp, std::int64_t tp, std::int64_t cp, std::int64_t dp, Shared shared,
                  std::int64_t micro_batches) const {
    Choices out;
    out.schedules = schedules(pp, micro_batches);
    out.recomputes = {Recompute::none, Recompute::selective, Recompute::full};
    if (is_pinned("recompute")) {
      out.recomputes = {given_.recompute};
      if (given_.recompute == Recompute::budget) out.recomputes.clear();  // it is no layout, but a search
    }
    out.sharding = {{0, 1}};
    const std::int64_t within = std::max<std::int64_t>(1, node_ / (tp * cp));
    for (std::int64_t zero = 1; zero <= 3 && dp * cp > 1; ++zero) {
      out.sharding.emplace_back(zero, dp);
      if (within > 1 && within < dp && dp % within == 0) out.sharding.emplace_back(zero, within);
      const std::int64_t own = is_pinned("dp_shard") ? given_.dp_shard : dp / given_.dp_replicate;
      if ((is_pinned("dp_shard") || is_pinned("dp_replicate")) && own > 1 && own < dp && own != within &&
          dp % own == 0)
        out.sharding.emplace_back(zero, own);
    }
    out.kinds = {TensorKind::d1};
    if (model_.experts == 0 && model_.kv_rank == 0 && model_.mtp_layers == 0) {
      const auto root = static_cast<std::int64_t>(std::lround(std::sqrt(tp))),
                 cube = static_cast<std::int64_t>(std::lround(std::cbrt(tp)));
      if (root > 1 && root * root == tp) out.kinds.push_back(TensorKind::d2);
      if (cube > 1 && cube * cube * cube == tp) out.kinds.push_back(TensorKind::d3);
      const auto half = static_cast<std::int64_t>(std::lround(std::sqrt(tp / 2)));
      if (half > 1 && 2 * half * half == tp) out.kinds.push_back(TensorKind::d25);
    }
    out.overlaps = {Overlapped::none};
    if (tp > 1 && model_.experts == 0) out.overlaps.push_back(Overlapped::tensor);
    if (shared.ranks() > 1) out.overlaps.push_back(Overlapped::experts);
    out.offloads = {"", "optimizer"};
    if (is_pinned("offload")) out.offloads = {given_.offload};
    out.cp_heads = by_heads(tp, cp);
    if (is_pinned("cp_heads")) out.cp_heads = {given_.cp_heads};
    return out;
  }

  bool cuts_evenly(std::int64_t pp, std::int64_t tp, std::int64_t cp) const {
    if (model_.heads % tp != 0 || (model_.kv_heads % tp != 0 && tp % model_.kv_heads != 0)) return false;
    if (model_.ffn % tp != 0 || model_.sequence % (2 * cp * tp) != 0) return false;
    return pp <= model_.blocks() + 2;
  }

  void mesh(std::int64_t pp, std::int64_t tp, std::int64_t cp) {
    const std::int64_t dp = devices_ / pp / tp / cp, batch = batch_;
    const auto of_rank = batch % dp == 0 ? batch / dp : 0;
    const std::vector<std::int64_t> sizes = of_rank > 0 ? micro_sizes(of_rank) : std::vector<std::int64_t>{1};
    for (const Shared shared : shared_experts(tp, cp, dp))
      for (const std::int64_t micro : sizes) {
        Choices varied = choices(pp, tp, cp, dp, shared, std::max<std::int64_t>(of_rank / micro, 1));
        found_.certificate.considered += varied.size();
        if (of_rank == 0) {
          leave("the batch is not shared evenly", varied.size());
        } else if (!cuts_evenly(pp, tp, cp)) {
          leave("the model is not cut evenly", varied.size());
        } else {
          Branch& one = branches_.emplace_back();
          one.layout = base_;
          one.layout.pp = pp, one.layout.dp_shard = dp, one.layout.cp = cp, one.layout.tp = tp;
          one.layout.dp_replicate = 1, one.layout.ep = shared.ep, one.layout.etp = shared.etp;
          one.layout.micro_batch = micro;
          one.floor = floor_of(one.layout);
          one.varied = std::move(varied);
        }
      }
  }

  // The seconds of products, attention and element-wise work of a mesh, and of its collectives at their best.
  double floor_of(const spec::Layout& layout) const {
    spec::Run run = run_;
    run.layout = layout, run.layout.zero = layout.dp() > 1 ? 1 : 0;
    return estimate(workload_of(run), device_, lossless_, constants_).step;
  }

  std::vector<std::int64_t> micro_sizes(std::int64_t of_rank) const {
    std::vector<std::int64_t> out;
    if (const std::int64_t own = given_.micro_batch; is_pinned("micro_batch"))
      return of_rank % own == 0 ? std::vector{own} : out;
    for (std::int64_t size = 1; size <= of_rank && size <= 16; size *= 2)
      if (of_rank % size == 0) out.push_back(size);
    return out;
  }

  // Ranks that share the experts, and the matrices of one: these lie within a node.
  std::vector<Shared> shared_experts(std::int64_t tp, std::int64_t cp, std::int64_t dp) const {
    if (model_.experts == 0) return {{1, 1}};
    std::vector<Shared> out;
    for (const std::int64_t ep : divisors(dp * cp * tp))
      for (std::int64_t etp = 1; etp <= std::min<std::int64_t>(node_, 8); etp *= 2)
        if (model_.experts % ep == 0 && dp * cp * tp % (ep * etp) == 0 && model_.expert_width() % etp == 0)
          out.push_back({ep, etp});
    return out;
  }

  // Ranks of cp that exchange heads: none, or all of them.
  std::vector<std::int64_t> by_heads(std::int64_t tp, std::int64_t cp) const {
    if (cp == 1 || model_.kv_rank > 0 || model_.heads % (tp * cp) != 0 || model_.kv_heads % (tp * cp) != 0)
      return {1};
    return {1, cp};
  }

  void leave(const std::string& why, std::int64_t layouts) { found_.certificate.pruned[why] += layouts; }

  // The slowest that is kept; none yet: all count.
  double bar() const {
    return found_.fitting.size() < limits_.keep ? 1e300 : found_.fitting.front().least_seconds;
  }

  void branch(const Branch& one) {
    const Choices& varied = one.varied;
    spec::Run run = run_;
    run.layout = one.layout;
    Workload best = workload_of(run);
    best.shard = best.dp * best.cp;
    best.zero = best.shard > 1 ? 3 : 0;
    best.recompute = Recomputed::full;
    if (least_bytes(best) - optimizer_bytes(best) > limits_.memory_bytes)
      return leave("parameters alone do not fit", varied.size());
    best.recompute = Recomputed::none;
    const Estimate floor = estimate(best, device_, network_, constants_);
    if ((floor.products + floor.attention + floor.elementwise) * least_share_ > bar())
      return leave("its computation alone takes longer", varied.size());
    for (const ScheduleChoice& schedule : varied.schedules)
      for (const Recompute recompute : varied.recomputes)
        for (const auto& [zero, shard] : varied.sharding) {
          spec::Layout& layout = run.layout;
          const std::int64_t dp = layout.dp();
          layout.schedule = schedule.schedule, layout.virtual_stages = schedule.virtual_stages;
          layout.recompute = recompute, layout.zero = zero;
          layout.dp_shard = zero == 0 ? 1 : shard, layout.dp_replicate = dp / layout.dp_shard;
          within_blocks(run, varied);
        }
  }

  void within_blocks(spec::Run& run, const Choices& varied) {
    spec::Layout& layout = run.layout;
    const bool is_no_fold =
        model_.experts > 0 && layout.dp_shard * layout.cp * layout.tp % (layout.ep * layout.etp) != 0;
    for (const TensorKind kind : varied.kinds)
      for (const Overlapped overlapped : varied.overlaps)
        for (const std::int64_t heads : varied.cp_heads)
          for (const std::string& offload : varied.offloads) {
            layout.tp_kind = kind, layout.cp_heads = heads, layout.offload = offload;
            layout.tp_overlap = overlapped == Overlapped::tensor;
            layout.ep_overlap = overlapped == Overlapped::experts;
            const bool is_other = kind != TensorKind::d1 && (layout.tp_overlap || heads > 1 ||
                                                             layout.micro_batch % layout.tp_samples() != 0);
            if (is_other || is_no_fold)
              leave("it is no layout of its own", 1);
            else
              price(run);
          }
  }

  void price(spec::Run& run) {
    if (!limits_.pins.empty() && !limits_.pins.allow(run, run_)) return leave("another value is pinned", 1);
    if (!speeds_.empty()) deal_by_speed(run, speeds_, 0);
    ++found_.certificate.priced;
    Workload work = workload_of(run);
    if (!speeds_.empty()) work.slowest_share = slowest_share(run.layout, speeds_, 0);
    if (kSlackOfForm * estimate(work, device_, lossless_, constants_).step > bar()) return;
    Candidate candidate = candidate_of(run, device_, network_, constants_, speeds_);
    if (!limits_.by_form && bound_.even_seconds(candidate) >= bar()) return;
    candidate.least_seconds = limits_.by_form ? candidate.estimate.step : bound_.seconds(candidate);
    if (candidate.least_seconds >= bar()) return;
    candidate.bound_bytes = bound_.bytes(candidate);
    if (kSlackOfMemory * candidate.bound_bytes > limits_.memory_bytes)
      return add_too_large(std::move(candidate));
    const auto slower = [](const Candidate& a, const Candidate& b) {
      return a.least_seconds < b.least_seconds;
    };
    if (found_.fitting.size() == limits_.keep) {
      std::ranges::pop_heap(found_.fitting, slower);
      found_.fitting.pop_back();
    }
    found_.fitting.push_back(std::move(candidate));
    std::ranges::push_heap(found_.fitting, slower);
  }

  void add_too_large(Candidate candidate) {
    ++found_.certificate.too_large;
    const bool is_near = candidate.bound_bytes < 2 * limits_.memory_bytes;
    if (is_near && (!found_.too_large || candidate.least_seconds < found_.too_large->least_seconds))
      found_.too_large = std::move(candidate);
  }

  const spec::Run& run_;
  const spec::Model& model_;
  const spec::Layout& given_;  // pinned keys are taken from it
  const std::int64_t batch_;   // samples of a step
  const Device& device_;
  const Network& network_;
  const Limits& limits_;
  const Constants& constants_;
  double least_share_ = 1;            // of an even share on the slowest, if all are busy
  const std::vector<double> speeds_;  // of ranks; empty: all alike
  const std::int64_t devices_, node_;
  const spec::Layout base_;
  const Network lossless_;
  Bound bound_;
  std::vector<Branch> branches_;
  Found found_;
};

}  // namespace

Candidate candidate_of(const spec::Run& run, const Device& device, const Network& network,
                       const Constants& constants, const std::vector<double>& speeds) {
  Candidate out{.layout = run.layout, .work = workload_of(run)};
  if (!speeds.empty()) out.work.slowest_share = slowest_share(run.layout, speeds, 0);
  out.estimate = estimate(out.work, device, network, constants);
  out.footprint = footprint(out.work);
  if (out.work.offloads_optimizer) {
    const double bytes = optimizer_bytes(out.work);
    out.footprint.state -= bytes, out.footprint.peak -= bytes;
  }
  return out;
}

double usable_bytes(const Device& device) {
  constexpr double kLibraries = 2.5 * (1 << 30), kShare = 0.95;
  return device.memory_gb * 1e9 * kShare - kLibraries;
}

double usable_bytes(const Cluster& cluster) {
  double out = std::numeric_limits<double>::max();
  for (const NodeKind& kind : cluster.nodes) out = std::min(out, usable_bytes(kind.device));
  return out;
}

std::int64_t Certificate::num_pruned() const {
  std::int64_t out = 0;
  for (const auto& [why, count] : pruned) out += count;
  return out;
}

Found search(const spec::Run& run, const Cluster& cluster, const Limits& limits, const Constants& constants) {
  return Searching(run, cluster, limits, constants).all();
}

}  // namespace tessera::planner
