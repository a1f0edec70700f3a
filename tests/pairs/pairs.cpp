// Checks that any layout resumes from what any other saved. A trains six steps without a break and saves the
// third while the next steps run; B resumes from it. In fp64 B's losses are A's within 1e-10; every fifth
// pair has equal layouts, in fp32, bf16 or fp16, and the same bits. One pair in ten changes the optimizer: B
// is refused, and with it reset A's layout and B's continue alike. Ranks are threads.
//   build/release/tests/pairs [COUNT [SEED [experts|blocks]]]    100 pairs by default; a summary as Markdown
// With `experts` all models have experts, otherwise every third; with `blocks` none has, and tensor
// parallelism is of all kinds.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/collective/transports/threads/threads.hpp"
#include "tessera/spec/choice_names.hpp"
#include "tessera/spec/problems.hpp"
#include "tessera/train/resume.hpp"
#include "tessera/train/saver.hpp"

namespace tessera {
namespace {

// What pairs are about.
enum class Theme { all, experts, blocks };

constexpr int kSteps = 6, kSavedAfter = 3;
constexpr double kTolerance = 1e-10;

class Dice {
 public:
  Dice(std::uint64_t seed, std::uint64_t round) : seed_(seed), round_(round) {}
  std::int64_t below(std::int64_t sides) {
    return static_cast<std::int64_t>(random_bits(seed_, round_, next_++) % static_cast<std::uint64_t>(sides));
  }
  template <typename T>
  T one_of(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<std::int64_t>(list.size()))];
  }

 private:
  std::uint64_t seed_, round_, next_ = 0;
};

// The model and the batch, which both of a pair have.
spec::Run common_run(Dice& dice, bool has_experts) {
  spec::Run run;
  run.model = {.layers = 6, .hidden = 16, .heads = 4, .kv_heads = 2, .ffn = 24, .vocab = 36, .sequence = 24};
  if (has_experts) {
    run.model.experts = dice.one_of<std::int64_t>({4, 8});
    run.model.expert_ffn = 12;
    run.model.shared_experts = dice.below(2);
    run.model.dense_layers = dice.below(2);
    run.model.balance = dice.one_of({spec::Balance::none, spec::Balance::sequence, spec::Balance::bias});
  } else if (dice.below(2) == 0) {
    run.model.family = spec::Family::gpt2;
    run.model.kv_heads = run.model.heads;
  }
  run.model.tied_embeddings = dice.below(2) == 0;
  run.model.dropout = dice.below(3) == 0 ? 0.1 : 0;
  if (dice.below(3) == 0) run.data.document_end = "\n";  // one token in 36
  run.training.global_batch = dice.one_of<std::int64_t>({16, 19, 24});
  run.training.warmup_steps = 2;
  run.training.optimizer = dice.below(4) == 0 ? spec::Optimizer::sgd : spec::Optimizer::adamw;
  run.training.momentum = dice.below(2) == 0 ? 0 : 0.9;
  run.layout.precision = spec::Precision::fp64;
  run.checkpoint.every = kSavedAfter;
  run.checkpoint.keep_last = 0;
  return run;
}

bool is_delayed(const spec::Layout& layout) { return spec::entry(layout.schedule).traits.is_delayed; }

