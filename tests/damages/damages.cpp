// Checks that verify notices when a collective goes wrong. In layouts that together have every collective,
// axis and direction, one call of a step at a time is skipped, done twice, scaled by the size of its group,
// or done over another axis; verify must call the layout unequal each time. Calls that cannot be wrong are
// listed as `equal`, with the reason.
//   build/release/tests/damages [CALLS [EVERY [WORD]]]
// CALLS is how many calls of each kind are damaged, spread over the step (0 or absent: all). Every EVERY-th
// layout is tried. With WORD, only models with it in their name, such as `experts` or `ahead`. Exits with 1
// when a damage was missed, and names it.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <set>

#include "tessera/base/clock.hpp"
#include "tessera/base/text.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/mesh/mesh.hpp"
#include "tessera/plan/compile.hpp"
#include "tessera/plan/model/pieces.hpp"
#include "tessera/plan/testing/of_run.hpp"
#include "tessera/planner/variants/spread.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/train/testing/damaged.hpp"
#include "tessera/train/testing/small_runs.hpp"
#include "tessera/verify/verify.hpp"

namespace {

using namespace tessera;
using collective::Call;
using collective::CallDirection;
using collective::CallKind;
using collective::Harm;

// Of two blocks and an even batch: all ranks of an axis make calls of equal shapes.
spec::Run small_run(spec::Family family) {
  spec::Run run;
  run.model = {.layers = 2, .hidden = 16, .heads = 8, .kv_heads = 2, .ffn = 24, .vocab = 24, .sequence = 16};
  run.model.family = family;
  run.model.tied_embeddings = family == spec::Family::llama;
  if (family == spec::Family::gpt2) run.model.kv_heads = run.model.heads;
  run.training.global_batch = 8;
  run.training.warmup_steps = 0;
  run.layout.precision = spec::Precision::fp64;
  run.layout.micro_batch = 2;
  run.cluster.transport = spec::Transport::threads;
  run.cluster.link_mbits = 100;  // so slow that reductions by priority are put off
  return run;
}

// Rows that experts get are unequal: choices are drawn by random weights. A rank has two experts or more, and
// a micro-batch one sample: what is sorted among one, or counted of one that lies on one rank, can't be
// wrong.
spec::Run small_run_with_experts() {
  spec::Run run = train::with_experts(small_run(spec::Family::llama), 8);
  run.training.global_batch = 4;
  run.model.balance = spec::Balance::sequence;
  run.model.balance_weight = 0.1;
  run.model.capacity_factor = 1;
  return run;
}

// The block that predicts ahead reads the embedding on the last stage, and is counted by tokens of its own.
spec::Run small_run_ahead() {
  spec::Run run = train::with_latent_attention(small_run(spec::Family::deepseek));
  run.model.mtp_layers = 1;
  return run;
}

// Gradients in fewer bytes.
spec::Run small_run_compressed() {
  spec::Run run = small_run(spec::Family::llama);
  run.training.optimizer = spec::Optimizer::sgd;  // AdamW makes much of what thin sums leave nearly zero
  run.layout.compress_gradients = spec::Compression::int8;
  return run;
}

// Tensor parallelism in several dimensions.
spec::Run small_run_in_blocks(spec::Family family) {
  spec::Run run = small_run(family);
  run.layout.tp_kind = spec::TensorKind::d2;
  return run;
}

std::string name_of(const spec::Run& run) {
  return cat(spec::word(run.model.family), run.model.experts > 0 ? " with experts" : "",
             run.model.mtp_layers > 0 ? " ahead" : "", run.layout.in_blocks() ? " in blocks" : "",
             run.layout.compress_gradients != spec::Compression::none ? " compressed" : "");
}

std::vector<spec::Layout> layouts(const spec::Run& run) {
  using spec::Layout;
  using enum spec::Recompute;
  if (run.model.mtp_layers > 0)
    return {
        Layout{.pp = 2, .dp_shard = 2, .tp = 2, .zero = 1},
        Layout{.dp_shard = 2, .cp = 2, .tp = 2, .sequence_parallel = false, .zero = 3},
    };
  if (run.model.experts > 0)
    return {
        Layout{.dp_shard = 4, .ep = 2, .zero = 1},
        Layout{.dp_shard = 2, .tp = 2, .ep = 2, .etp = 2, .zero = 0},
        Layout{.dp_shard = 2, .cp = 2, .tp = 2, .ep = 4, .zero = 3, .recompute = full},
        Layout{.dp_shard = 2, .tp = 2, .sequence_parallel = false, .ep = 4, .zero = 2},
        Layout{.pp = 2, .dp_shard = 2, .tp = 2, .ep = 2, .ep_overlap = true, .zero = 1},
    };
  if (run.layout.compress_gradients != spec::Compression::none) {
    using enum spec::Compression;
    return {
        Layout{.dp_replicate = 2,
               .dp_shard = 2,
               .compress_gradients = int8,
               .compress_weights = int8,
               .zero = 3},
        Layout{.dp_replicate = 3, .compress_gradients = bf16},
        Layout{.dp_replicate = 2, .compress_gradients = powersgd, .compress_rank = 2},
    };
  }
  if (run.layout.in_blocks()) {
    using enum spec::TensorKind;
    return {
        Layout{.dp_shard = 2, .tp = 4, .tp_kind = d2, .zero = 1},
        Layout{.tp = 4, .tp_kind = d2, .tp_gather = true, .recompute = full},
        Layout{.pp = 2, .tp = 4, .tp_kind = d2},
        Layout{.tp = 8, .tp_kind = d25},
        Layout{.tp = 8, .tp_kind = d3},
    };
  }
  return {
      Layout{.dp_replicate = 2, .cp = 2, .tp = 2, .zero = 0},
      Layout{.dp_replicate = 2, .dp_shard = 2, .tp = 2, .sequence_parallel = false, .zero = 1},
      Layout{.pp = 2, .dp_shard = 2, .tp = 2, .zero = 3, .recompute = full},
      Layout{.dp_shard = 2, .cp = 2, .cp_heads = 2, .tp = 2, .zero = 2},
      Layout{.cp = 4, .cp_heads = 2, .tp = 2, .zero = 1},
      Layout{.dp_replicate = 2, .tp = 4, .zero = 0},  // more ranks than heads of keys
      Layout{.dp_shard = 2, .tp = 2, .tp_overlap = true, .zero = 1},
      Layout{.dp_shard = 2, .tp = 2, .zero = 1, .overlap_steps = true},
      Layout{.pp = 2, .dp_shard = 2, .zero = 1, .schedule = "pipedream-2bw"_schedule, .overlap_steps = true},
      Layout{.dp_shard = 2, .servers = 2, .tp = 2},
      // Several reductions on their way, on channels of their own.
      Layout{.dp_replicate = 2,
             .overlap_steps = true,
             .communication = spec::Communication::priority,
             .slice_kib = 2,
             .credit_kib = 16},
  };
}

struct Site {
  std::int16_t set = 0;
  CallKind kind = CallKind::all_reduce;
  CallDirection direction = CallDirection::forward;
  auto operator<=>(const Site&) const = default;
};

// Loads of experts are summed after a step, over groups that are not damaged.
bool is_sum_of_loads(const Call& call, const spec::Model& model) {
  return model.experts > 0 && call.kind == CallKind::all_reduce &&
         call.bytes == (model.blocks() - model.dense_layers) * (model.experts + 1) * 8;
}

// Of one step, by site, the calls of the rank that makes most of them.
std::map<Site, std::vector<Call>> calls_of(const spec::Run& run) {
  std::map<Site, std::vector<Call>> out;
  std::mutex mutex;
  collective::run_ranks(
      static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& communicator) {
        train::Session session(train::session_plan(run), communicator, train::random_source(run.model));
        const auto num_sets = static_cast<std::int16_t>(session.program().tables.axis_sets.size());
        for (std::int16_t set = 0; set < num_sets; ++set) session.group(set).tally().reset(true);
        session.step();
        const std::scoped_lock lock(mutex);
        for (std::int16_t set = 0; set < num_sets; ++set) {
          std::map<Site, std::vector<Call>> own;
          for (const Call& call : session.group(set).tally().list())
            if (!is_sum_of_loads(call, run.model)) own[{set, call.kind, call.direction}].push_back(call);
          for (auto& [site, calls] : own)
            if (calls.size() > out[site].size()) out[site] = calls;
        }
      });
  return out;
}

