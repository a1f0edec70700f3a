#include "tessera/program/examples.hpp"

#include "tessera/base/text.hpp"

namespace tessera::program {

Tables example_tables(const Example& example) {
  Tables tables;
  tables.num_micro = example.num_micro;
  tables.axes = {{"dp", example.dp}};
  tables.axis_sets = {{"dp", {0}}};
  tables.groups = {0};
  tables.class_of_rank.assign(static_cast<std::size_t>(example.dp), 0);
  tables.numbers = {
      {"tokens", Role::tokens}, {"loss", Role::loss}, {"norm", Role::norm}, {"finite", Role::finite}};
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
  const std::uint32_t norms = add_bucket("norms", false);
  for (std::uint32_t i = 1; i < num_segments; ++i) tables.segments[i].buckets.push_back(norms);
  assign_ends(tables);
  return tables;
}

}  // namespace tessera::program