// A layout of at most 8 ranks that the run may have.
spec::Run with_layout(const spec::Run& common, Dice& dice, Theme theme) {
  const std::int64_t pp = 1 + dice.below(4);  // before what may have to be drawn again
  while (true) {
    spec::Run run = common;
    auto& layout = run.layout;
    layout.pp = pp;
    if (dice.below(2) == 0) {  // the others leave room for cp and tp
      layout.dp_replicate = 1 + dice.below(3);
      layout.dp_shard = 1 + dice.below(4);
    }
    layout.cp = 1 + dice.below(4);
    layout.cp_heads = 1 + dice.below(layout.cp);
    layout.tp = 1 + dice.below(4);
    layout.sequence_parallel = dice.below(2) == 0;
    layout.tp_overlap = layout.tp > 1 && common.model.experts == 0 && dice.below(2) == 0;
    if (common.model.experts > 0) {
      layout.ep = dice.one_of<std::int64_t>({1, 2, 2, 4});
      layout.etp = dice.one_of<std::int64_t>({1, 1, 2});
    }
    layout.tp_regather = dice.below(2) == 0;
    layout.zero = dice.below(4);
    layout.schedule = dice.one_of({"gpipe"_schedule, "1f1b"_schedule, "interleaved"_schedule,
                                   "zb-h1"_schedule, "zb-v"_schedule, "dualpipe-v"_schedule, "bfs"_schedule,
                                   "auto"_schedule, "pipedream-2bw"_schedule});
    layout.micro_batch = 1 + dice.below(2);
    layout.reduce_every = dice.below(3);
    layout.recompute = dice.one_of({spec::Recompute::none, spec::Recompute::full});
    layout.offload =
        dice.one_of({"", "", "", "optimizer, parameters", "optimizer, parameters, values", "values"});
    if (theme == Theme::blocks && dice.below(5) != 0) {
      layout.tp_kind = dice.one_of({spec::TensorKind::d2, spec::TensorKind::d25, spec::TensorKind::d3});
      layout.tp = layout.tp_kind == spec::TensorKind::d2 ? 4 : 8;
      layout.tp_gather = layout.tp_kind != spec::TensorKind::d3 && dice.below(2) == 0;
      layout.pp = 1 + dice.below(2);
      layout.cp_heads = 1;
      layout.sequence_parallel = layout.tp_regather = true;
      layout.tp_overlap = false;
      layout.micro_batch *= layout.tp_samples();
    }
    run.checkpoint.background = dice.below(4) != 0;
    const bool other_mathematics = is_delayed(layout) != is_delayed(common.layout);
    if (layout.ranks() <= 8 && !other_mathematics && spec::problems(run).empty()) return run;
  }
}

std::string to_text(const spec::Layout& layout) {
  return cat(
      spec::word(layout.schedule), " pp ", layout.pp, " dp ", layout.dp_replicate, "x", layout.dp_shard,
      " cp ", layout.cp_ring(), "x", layout.cp_heads, " tp ", layout.tp, " ", spec::word(layout.tp_kind),
      " ep ", layout.ep, " etp ", layout.etp, layout.cuts_stream() ? " sequence" : "", " zero ", layout.zero,
      layout.tp_overlap ? " opened" : "", layout.offload.empty() ? "" : cat(" offload ", layout.offload),
      layout.recompute == spec::Recompute::full ? " recompute" : "", " micro_batch ", layout.micro_batch);
}

// Losses of the steps after `after`, which must be the one where the session then stands.
std::vector<double> train_on(const spec::Run& run, const std::string& folder, std::int64_t after,
                             const train::Accepted& accepted = {}) {
  std::vector<double> out;
  const std::string from = after == 0 ? "none" : checkpoint::step_folder(folder, after).path;
  collective::run_ranks(
      static_cast<int>(run.layout.ranks()), [&](const collective::Communicator& communicator) {
        const int rank = communicator.rank();
        train::Session session(train::session_plan(run), communicator, train::random_source(run.model));
        const auto resumed =
            train::resume(session, run, {.folder = folder, .from = from, .rank = rank, .accepted = accepted});
        TESSERA_CHECK(resumed.step == after, "went on after step ", resumed.step);
        spec::Run saving = run;
        if (after > 0) saving.checkpoint = {.every = 0, .every_minutes = 0};
        train::Saver saver(
            saving, session,
            {.folder = folder, .rank = rank, .num_ranks = communicator.size(), .saved_step = after});
        for (std::int64_t step = after + 1; step <= kSteps; ++step) {
          const auto report = session.step();
          if (rank == 0) out.push_back(report.loss);
          saver.after_step(step);
        }
        saver.finish(kSteps);
      });
  return out;
}

struct Pair {
  spec::Run a, b;
  bool is_equal = false;  // layouts, in fp32, bf16 or fp16
  bool changes_optimizer = false;
};

Pair drawn(std::uint64_t number, std::uint64_t seed, Theme theme) {
  Dice dice(seed, number);
  spec::Run common = common_run(dice, theme == Theme::experts || (theme == Theme::all && number % 3 == 2));
  if (dice.below(9) == 0) common.layout.schedule = "pipedream-2bw"_schedule;
  Pair pair{with_layout(common, dice, theme), with_layout(common, dice, theme), number % 5 == 4,
            number % 10 == 7};
  if (pair.changes_optimizer)
    pair.b.training.optimizer =
        pair.a.training.optimizer == spec::Optimizer::adamw ? spec::Optimizer::sgd : spec::Optimizer::adamw;
  if (!pair.is_equal) return pair;
  pair.a.layout.precision =
      dice.one_of({spec::Precision::fp32, spec::Precision::bf16, spec::Precision::fp16});
  pair.b = pair.a;
  return pair;
}