// Whether all members of its groups make the same calls at the same time.
bool is_alike(const mesh::AxisSet& set, const program::Tables& tables) {
  const auto class_of = [&](mesh::Rank rank) { return tables.class_of_rank[static_cast<std::size_t>(rank)]; };
  return std::ranges::all_of(set.groups(), [&](const auto& group) {
    return std::ranges::all_of(group, [&](auto rank) { return class_of(rank) == class_of(group.front()); });
  });
}

// Another set to go wrong over, if there is one: rather one that has no rank in common with `set` but the
// own, or what is gathered there could be replicas of the right parts.
std::int16_t other_set(std::int16_t set, const program::Tables& tables) {
  const auto sets = program::sets_of(tables);
  const auto own = sets[static_cast<std::size_t>(set)].peers(0);
  const auto role = [&](std::size_t i) {
    return tables.axes[static_cast<std::size_t>(tables.axis_sets[i].axes.back())].role;
  };
  const bool is_grid = tables.set_called("tp_row") >= 0;
  std::int16_t found = -1, alone = -1;  // alone: that has no other rank in common
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const auto peers = sets[i].peers(0);
    if (peers.size() == 1 || peers == own || !tables.axis_sets[i].only.empty() || !is_alike(sets[i], tables))
      continue;
    const auto in_common =
        std::ranges::count_if(peers, [&](auto rank) { return std::ranges::find(own, rank) != own.end(); });
    if (found < 0) found = static_cast<std::int16_t>(i);
    if (in_common > 1) continue;
    // In a grid rather one that cuts the same things: replicas have equal weights.
    if (is_grid && role(i) == role(static_cast<std::size_t>(set))) return static_cast<std::int16_t>(i);
    if (alone < 0) alone = static_cast<std::int16_t>(i);
  }
  return alone >= 0 ? alone : found;
}

