#include "tessera/plan/describe.hpp"

#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/plan/llama.hpp"

namespace tessera::plan {
namespace {

using program::Bucket;
using program::Placement;
using program::Tables;

enum AxisIndex : std::int16_t { kPp, kDpReplicate, kDpShard, kCp, kTp };
constexpr std::int16_t kDataAxes =
    0;  // the only axis set: where samples and tokens differ, gradients are partial

void add_mesh(const spec::Layout& layout, Tables& tables) {
  tables.axes = {{"pp", layout.pp},
                 {"dp_replicate", layout.dp_replicate},
                 {"dp_shard", layout.dp_shard},
                 {"cp", layout.cp},
                 {"tp", layout.tp}};
  tables.axis_sets = {{"dp", {kDpReplicate, kDpShard, kCp}}};
  tables.groups = {kDataAxes};
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

Tables describe(const spec::Run& run) {
  const spec::Model& model = run.model;
  const spec::Layout& layout = run.layout;
  CHECK(model.family == spec::Family::llama, "only the Llama family is described");
  CHECK(layout.pp == 1 && layout.cp == 1 && layout.tp == 1 && layout.ep == 1 && layout.zero == 0,
        "only pure data parallelism is described");
  Tables tables;
  add_mesh(layout, tables);
  const std::int64_t num_micro = run.num_micro_batches();
  CHECK(num_micro > 0 && num_micro <= std::numeric_limits<std::int32_t>::max(), num_micro, " micro-batches");
  tables.num_micro = static_cast<std::int32_t>(num_micro);
  tables.numbers = {{"tokens", program::Role::tokens},
                    {"loss", program::Role::loss},
                    {"norm", program::Role::norm},
                    {"finite", program::Role::finite}};

  const std::uint32_t embedding = add_bucket(run, "embedding", embedding_parameters(model), true, tables);
  std::vector<std::uint32_t> blocks;
  for (std::int64_t i = 0; i < model.layers; ++i)
    blocks.push_back(add_bucket(run, cat("block.", i), block_parameters(model, i), true, tables));
  const std::uint32_t head =
      model.tied_embeddings ? embedding : add_bucket(run, "head", head_parameters(model), true, tables);
  const std::uint32_t norms = add_bucket(run, "norms", norm_parameters(model), false, tables);

  const std::int64_t hidden_bytes =
      layout.micro_batch * model.sequence * model.hidden * bytes_of(compute_dtype(layout.precision));
  add_segment(embedding_unit(run), {embedding}, false, hidden_bytes, tables);
  for (std::int64_t i = 0; i < model.layers; ++i)
    add_segment(block_unit(run, i), {blocks[static_cast<std::size_t>(i)], norms}, false, hidden_bytes,
                tables);
  add_segment(head_unit(run), {head, norms}, true, hidden_bytes, tables);
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
