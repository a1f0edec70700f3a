#include "tessera/plan/describe.hpp"

#include <limits>

#include "tessera/base/error.hpp"
#include "tessera/plan/family.hpp"
#include "tessera/plan/pieces.hpp"

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

  Blueprint parts = blueprint(run);
  const std::uint32_t embedding =
      add_bucket(run, "embedding", std::move(parts.embedding_parameters), true, tables);
  std::vector<std::uint32_t> blocks;
  for (std::size_t i = 0; i < parts.blocks.size(); ++i)
    blocks.push_back(
        add_bucket(run, parts.blocks[i].name, std::move(parts.block_parameters[i]), true, tables));
  const std::uint32_t head = parts.head_parameters.empty()
                                 ? embedding
                                 : add_bucket(run, "head", std::move(parts.head_parameters), true, tables);
  const std::uint32_t vectors = add_bucket(run, "vectors", std::move(parts.vectors), false, tables);

  const std::int64_t hidden_bytes =
      layout.micro_batch * model.sequence * model.hidden * bytes_of(compute_dtype(layout.precision));
  add_segment(std::move(parts.embedding), {embedding}, false, hidden_bytes, tables);
  for (std::size_t i = 0; i < parts.blocks.size(); ++i)
    add_segment(std::move(parts.blocks[i]), {blocks[i], vectors}, false, hidden_bytes, tables);
  add_segment(std::move(parts.head), {head, vectors}, true, hidden_bytes, tables);
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
