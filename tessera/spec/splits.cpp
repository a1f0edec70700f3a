#include "tessera/spec/splits.hpp"

#include <functional>
#include <optional>

#include "tessera/base/text.hpp"

namespace tessera::spec {
namespace {

using Trouble = std::optional<std::string>;

Trouble undivided(std::int64_t ranks, const char* name, std::int64_t size) {
  if (size % ranks == 0) return {};
  return cat("does not divide ", name, " = ", size);
}

Trouble trouble_of_tp(const Run& run, std::int64_t tp) {
  const Model& model = run.model;
  if (auto found = undivided(tp, "model.heads", model.heads)) return found;
  if (model.kv_heads % tp != 0 && tp % model.kv_heads != 0)
    return cat("neither divides model.kv_heads = ", model.kv_heads, " nor is a multiple of it");
  if (auto found = undivided(tp, "model.ffn", model.ffn)) return found;
  if (auto found = undivided(tp, "model.vocab", model.vocab)) return found;
  if (!run.layout.sequence_parallel) return {};
  if (run.layout.cp == 1) return undivided(tp, "model.sequence", model.sequence);
  return undivided(tp, "model.sequence / layout.cp", model.sequence / run.layout.cp);
}

// A ring's places hold two chunks each, of which the ranks that exchange heads hold equal parts.
Trouble trouble_of_cp(const Run& run, std::int64_t cp) {
  const std::int64_t heads = run.layout.cp_heads, ring = cp / heads;
  if (cp % heads != 0) return cat("is not divisible by layout.cp_heads = ", heads);
  const std::int64_t sequence = run.model.sequence;
  if (sequence % cp != 0) return cat("does not divide model.sequence = ", sequence);
  if (ring > 1 && sequence % (2 * ring) != 0)
    return cat("makes a ring of ", ring, ", which cuts model.sequence = ", sequence, " into ", 2 * ring,
               " chunks, but they would not be equal");
  return {};
}

Trouble trouble_of_cp_heads(const Run& run, std::int64_t cp_heads) {
  const std::int64_t heads = run.model.heads / run.layout.tp;
  if (heads % cp_heads == 0) return {};
  return cat("does not divide the ", heads, " query heads of a rank (model.heads / layout.tp)");
}

void judge(const char* key, std::int64_t size, const std::function<Trouble(std::int64_t)>& trouble_of,
           std::vector<SplitProblem>& out) {
  const Trouble trouble = trouble_of(size);
  if (!trouble) return;
  std::vector<std::string> near;
  for (std::int64_t smaller = size - 1; smaller >= 1 && near.empty(); --smaller)
    if (!trouble_of(smaller)) near.push_back(cat(smaller));
  constexpr std::int64_t kFar = 4;
  for (std::int64_t larger = size + 1; larger <= kFar * size; ++larger)
    if (!trouble_of(larger)) {
      near.push_back(cat(larger));
      break;
    }
  out.push_back({key, cat(*trouble, near.empty() ? "" : "; the nearest possible: " + join(near, ", "))});
}

}  // namespace

std::vector<SplitProblem> split_problems(const Run& run) {
  std::vector<SplitProblem> out;
  judge(
      "layout.cp", run.layout.cp, [&](std::int64_t cp) { return trouble_of_cp(run, cp); }, out);
  if (!out.empty()) return out;
  judge(
      "layout.tp", run.layout.tp, [&](std::int64_t tp) { return trouble_of_tp(run, tp); }, out);
  if (!out.empty()) return out;
  judge(
      "layout.cp_heads", run.layout.cp_heads,
      [&](std::int64_t heads) { return trouble_of_cp_heads(run, heads); }, out);
  return out;
}

}  // namespace tessera::spec
