#include "tessera/plan/describe.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "tessera/base/error.hpp"
#include "tessera/plan/family.hpp"
#include "tessera/plan/pieces.hpp"
#include "tessera/plan/segments.hpp"

namespace tessera::plan {
namespace {

using program::Bucket;
using program::Placement;
using program::Tables;

enum AxisIndex : std::int16_t { kPp, kDpReplicate, kDpShard, kCp, kTp };
constexpr std::int16_t kDataAxes = 0;  // axis set: where samples and tokens differ, gradients are partial

std::int16_t add_set(program::AxisSet set, Tables& tables) {
  const auto index = static_cast<std::int16_t>(tables.axis_sets.size());
  tables.axis_sets.push_back(std::move(set));
  tables.groups.push_back(index);
  return index;
}

void add_mesh(const spec::Layout& layout, bool is_pipeline, Tables& tables) {
  tables.axes = {{"pp", layout.pp},
                 {"dp_replicate", layout.dp_replicate},
                 {"dp_shard", layout.dp_shard},
                 {"cp", layout.cp},
                 {"tp", layout.tp}};
  std::vector<std::int16_t> parts = {kDpReplicate, kDpShard, kCp};
  add_set({"dp", parts}, tables);
  tables.numbers = {{"tokens", program::Role::tokens, parts}};
  if (is_pipeline) {
    tables.stage_axis = kPp;
    tables.values_over = add_set({"pp", {kPp}}, tables);
    tables.gradients_over = add_set({"pp.gradients", {kPp}}, tables);
    parts.insert(parts.begin(), kPp);
  }
  tables.numbers.push_back({"loss", program::Role::loss, parts});
  tables.numbers.push_back({"norm", program::Role::norm, parts});
  tables.numbers.push_back({"finite", program::Role::finite, parts});
  tables.class_of_rank.assign(static_cast<std::size_t>(layout.ranks()), 0);
}

// Where buckets are summed, and cut.
struct Channels {
  std::int16_t reduced = kDataAxes, shared = -1, sharded = -1;
};

// With zero 1 and up the ranks of dp_shard hold a part each; replicas of a part are summed last.
Channels add_channels(const spec::Layout& layout, Tables& tables) {
  if (layout.zero == 0) return {};
  Channels out;
  out.sharded = add_set({"shard", {kDpShard, kCp}}, tables);
  out.reduced = add_set({"shard.gradients", {kDpShard, kCp}}, tables);
  if (layout.dp_replicate > 1) out.shared = add_set({"replicas", {kDpReplicate}}, tables);
  return out;
}

// Two stages hold the embedding's bucket: its gradient is partial over them too.
void tie(std::span<const std::uint32_t> rank_of_unit, const spec::Layout& layout, Bucket& bucket,
         Tables& tables) {
  if (rank_of_unit.empty() || rank_of_unit.front() == rank_of_unit.back()) return;
  const auto [low, high] = std::minmax(rank_of_unit.front(), rank_of_unit.back());
  std::vector<std::int16_t> axes = {kPp, kDpReplicate};
  if (layout.zero == 0) axes.insert(axes.end(), {kDpShard, kCp});
  (layout.zero == 0 ? bucket.reduced_over : bucket.shared_over) =
      add_set({"tied", axes, {low, high}}, tables);
  bucket.placement.insert(bucket.placement.begin(), {kPp, Placement::replicated});
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

struct BucketRule {
  const spec::Run& run;
  Channels channels;
};

std::uint32_t add_bucket(const BucketRule& rule, const std::string& name,
                         std::vector<program::Parameter> parameters, bool weight_decay, Tables& tables) {
  const spec::Run& run = rule.run;
  Bucket bucket{.name = name, .parameters = std::move(parameters), .weight_decay = weight_decay};
  bucket.placement = {{kDpReplicate, Placement::replicated},
                      {kDpShard, Placement::replicated},
                      {kCp, Placement::replicated},
                      {kTp, Placement::invariant}};
  bucket.reduced_over = rule.channels.reduced;
  bucket.shared_over = rule.channels.shared;
  bucket.sharded_over = rule.channels.sharded;
  bucket.storage = bucket.gradient = storage_dtype(run.layout.precision);
  bucket.compute = compute_dtype(run.layout.precision);
  bucket.delayed = run.layout.schedule == spec::Schedule::pipedream_2bw;
  bucket.full_resident = !bucket.delayed && bucket.storage == bucket.compute &&
                         tables.size_of(bucket.sharded_over) == 1 &&
                         !spec::offloads(run.layout, spec::Offload::parameters);
  bucket.state_bytes = state_bytes(run.training, bytes_of(bucket.storage));
  lay_out(bucket, run.layout.dp_shard * run.layout.cp);
  tables.buckets.push_back(std::move(bucket));
  return static_cast<std::uint32_t>(tables.buckets.size() - 1);
}

// Norms and biases of the units after the embedding, one bucket per pipeline rank.
void add_vectors(const BucketRule& rule, std::span<const std::uint32_t> rank_of_unit,
                 std::vector<std::vector<program::Parameter>> of_units, Tables& tables) {
  std::map<std::uint32_t, std::vector<program::Parameter>> by_rank;
  for (std::size_t i = 0; i < of_units.size(); ++i)
    for (auto& parameter : of_units[i])
      by_rank[rank_of_unit.empty() ? 0 : rank_of_unit[i + 1]].push_back(std::move(parameter));
  for (auto& [rank, parameters] : by_rank)
    add_bucket(rule, rank_of_unit.empty() ? "vectors" : cat("vectors.", rank), std::move(parameters), false,
               tables);
}

}  // namespace

Tables describe(const spec::Run& run, std::span<const std::uint32_t> rank_of_unit) {
  return describe(run, rank_of_unit, cuts(run.layout, blueprint(run).blocks));
}

Tables describe(const spec::Run& run, std::span<const std::uint32_t> rank_of_unit, const Cuts& cuts) {
  const spec::Layout& layout = run.layout;
  CHECK(layout.cp == 1 && layout.tp == 1 && layout.ep == 1,
        "only pipelines and data parallelism are described");
  Blueprint parts = blueprint(run);
  Tables tables;
  add_mesh(layout, !rank_of_unit.empty(), tables);
  const BucketRule rule{run, add_channels(layout, tables)};
  const std::int64_t num_micro = run.num_micro_batches();
  CHECK(num_micro > 0 && num_micro <= std::numeric_limits<std::int32_t>::max(), num_micro, " micro-batches");
  tables.num_micro = static_cast<std::int32_t>(num_micro);
  const std::uint32_t embedding =
      add_bucket(rule, "embedding", std::move(parts.embedding_parameters), true, tables);
  for (std::size_t i = 0; i < parts.blocks.size(); ++i)
    add_bucket(rule, parts.blocks[i].name, std::move(parts.block_parameters[i]), true, tables);
  if (parts.head_parameters.empty())
    tie(rank_of_unit, layout, tables.buckets[embedding], tables);
  else
    add_bucket(rule, "head", std::move(parts.head_parameters), true, tables);
  parts.block_vectors.push_back(std::move(parts.head_vectors));
  add_vectors(rule, rank_of_unit, std::move(parts.block_vectors), tables);

  SegmentTable segments(layout.micro_batch * run.model.sequence, compute_dtype(layout.precision), tables);
  const Cut whole_embedding = uncut(parts.embedding), whole_head = uncut(parts.head);
  segments.add(std::move(parts.embedding), whole_embedding);
  for (std::size_t i = 0; i < parts.blocks.size(); ++i) segments.add(std::move(parts.blocks[i]), cuts.at(i));
  segments.add(std::move(parts.head), whole_head, /*is_last=*/true);
  assign_ends(tables);
  return tables;
}

std::int64_t num_parameters(const Tables& tables) {
  std::int64_t total = 0;
  for (const Bucket& bucket : tables.buckets)
    for (const program::Parameter& parameter : bucket.parameters)
      total += num_elements(parameter.whole_shape(tables.size_of(bucket.cut_over)));
  return total;
}

}  // namespace tessera::plan