// Why such a damage changes nothing; empty: it must be seen.
std::string excuse(const spec::Run& run, const Site& site, Harm harm, const std::vector<Call>& calls,
                   std::size_t index) {
  if (harm == Harm::twice && (site.kind == CallKind::all_gather || site.kind == CallKind::broadcast))
    return "gathered or sent round once more, all have what they had";
  if (harm == Harm::elsewhere && site.kind == CallKind::all_to_all && run.layout.in_blocks())
    return "rows of a table are summed over the other axis next, and their gradients are equal along it";
  // The numbers of a step are summed at its end, `finite` last: it is judged by a norm that all ranks share
  // already.
  const bool is_number = site.kind == CallKind::all_reduce && calls[index].bytes == 8;
  if (is_number && index + 1 == calls.size()) return "all ranks judge the same norm";
  // The first exchange of each forward of experts is that of places, by which rows are sorted. With
  // ep_overlap it is the only one on these channels: rows have channels of their own.
  const std::size_t exchanges = run.layout.ep_overlap ? 1 : 3;
  const bool is_places = site.kind == CallKind::all_to_all && site.direction == CallDirection::forward &&
                         run.model.experts > 0 && index % exchanges == 0 &&
                         site.set == plan::InnerSets(run.model, run.layout).experts;
  if (is_places && harm == Harm::scaled) return "places are compared with each other";
  const bool is_loads =
      site.kind == CallKind::all_reduce && site.set == plan::InnerSets(run.model, run.layout).same_samples;
  if (is_loads && (harm == Harm::twice || harm == Harm::scaled))
    return "counts of choices are divided by their sum";
  // Of each micro-batch the forwards of the blocks come first, then their recomputations.
  const auto layers = static_cast<std::size_t>(run.model.layers);
  if (is_loads && run.layout.recompute != spec::Recompute::none && index % (2 * layers) < layers)
    return "losses inside of a recomputed block are those of its recomputation";
  return "";
}

struct Count {
  int seen = 0, missed = 0, equal = 0;
};

class Trial {
 public:
  explicit Trial(std::size_t most_calls) : most_calls_(most_calls) {}

  void run_layout(spec::Run run, const spec::Layout& layout) {
    const spec::Layout small = run.layout;
    run.layout = layout;
    run.layout.precision = small.precision;
    run.layout.micro_batch = std::max<std::int64_t>(run.training.global_batch / layout.dp() / 2, 1);
    const std::string name = cat(name_of(run), ", ", planner::layout_text(run));
    const auto tables = plan::compile(run).tables;
    train::References references;
    const auto sound = train::verify_as_it_is(run, references);
    if (!sound.passed()) return miss(cat(name, ": not equal without damage: ", sound.fault));
    for (const auto& [site, calls] : calls_of(run))
      for (const std::size_t index : chosen(calls.size()))
        for (const Harm harm : collective::kHarms)
          damage(run, name, tables, references, site, calls, index, harm);
    std::fprintf(stderr, "%s: done\n", name.c_str());
  }

