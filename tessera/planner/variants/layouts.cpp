#include "tessera/planner/variants/layouts.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/families/families.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/identity.hpp"
#include "tessera/planner/variants/spread.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/problems.hpp"

namespace tessera::planner {
namespace {

struct ScheduleChoice {
  spec::Schedule schedule = spec::Layout().schedule;
  std::int64_t virtual_stages = 0;
  auto operator<=>(const ScheduleChoice&) const = default;
};

// Those that take any number of virtual stages come with two numbers of them.
std::vector<ScheduleChoice> schedule_choices() {
  std::vector<ScheduleChoice> out;
  for (std::size_t i = 0; i < spec::words<spec::Schedule>().size(); ++i) {
    const auto schedule = static_cast<spec::Schedule>(i);
    out.push_back({schedule});
    const program::ScheduleEntry& entry = spec::entry(schedule);
    if (entry.num_virtual == 0 && !entry.traits.is_search) out.push_back({schedule, 3});
  }
  return out;
}

// The name of the piece that begins the feed-forward part.
std::string fed_piece(const program::Unit& block) {
  for (const char* step : {"up", "experts"})
    for (const program::Piece& piece : block.pieces)
      if (std::ranges::count(piece.steps, step, &program::Step::name) > 0) return piece.name;
  throw Bug(cat(block.name, " has no feed-forward part"));
}

class Enumeration {
 public:
  Enumeration(const spec::Run& run, const Variety& variety, bool is_distinct)
      : run_(run),
        variety_(variety),
        is_distinct_(is_distinct),
        has_experts_(run.model.experts > 0),
        fed_piece_(fed_piece(families::step_request(run).model.blocks.back())) {
    schedules_ = varies("schedule")
                     ? schedule_choices()
                     : std::vector<ScheduleChoice>{{run.layout.schedule, run.layout.virtual_stages}};
  }

  std::vector<spec::Run> all() {
    for_each_crossing([&](const spec::Layout& crossing) { add(crossing, next_of(crossing)); });
    // What the turns left out.
    for_each_crossing([&](const spec::Layout& crossing) {
      const auto key = key_of(crossing);
      for (const ScheduleChoice& choice : schedules_)
        if (!seen_[key].contains(choice)) try_one(crossing, choice);
    });
    return std::move(out_);
  }

 private:
  using Key = std::array<std::int64_t, 4>;
  Key key_of(const spec::Layout& layout) const {
    if (has_experts_) return {layout.pp, layout.ep, 0, 0};
    return {layout.pp, layout.cp, layout.tp, static_cast<std::int64_t>(layout.tp_kind)};
  }

  bool varies(const char* axis) const {
    return std::ranges::find(variety_.axes, axis) != variety_.axes.end();
  }

  // Sizes of an axis that leave the ranks so far under the bound, or the one of the run.
  std::vector<std::int64_t> sizes(const char* axis, std::int64_t own, std::int64_t ranks) const {
    if (!varies(axis)) return {own};
    std::vector<std::int64_t> out;
    for (std::int64_t size = 1; ranks * size <= variety_.most_ranks; ++size) out.push_back(size);
    return out;
  }

  void for_each_crossing(const std::function<void(const spec::Layout&)>& act) const {
    const auto& own = run_.layout;
    spec::Layout layout = own;
    for (const auto pp : sizes("pp", own.pp, 1))
      for (const auto replicate : sizes("dp", own.dp_replicate, pp))
        for (const auto shard : sizes("dp", own.dp_shard, pp * replicate))
          for (const auto cp : sizes("cp", own.cp, pp * replicate * shard))
            for (const auto tp : sizes("tp", own.tp, pp * replicate * shard * cp)) {
              layout.pp = pp, layout.dp_replicate = replicate, layout.dp_shard = shard;
              layout.cp = cp, layout.tp = tp;
              if (layout.ranks() <= variety_.most_ranks) for_each_inner(layout, act);
            }
  }

  // What a rank of cp and of tp does, and what ranks keep of the state.
  void for_each_inner(spec::Layout layout, const std::function<void(const spec::Layout&)>& act) const {
    for (std::int64_t cp_heads = 1; cp_heads <= layout.cp; ++cp_heads)
      for (const bool sequence_parallel : {true, false})
        for (std::int64_t zero = 0; zero <= 3; ++zero) {
          if (layout.cp % cp_heads != 0 || (layout.tp == 1 && !sequence_parallel)) continue;
          if (!varies("cp") && cp_heads != run_.layout.cp_heads) continue;
          if (!varies("tp") && layout.tp > 1 && sequence_parallel != run_.layout.sequence_parallel) continue;
          if (!varies("zero") && zero != run_.layout.zero) continue;
          layout.cp_heads = cp_heads, layout.sequence_parallel = sequence_parallel, layout.zero = zero;
          layout.tp_overlap = run_.layout.tp_overlap && layout.tp > 1;
          for_each_kind(layout, act);
        }
  }

