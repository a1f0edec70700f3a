#include "tessera/plan/describe.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/plan/family.hpp"
#include "tessera/plan/pieces.hpp"

namespace tessera::plan {
namespace {

using program::Bucket;
using program::Placement;
using program::Tables;

enum AxisIndex : std::int16_t { kPp, kDpReplicate, kDpShard, kCp, kTp };
// Axis sets: where samples and tokens differ, gradients are partial; the rest only in a pipeline.
enum SetIndex : std::int16_t { kDataAxes, kStages, kStageGradients, kTiedStages };

void add_mesh(const spec::Layout& layout, std::span<const std::uint32_t> rank_of_unit, bool tied,
              Tables& tables) {
  tables.axes = {{"pp", layout.pp},
                 {"dp_replicate", layout.dp_replicate},
                 {"dp_shard", layout.dp_shard},
                 {"cp", layout.cp},
                 {"tp", layout.tp}};
  tables.axis_sets = {{"dp", {kDpReplicate, kDpShard, kCp}}};
  std::vector<std::int16_t> parts = tables.axis_sets[kDataAxes].axes;
  tables.numbers = {{"tokens", program::Role::tokens, parts}};
  if (!rank_of_unit.empty()) {
    tables.axis_sets.push_back({"pp", {kPp}});
    tables.axis_sets.push_back({"pp.gradients", {kPp}});
    tables.stage_axis = kPp;
    tables.values_over = kStages;
    tables.gradients_over = kStageGradients;
    parts.insert(parts.begin(), kPp);
    const auto [low, high] = std::minmax(rank_of_unit.front(), rank_of_unit.back());
    if (tied && low != high) tables.axis_sets.push_back({"tied", parts, {low, high}});
  }
  for (std::size_t set = 0; set < tables.axis_sets.size(); ++set)
    tables.groups.push_back(static_cast<std::int16_t>(set));
  tables.numbers.push_back({"loss", program::Role::loss, parts});
  tables.numbers.push_back({"norm", program::Role::norm, parts});
  tables.numbers.push_back({"finite", program::Role::finite, parts});
  tables.class_of_rank.assign(static_cast<std::size_t>(layout.ranks()), 0);
}

std::int64_t state_bytes(const spec::Training& training, std::int64_t storage_bytes) {
  switch (training.optimizer) {
    case spec::Optimizer::adamw:
      return 2 * storage_bytes;
    case spec::Optimizer::sgd:
      break;
  }
  return training.momentum > 0 ? storage_bytes : 0;
}

std::uint32_t add_bucket(const spec::Run& run, const std::string& name,
                         std::vector<program::Parameter> parameters, bool weight_decay, Tables& tables) {
  Bucket bucket{.name = name, .parameters = std::move(parameters), .weight_decay = weight_decay};
  bucket.placement = {{kDpReplicate, Placement::replicated},
                      {kDpShard, Placement::replicated},
                      {kCp, Placement::replicated},
                      {kTp, Placement::invariant}};
  bucket.reduced_over = kDataAxes;
  bucket.storage = bucket.gradient = storage_dtype(run.layout.precision);
  bucket.compute = compute_dtype(run.layout.precision);
  bucket.full_resident = bucket.storage == bucket.compute;
  bucket.state_bytes = state_bytes(run.training, bytes_of(bucket.storage));
  lay_out(bucket);
  tables.buckets.push_back(std::move(bucket));
  return static_cast<std::uint32_t>(tables.buckets.size() - 1);
}

// Norms and biases of the units after the embedding, one bucket per pipeline rank. Returns each unit's.
std::vector<std::uint32_t> add_vectors(const spec::Run& run, std::span<const std::uint32_t> rank_of_unit,
                                       std::vector<std::vector<program::Parameter>> of_units,
                                       Tables& tables) {
  const auto rank_of = [&](std::size_t i) { return rank_of_unit.empty() ? 0 : rank_of_unit[i + 1]; };
  std::map<std::uint32_t, std::vector<program::Parameter>> by_rank;
  for (std::size_t i = 0; i < of_units.size(); ++i)
    for (auto& parameter : of_units[i]) by_rank[rank_of(i)].push_back(std::move(parameter));
  std::map<std::uint32_t, std::uint32_t> bucket_of_rank;
  for (auto& [rank, parameters] : by_rank)
    bucket_of_rank[rank] = add_bucket(run, rank_of_unit.empty() ? "vectors" : cat("vectors.", rank),
                                      std::move(parameters), false, tables);
  std::vector<std::uint32_t> out;
  for (std::size_t i = 0; i < of_units.size(); ++i) out.push_back(bucket_of_rank.at(rank_of(i)));
  return out;
}

// A chain: each unit is one segment that reads the hidden values of the one before.
void add_segment(program::Unit unit, std::vector<std::uint32_t> buckets, bool is_last,
                 std::int64_t value_bytes, Tables& tables) {
  const auto at = static_cast<std::uint32_t>(tables.segments.size());
  program::Segment segment{.unit = at, .num_pieces = static_cast<std::uint32_t>(unit.pieces.size())};
  segment.buckets = std::move(buckets);
  if (at > 0) segment.reads = {at - 1};
  if (is_last) {
    segment.losses = {{.tokens = 0, .loss = 1}};
  } else {
    segment.writes = {at};
    tables.values.push_back({cat("hidden.", at), value_bytes});
  }
  tables.units.push_back(std::move(unit));
  tables.segments.push_back(std::move(segment));
}

}  // namespace

Tables describe(const spec::Run& run, std::span<const std::uint32_t> rank_of_unit) {
  const spec::Model& model = run.model;
  const spec::Layout& layout = run.layout;
  CHECK(layout.cp == 1 && layout.tp == 1 && layout.ep == 1 && layout.zero == 0,
        "only pipelines and data parallelism are described");
  Blueprint parts = blueprint(run);
  const bool tied = parts.head_parameters.empty();
  Tables tables;
  add_mesh(layout, rank_of_unit, tied, tables);
  const std::int64_t num_micro = run.num_micro_batches();
  CHECK(num_micro > 0 && num_micro <= std::numeric_limits<std::int32_t>::max(), num_micro, " micro-batches");
  tables.num_micro = static_cast<std::int32_t>(num_micro);
  const std::uint32_t embedding =
      add_bucket(run, "embedding", std::move(parts.embedding_parameters), true, tables);
  std::vector<std::uint32_t> blocks;
  for (std::size_t i = 0; i < parts.blocks.size(); ++i)
    blocks.push_back(
        add_bucket(run, parts.blocks[i].name, std::move(parts.block_parameters[i]), true, tables));
  const std::uint32_t head =
      tied ? embedding : add_bucket(run, "head", std::move(parts.head_parameters), true, tables);
  if (tables.axis_sets.size() > kTiedStages) {
    tables.buckets[embedding].reduced_over = kTiedStages;
    tables.buckets[embedding].placement.insert(tables.buckets[embedding].placement.begin(),
                                               {kPp, Placement::replicated});
  }
  parts.block_vectors.push_back(std::move(parts.head_vectors));
  const auto vectors = add_vectors(run, rank_of_unit, std::move(parts.block_vectors), tables);

  const std::int64_t hidden_bytes =
      layout.micro_batch * model.sequence * model.hidden * bytes_of(compute_dtype(layout.precision));
  add_segment(std::move(parts.embedding), {embedding}, false, hidden_bytes, tables);
  for (std::size_t i = 0; i < parts.blocks.size(); ++i)
    add_segment(std::move(parts.blocks[i]), {blocks[i], vectors[i]}, false, hidden_bytes, tables);
  add_segment(std::move(parts.head), {head, vectors.back()}, true, hidden_bytes, tables);
  for (auto& value : tables.values)
    value.channels = model.hidden, value.dtype = compute_dtype(layout.precision);
  assign_ends(tables);
  return tables;
}

std::int64_t num_parameters(const Tables& tables) {
  std::int64_t total = 0;
  for (const Bucket& bucket : tables.buckets)
    for (const program::Parameter& parameter : bucket.parameters) total += parameter.elements();
  return total;
}

}  // namespace tessera::plan