  int report() const {
    std::vector<std::vector<std::string>> rows = {{"collective", "axis set", "direction"}};
    for (const Harm harm : collective::kHarms) rows.front().push_back(word(harm));
    for (const auto& [place, by_harm] : counts_) {
      auto& row = rows.emplace_back(place);
      for (const Harm harm : collective::kHarms) {
        const auto found = by_harm.find(harm);
        const Count count = found == by_harm.end() ? Count() : found->second;
        row.push_back(cat(count.seen, count.equal > 0 ? cat(" + ", count.equal, " equal") : "",
                          count.missed > 0 ? cat(" + ", count.missed, " MISSED") : ""));
      }
    }
    std::printf("%s\n", table(rows).c_str());
    for (const auto& [reason, count] : reasons_) std::printf("equal %d times: %s\n", count, reason.c_str());
    for (const auto& text : missed_) std::printf("MISSED: %s\n", text.c_str());
    std::printf("%d damages seen (%d by an error that ended the run, the others by numbers), %zu missed\n",
                num_seen_, num_errors_, missed_.size());
    return missed_.empty() ? 0 : 1;
  }

 private:
  std::vector<std::size_t> chosen(std::size_t count) const {
    std::set<std::size_t> out;
    const std::size_t wanted = most_calls_ == 0 ? count : std::min(most_calls_, count);
    for (std::size_t i = 0; i < wanted; ++i) out.insert(wanted == 1 ? 0 : i * (count - 1) / (wanted - 1));
    return {out.begin(), out.end()};
  }

  void miss(const std::string& text) {
    missed_.push_back(text);
    std::fprintf(stderr, "MISSED: %s\n", text.c_str());
  }

  void damage(const spec::Run& run, const std::string& name, const program::Tables& tables,
              train::References& references, const Site& site, const std::vector<Call>& calls,
              std::size_t index, Harm harm) {
    const std::int16_t other = harm == Harm::elsewhere ? other_set(site.set, tables) : -1;
    if (harm == Harm::elsewhere && other < 0) return;  // another layout has two axes there
    const std::string& set = tables.axis_sets[static_cast<std::size_t>(site.set)].name;
    Count& count = counts_[{word(site.kind), set, word(site.direction)}][harm];
    // What changes nothing in the first step, such as a gather of biases that begin as zeros, is damaged in
    // the second: without stages, which make different numbers of calls, its number there is known.
    const auto is_seen_at = [&](std::size_t call) {
      return is_seen(run, references,
                     {site.set, {harm, site.kind, site.direction, static_cast<std::int64_t>(call)}, other});
    };
    const std::string reason = excuse(run, site, harm, calls, index);
    if (is_seen_at(index) || (reason.empty() && run.layout.pp == 1 && is_seen_at(index + calls.size()))) {
      ++count.seen, ++num_seen_;
    } else if (!reason.empty()) {
      ++count.equal, ++reasons_[reason];
    } else {
      ++count.missed;
      miss(cat(name, ": ", word(site.kind), " ", index, " of ", calls.size(), " (", calls[index].bytes,
               " bytes) over ", set, ", ", word(site.direction), ", ", word(harm)));
    }
  }

  // An error that ends the run is seen too.
  bool is_seen(const spec::Run& run, train::References& references, const train::Damaged& damaged) {
    try {
      return !train::verify_as_it_is(run, references, damaged).passed();
    } catch (const std::exception&) {
      ++num_errors_;
      return true;
    }
  }

  std::size_t most_calls_;
  std::map<std::vector<std::string>, std::map<Harm, Count>> counts_;  // by collective, axis set and direction
  std::map<std::string, int> reasons_;
  std::vector<std::string> missed_;
  int num_seen_ = 0, num_errors_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Trial trial(argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0);
  const double begin = now_seconds();
  const std::uint64_t every = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;  // layouts in turn
  const std::string only = argc > 3 ? argv[3] : "";
  std::uint64_t turn = 0;
  for (const spec::Run& run :
       {small_run(spec::Family::llama), small_run(spec::Family::gpt2), small_run_with_experts(),
        small_run_ahead(), small_run_in_blocks(spec::Family::llama), small_run_in_blocks(spec::Family::gpt2),
        small_run_compressed()})
    for (const auto& layout : layouts(run))
      if (name_of(run).find(only) != std::string::npos && turn++ % every == 0) trial.run_layout(run, layout);
  const int code = trial.report();
  std::printf("%s\n", duration_text(now_seconds() - begin).c_str());
  return code;
}
