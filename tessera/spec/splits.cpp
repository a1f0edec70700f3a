#include "tessera/spec/splits.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

#include "tessera/base/text.hpp"

namespace tessera::spec {
namespace {

using Trouble = std::optional<std::string>;

Trouble undivided(std::int64_t ranks, const char* name, std::int64_t size) {
  if (size % ranks == 0) return {};
  return cat("does not divide ", name, " = ", size);
}

// Weights are cut by outputs and by inputs, in 3d by inputs twice.
Trouble trouble_of_grid(const Run& run) {
  const Model& model = run.model;
  const TensorGrid grid = run.layout.grid();
  const std::int64_t q = grid.columns, of_inputs = run.layout.tp_kind == TensorKind::d3 ? q * q : q;
  if (grid.ranks() != run.layout.tp) {
    const std::string shape = run.layout.tp_kind == TensorKind::d2    ? "q x q"
                              : run.layout.tp_kind == TensorKind::d25 ? cat("q x q x ", grid.layers)
                                                                      : "q x q x q";
    return cat("is not ", shape, " ranks, as layout.tp_kind wants");
  }
  for (const auto& [name, size, parts] :
       {std::tuple("model.heads", model.heads, q), std::tuple("model.kv_heads", model.kv_heads, q),
        std::tuple("model.vocab", model.vocab, q), std::tuple("model.hidden", model.hidden, of_inputs),
        std::tuple("model.heads * head_dim", model.query_size(), of_inputs),
        std::tuple("model.ffn", model.ffn, of_inputs)})
    if (size % parts != 0) return cat("needs ", name, " = ", size, " to be a multiple of ", parts);
  return {};
}

Trouble trouble_of_tp(const Run& run) {
  if (run.layout.in_blocks()) return trouble_of_grid(run);
  const Model& model = run.model;
  const std::int64_t tp = run.layout.tp;
  if (auto found = undivided(tp, "model.heads", model.heads)) return found;
  if (model.kv_heads % tp != 0 && tp % model.kv_heads != 0)
    return cat("neither divides model.kv_heads = ", model.kv_heads, " nor is a multiple of it");
  const bool has_dense = model.experts == 0 || model.dense_layers > 0;
  if (auto found = undivided(tp, "model.ffn", model.ffn); found && has_dense) return found;
  if (auto found =
          undivided(tp, "the width of model.shared_experts", model.shared_experts * model.expert_width()))
    return found;
  if (auto found = undivided(tp, "model.vocab", model.vocab)) return found;
  if (!run.layout.sequence_parallel && model.experts == 0) return {};
  if (run.layout.cp == 1) return undivided(tp, "model.sequence", model.sequence);
  return undivided(tp, "model.sequence / layout.cp", model.sequence / run.layout.cp);
}

// A ring's places hold two chunks each, of which the ranks that exchange heads hold equal parts.
Trouble trouble_of_cp(const Run& run) {
  const std::int64_t cp = run.layout.cp, heads = run.layout.cp_heads, ring = cp / heads;
  if (cp % heads != 0) return cat("is not divisible by layout.cp_heads = ", heads);
  const std::int64_t sequence = run.model.sequence;
  if (sequence % cp != 0) return cat("does not divide model.sequence = ", sequence);
  if (ring > 1 && sequence % (2 * ring) != 0)
    return cat("makes a ring of ", ring, ", which cuts model.sequence = ", sequence, " into ", 2 * ring,
               " chunks, but they would not be equal");
  return {};
}

Trouble trouble_of_cp_heads(const Run& run) {
  const std::int64_t heads = run.model.heads / run.layout.tp_channels();
  if (heads % run.layout.cp_heads == 0) return {};
  return cat("does not divide the ", heads, " query heads of a rank (model.heads / layout.tp)");
}

Trouble trouble_of_etp(const Run& run) {
  if (run.model.experts == 0) return {};
  if (auto found = undivided(run.layout.etp, "the width of an expert", run.model.expert_width()))
    return found;
  return undivided(run.layout.etp, "the ranks of layout.dp_shard, cp and tp",
                   run.layout.dp_shard * run.layout.cp * run.layout.tp);
}

Trouble trouble_of_ep(const Run& run) {
  if (run.model.experts == 0) return {};
  if (auto found = undivided(run.layout.ep, "model.experts", run.model.experts)) return found;
  return undivided(run.layout.ep, "the ranks of layout.dp_shard, cp and tp, over layout.etp",
                   run.layout.dp_shard * run.layout.cp * run.layout.tp / run.layout.etp);
}

struct Split {
  const char* key;
  std::int64_t Layout::*size;
  Trouble (*trouble_of)(const Run&);
};
// Each takes those before it to divide.
constexpr Split kSplits[] = {{"layout.cp", &Layout::cp, trouble_of_cp},
                             {"layout.tp", &Layout::tp, trouble_of_tp},
                             {"layout.cp_heads", &Layout::cp_heads, trouble_of_cp_heads},
                             {"layout.etp", &Layout::etp, trouble_of_etp},
                             {"layout.ep", &Layout::ep, trouble_of_ep}};

// The nearest sizes below and above with which everything divides.
std::string nearest_sizes(const Run& run, const Split& split) {
  constexpr std::int64_t kFar = 4;
  Run tried = run;
  const auto fits = [&](std::int64_t size) {
    tried.layout.*split.size = size;
    return std::ranges::none_of(kSplits,
                                [&](const Split& each) { return each.trouble_of(tried).has_value(); });
  };
  // What all sizes divide is one of these; a grid may have as many ranks as columns squared, or more.
  constexpr std::int64_t kMostOfGrid = 1 << 16;
  const std::int64_t size = run.layout.*split.size,
                     most =
                         run.layout.in_blocks() ? kMostOfGrid : std::max(run.model.sequence, run.model.heads);
  std::vector<std::string> near;
  for (std::int64_t smaller = std::min(size - 1, most); smaller >= 1 && near.empty(); --smaller)
    if (fits(smaller)) near.push_back(cat(smaller));
  for (std::int64_t larger = size + 1; larger <= std::min(kFar * size, most); ++larger)
    if (fits(larger)) {
      near.push_back(cat(larger));
      break;
    }
  return near.empty() ? "" : "; the nearest possible: " + join(near, ", ");
}

}  // namespace

std::vector<SplitProblem> split_problems(const Run& run) {
  for (const Split& split : kSplits)
    if (const Trouble trouble = split.trouble_of(run))
      return {{split.key, *trouble + nearest_sizes(run, split)}};
  return {};
}

}  // namespace tessera::spec