// Of the losses after the saved step.
double worst_error(std::span<const double> found, std::span<const double> expected) {
  double worst = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double error =
        found[i] == expected[i] ? 0 : std::abs(found[i] - expected[i]) / std::abs(expected[i]);
    worst = std::max(worst, std::isnan(error) ? INFINITY : error);
  }
  return worst;
}

bool is_refused(const spec::Run& run, const std::string& folder) {
  try {
    train_on(run, folder, kSavedAfter);
    return false;
  } catch (const UserError&) {
    return true;
  }
}

double error_of(const Pair& pair, const std::string& folder) {
  std::filesystem::remove_all(folder);
  const auto uninterrupted = train_on(pair.a, folder, 0);
  if (!pair.changes_optimizer)
    return worst_error(train_on(pair.b, folder, kSavedAfter), std::span(uninterrupted).subspan(kSavedAfter));
  if (!is_refused(pair.b, folder)) return INFINITY;
  spec::Run same_layout = pair.a;
  same_layout.training = pair.b.training;
  const train::Accepted reset{.reset_optimizer = true};
  return worst_error(train_on(pair.b, folder, kSavedAfter, reset),
                     train_on(same_layout, folder, kSavedAfter, reset));
}

int run(std::uint64_t count, std::uint64_t seed, Theme theme) {
  const std::string folder = cat(std::filesystem::temp_directory_path().string(), "/pairs-", getpid());
  std::map<std::string, int> seen;
  int passed = 0, equal = 0;
  double worst = 0;
  const double begin = now_seconds();
  for (std::uint64_t i = 0; i < count; ++i) {
    const Pair pair = drawn(i, seed, theme);
    const double error = error_of(pair, folder);
    std::filesystem::remove_all(folder);
    const bool good = error <= (pair.is_equal ? 0 : kTolerance);
    passed += good;
    equal += pair.is_equal;
    worst = std::max(worst, error);
    if (!good)
      std::printf("NOT EQUAL: pair %zu, seed %zu, error %.1e\n  A %s\n  B %s\n", i, seed, error,
                  to_text(pair.a.layout).c_str(), to_text(pair.b.layout).c_str());
    ++seen[spec::word(pair.a.training.optimizer)];
    ++seen[spec::word(pair.a.layout.precision)];
    if (pair.changes_optimizer) ++seen["another optimizer, reset"];
    if (!pair.a.data.document_end.empty()) ++seen["documents"];
    if (pair.a.model.experts > 0) ++seen[cat("experts, balance ", spec::word(pair.a.model.balance))];
    for (const auto* run : {&pair.a, &pair.b}) {
      ++seen[cat("zero ", run->layout.zero)];
      ++seen[spec::word(run->layout.schedule)];
      ++seen[cat("pp ", run->layout.pp)];
      if (run->layout.tp_overlap) ++seen["opened blocks"];
      if (!run->layout.offload.empty()) ++seen[cat("offload ", run->layout.offload)];
      ++seen[cat("cp ", run->layout.cp_ring(), " in a ring, ", run->layout.cp_heads, " by heads")];
      ++seen[cat("tp ", run->layout.tp, run->layout.cuts_stream() ? " with sequence parallelism" : "")];
      if (run->layout.in_blocks()) ++seen[cat("tp ", spec::word(run->layout.tp_kind))];
      if (run->model.experts > 0) ++seen[cat("ep ", run->layout.ep, ", etp ", run->layout.etp)];
      ++seen[cat(run->layout.ranks(), " ranks")];
    }
    if ((i + 1) % 20 == 0)
      std::fprintf(stderr, "%zu of %zu pairs, %.0f s left\n", i + 1, count,
                   (now_seconds() - begin) / static_cast<double>(i + 1) * static_cast<double>(count - i - 1));
  }
  std::printf("| of the layouts | times |\n|---|---|\n");
  for (const auto& [name, times] : seen) std::printf("| %s | %d |\n", name.c_str(), times);
  std::printf(
      "\n%d of %zu pairs go on as if nothing had happened (%d of equal layouts in fp32, bf16 or fp16: bit "
      "for bit; the others in fp64 within 1e-10, worst %.1e), %.0f s\n",
      passed, count, equal, worst, now_seconds() - begin);
  return passed == static_cast<int>(count) ? 0 : 1;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  const std::uint64_t count = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 100;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const std::string word = argc > 3 ? argv[3] : "";
  using tessera::Theme;
  return tessera::run(count, seed,
                      word == "experts"  ? Theme::experts
                      : word == "blocks" ? Theme::blocks
                                         : Theme::all);
}
