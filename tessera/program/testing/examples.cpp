#include "tessera/program/testing/examples.hpp"

#include <algorithm>
#include <map>

#include "tessera/base/text.hpp"

namespace tessera::program {

namespace {

// Axis 0 shards; an axis of replicas comes in at the end.
void shard(const Example& example, bool is_far, Tables& tables) {
  const auto add_set = [&](const AxisSet& set) {
    tables.axis_sets.push_back(set);
    tables.groups.push_back(static_cast<std::int16_t>(tables.groups.size()));
    return static_cast<std::int16_t>(tables.axis_sets.size() - 1);
  };
  const std::int16_t gathers = add_set({"shard", {0}}), gradients = add_set({"shard.gradients", {0}});
  std::int16_t replicas = -1;
  if (example.replicas > 1) {
    tables.axes.push_back({"replicas", example.replicas});
    const auto axis = static_cast<std::int16_t>(tables.axes.size() - 1);
    replicas = add_set({"replicas", {axis}});
    for (Number& number : tables.numbers) number.partial_over.push_back(axis);
    tables.class_of_rank.resize(tables.class_of_rank.size() * static_cast<std::size_t>(example.replicas), 0);
    if (example.tied && is_far) tables.axis_sets[3].axes = {1, axis};
  } else if (example.tied && is_far) {
    tables.axis_sets[3].axes = {1};
  }
  for (Bucket& bucket : tables.buckets) {
    const bool is_tied = tables.stage_axis >= 0 && bucket.reduced_over == 3;
    bucket.full_resident = false;
    bucket.reduced_over = gradients;
    bucket.sharded_over = gathers;
    bucket.shared_over = is_tied ? std::int16_t{3} : replicas;
  }
}

}  // namespace

Tables example_tables(const Example& example) {
  Tables tables;
  tables.num_micro = example.num_micro;
  const auto& position = example.rank_of_segment;
  tables.axes = {{"dp", example.dp}};
  tables.axis_sets = {{"dp", {0}}};
  std::vector<std::int16_t> all = {0};
  if (!position.empty()) {
    tables.axes.push_back({"pp", *std::ranges::max_element(position) + std::int64_t{1}});
    tables.axis_sets.push_back({"pp", {1}});
    tables.axis_sets.push_back({"pp.gradients", {1}});
    tables.stage_axis = tables.values_over = 1;
    tables.gradients_over = 2;
    all.push_back(1);
  }
  const bool is_far = !position.empty() && position.front() != position.back();
  if (example.tied && is_far)
    tables.axis_sets.push_back(
        {"tied",
         {1, 0},
         {std::min(position.front(), position.back()), std::max(position.front(), position.back())}});
  for (std::size_t set = 0; set < tables.axis_sets.size(); ++set)
    tables.groups.push_back(static_cast<std::int16_t>(set));
  std::int64_t num_ranks = 1;
  for (const Axis& axis : tables.axes) num_ranks *= axis.size;
  tables.class_of_rank.assign(static_cast<std::size_t>(num_ranks), 0);
  tables.numbers = {{"tokens", Role::tokens, {0}},
                    {"loss", Role::loss, all},
                    {"norm", Role::norm, all},
                    {"finite", Role::finite, all}};
  const auto add_bucket = [&](const std::string& name, bool weight_decay) {
    Bucket bucket{.name = name, .parameters = {{.name = name + ".weight", .shape = {8, 8}}}};
    bucket.weight_decay = weight_decay;
    bucket.full_resident = example.resident;
    bucket.compute = example.resident ? Dtype::fp32 : Dtype::bf16;
    bucket.placement = {{0, Placement::replicated}};
    bucket.reduced_over = 0;
    lay_out(bucket);
    tables.buckets.push_back(bucket);
    return static_cast<std::uint32_t>(tables.buckets.size() - 1);
  };
  const std::uint32_t num_segments = example.num_blocks + 2;
  for (std::uint32_t i = 0; i < num_segments; ++i) {
    const bool is_first = i == 0, is_last = i + 1 == num_segments;
    const std::string name = is_first ? "embedding" : is_last ? "head" : cat("block.", i - 1);
    tables.units.push_back({name, {{.name = "all", .flops = 1, .tape_bytes = 100, .work_bytes = 10}}});
    Segment segment{.unit = i, .num_pieces = 1};
    segment.buckets = {is_last && example.tied ? 0 : add_bucket(name, true)};
    if (!is_first) segment.reads = {i - 1};
    if (is_last) segment.losses = {{0, 1}};
    if (!is_last) {
      segment.writes = {i};
      tables.values.push_back({cat("hidden.", i), 1000});
    }
    tables.segments.push_back(segment);
  }
  if (example.tied && is_far) tables.buckets[0].reduced_over = 3;
  std::map<std::uint32_t, std::uint32_t> norms;  // by position
  for (std::uint32_t i = 1; i < num_segments; ++i) {
    const std::uint32_t at = position.empty() ? 0 : position[i];
    if (!norms.contains(at)) norms[at] = add_bucket(position.empty() ? "norms" : cat("norms.", at), false);
    tables.segments[i].buckets.push_back(norms[at]);
  }
  if (example.sharded) shard(example, is_far, tables);
  assign_ends(tables);
  return tables;
}

Program example_pipeline(Example example, const Order& order, const std::vector<std::uint32_t>& counts,
                         const GenerateOptions& options) {
  Staging staging{{0}, {std::vector<StageCost>(counts.size())}};
  for (std::size_t stage = 0; stage < counts.size(); ++stage) {
    example.rank_of_segment.insert(example.rank_of_segment.end(), counts[stage], order.rank_of_stage[stage]);
    staging.first_segment.push_back(staging.first_segment.back() + counts[stage]);
  }
  example.num_micro = order.num_micro;
  example.num_blocks = staging.first_segment.back() - 2;
  return generate(example_tables(example), order, staging, options);
}

}  // namespace tessera::program