  // How values lie on the ranks of tp. Of 2.5d every depth that leaves a grid of several rows.
  void for_each_kind(spec::Layout layout, const std::function<void(const spec::Layout&)>& act) const {
    if (!varies("tp_kind")) return for_each_fold(layout, act);
    const spec::Layout usual = layout;
    layout.tp_kind = spec::TensorKind::d1, layout.tp_gather = false,
    layout.tp_depth = spec::Layout().tp_depth;
    for_each_fold(layout, act);
    if (!usual.sequence_parallel || usual.cp_heads > 1 || has_experts_) return;
    const auto try_kind = [&](spec::TensorKind kind) {
      layout.tp_kind = kind;
      layout.tp_overlap = false, layout.tp_regather = true;
      const spec::TensorGrid grid = layout.grid();
      if (grid.ranks() == layout.tp && grid.rows > 1) act(layout);
    };
    try_kind(spec::TensorKind::d2);
    try_kind(spec::TensorKind::d3);
    for (layout.tp_depth = 2; 4 * layout.tp_depth <= layout.tp; ++layout.tp_depth)
      try_kind(spec::TensorKind::d25);
  }

  // How the ranks of attention share experts.
  void for_each_fold(spec::Layout layout, const std::function<void(const spec::Layout&)>& act) const {
    if (!varies("ep") || !has_experts_) return act(layout);
    const std::int64_t ranks = layout.dp_shard * layout.cp * layout.tp;
    for (layout.ep = 1; layout.ep <= ranks; ++layout.ep)
      for (layout.etp = 1; layout.ep * layout.etp <= ranks; ++layout.etp) {
        layout.ep_overlap = run_.layout.ep_overlap && layout.ep * layout.etp > 1;
        if (ranks % (layout.ep * layout.etp) == 0) act(layout);
      }
  }

  std::size_t next_of(const spec::Layout& crossing) { return turns_[key_of(crossing)]++; }

  // With the schedule whose turn it is, or the first after it that is legal.
  void add(const spec::Layout& crossing, std::size_t turn) {
    for (std::size_t i = 0; i < schedules_.size(); ++i)
      if (try_one(crossing, schedules_[(turn + i) % schedules_.size()])) return;
  }

  bool try_one(const spec::Layout& crossing, const ScheduleChoice& choice) {
    constexpr std::uint64_t kTries = 6;
    for (std::uint64_t attempt = 0; attempt <= kTries; ++attempt) {
      spec::Run run = run_;
      spec::Layout& layout = run.layout = crossing;
      layout.schedule = choice.schedule;
      layout.virtual_stages = choice.virtual_stages;
      if (!varies("batch") && layout.in_blocks()) fill_ranks(layout);
      run.model.layers =
          std::min(run_.model.layers, std::max<std::int64_t>(2, layout.pp * layout.num_virtual() - 1));
      if (attempt < kTries) balance_stages(run, kTries * num_tried_ + attempt);
      if (!spec::problems(run).empty()) continue;
      ++num_tried_;
      seen_[key_of(layout)].insert(choice);
      if (!is_distinct_ ||
          identities_.insert(stream_of(plan::identity(plan::compile_unchecked(families::step_request(run)))))
              .second)
        out_.push_back(std::move(run));
      return true;
    }
    return false;
  }

  // A micro-batch of as few more samples as the ranks of tp can share.
  static void fill_ranks(spec::Layout& layout) {
    const std::int64_t parts = layout.tp_samples();
    layout.micro_batch = (layout.micro_batch + parts - 1) / parts * parts;
  }

  // What is not crossed, by a number.
  void balance_stages(spec::Run& run, std::uint64_t number) const {
    auto draw = [&, next = std::uint64_t{0}](std::int64_t below) mutable {
      return static_cast<std::int64_t>(random_bits(variety_.seed, number, next++) %
                                       static_cast<std::uint64_t>(below));
    };
    auto& layout = run.layout;
    if (varies("zero")) {
      layout.reduce_every = draw(3);
      layout.keep_mib = draw(4) == 0 ? 1 : 0;
      layout.prefetch = draw(3);
      layout.overlap = draw(4) != 0 || layout.overlap_steps;
    }
    if (varies("recompute")) {
      layout.recompute = static_cast<spec::Recompute>(draw(3));
      layout.recompute_pieces = draw(2) == 0 ? "attention" : cat("attention,", fed_piece_);
    }
    if (varies("offload")) {
      const char* const kinds[] = {"", "", "optimizer", "optimizer,parameters",
                                   "optimizer,parameters,values"};
      layout.offload = kinds[draw(5)];
    }
    if (varies("batch")) {
      layout.micro_batch = 1 + draw(3);
      run.training.global_batch -= draw(2);  // the last micro-batch is short somewhere
    }
    if (varies("schedule") && draw(3) == 0) layout.stages = uneven_stages(run, std::ref(draw));
    if (layout.in_blocks()) {
      if (varies("batch")) layout.micro_batch *= layout.tp_samples();
      if (varies("tp_kind")) layout.tp_gather = layout.tp_kind != spec::TensorKind::d3 && draw(2) == 0;
    } else if (varies("tp") && layout.tp > 1) {
      layout.tp_overlap = draw(3) == 0;
      layout.tp_regather = draw(3) != 0;
    }
    if (varies("ep") && layout.ep * layout.etp > 1) layout.ep_overlap = draw(3) == 0;
    if (varies("steps")) overlap_steps(run, std::ref(draw));
  }

  // Over a link so slow that reductions are put off.
  static void overlap_steps(spec::Run& run, const std::function<std::int64_t(std::int64_t)>& draw) {
    spec::Layout& layout = run.layout;
    layout.overlap_steps = draw(3) == 0 && layout.overlap && layout.precision != spec::Precision::fp16;
    layout.slice_kib = draw(3) == 0 ? 4 : 0;
    if (!layout.overlap_steps) return;
    if (draw(2) == 0) run.training.clip_norm = 0;
    if (draw(2) == 0) layout.communication = spec::Communication::priority, run.cluster.link_mbits = 100;
    if (layout.communication == spec::Communication::priority) layout.credit_kib = draw(2) == 0 ? 32 : 0;
  }

  // Units dealt by chance, at least one to a stage.
  static std::string uneven_stages(const spec::Run& run,
                                   const std::function<std::int64_t(std::int64_t)>& draw) {
    const std::int64_t stages = run.layout.pp * run.layout.num_virtual(), units = run.model.layers + 2;
    if (stages > units) return "";
    std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), 1);
    for (std::int64_t left = units - stages; left > 0; --left)
      ++counts[static_cast<std::size_t>(draw(stages))];
    std::vector<std::string> words;
    for (const auto count : counts) words.push_back(cat(count));
    return join(words, ",");
  }

  const spec::Run& run_;
  const Variety& variety_;
  const bool is_distinct_;  // of equal programs one is taken
  const bool has_experts_;
  const std::string fed_piece_;
  std::vector<ScheduleChoice> schedules_;
  std::map<Key, std::size_t> turns_;
  std::map<Key, std::set<ScheduleChoice>> seen_;
  std::uint64_t num_tried_ = 0;
  std::set<std::uint64_t> identities_;
  std::vector<spec::Run> out_;
};

}  // namespace

const std::vector<std::string>& variable_axes() {
  static const std::vector<std::string> kAxes = {
      "pp", "dp", "cp", "tp", "tp_kind", "ep", "zero", "schedule", "recompute", "offload", "batch", "steps"};
  return kAxes;
}

namespace {

void check_axes(const Variety& variety) {
  for (const auto& axis : variety.axes)
    if (std::ranges::find(variable_axes(), axis) == variable_axes().end()) {
      throw UserError(cat("--axes names \"", axis, "\"", did_you_mean(nearest(axis, variable_axes())),
                          " It may name ", join(variable_axes(), ", ")));
    }
}

}  // namespace

std::vector<spec::Run> layouts(const spec::Run& run, const Variety& variety) {
  check_axes(variety);
  return Enumeration(run, variety, true).all();
}

std::vector<spec::Run> listed_layouts(const spec::Run& run, const Variety& variety) {
  check_axes(variety);
  return Enumeration(run, variety, false).all();
}

std::vector<spec::Run> drawn_layouts(const std::vector<spec::Run>& listed, std::size_t count,
                                     std::uint64_t seed) {
  std::vector<spec::Run> out;
  std::set<std::uint64_t> identities;
  // More than are wanted are drawn as long as some of them turn out equal.
  for (std::size_t wanted = count; out.size() < count; wanted *= 2) {
    out.clear(), identities.clear();
    for (const spec::Run& run : spread(listed, wanted, seed))
      if (out.size() < count &&
          identities.insert(stream_of(plan::identity(plan::compile_unchecked(families::step_request(run)))))
              .second)
        out.push_back(run);
    if (wanted >= listed.size()) break;
  }
  return out;
}

}  // namespace tessera::planner
