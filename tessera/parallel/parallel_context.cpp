#include "tessera/parallel/parallel_context.hpp"

#include "tessera/collective/autograd_collectives.hpp"
#include "tessera/program/ir/context_parallel.hpp"
#include "tessera/tensor/device.hpp"

namespace tessera::parallel {

using collective::Placed;

namespace {
Placed on_tp(const tensor::Tensor& x, const char* name, const collective::Placement& placement) {
  return {x, name, {{"tp", placement}}};
}

// Samples are cut over layers, then over rows, or columns inside of a branch of 3d.
Grid grid_of(const collective::Axis& row, const collective::Axis& column, const collective::Axis& layer,
             const ContextOptions& options) {
  const auto share = [&](const collective::Group& inner) {
    const collective::Group& outer = layer.group;
    return Share{static_cast<std::int64_t>(outer.rank()) * inner.size() + inner.rank(),
                 static_cast<std::int64_t>(outer.size()) * inner.size()};
  };
  const bool is_cube = options.blocks == ProductAxes::Form::cube;
  const ProductAxes square{options.blocks, column.group, row.group, {}, options.gathers_blocks};
  if (!is_cube) return {square, square, share(row.group), share(row.group), column, column};
  return {{options.blocks, row.group, layer.group, column.group},
          {options.blocks, column.group, layer.group, row.group},
          share(row.group),
          share(column.group),
          column,
          row};
}
}  // namespace

ParallelContext make_context(const program::Tables& tables, std::span<const collective::Group> groups,
                             const ContextOptions& options) {
  const auto axis = [&](const char* name) {
    const std::int16_t set = tables.set_called(name);
    return collective::Axis{name, set < 0 ? collective::Group() : groups[static_cast<std::size_t>(set)]};
  };
  ParallelContext out{.tp = axis("tp"),
                      .cuts_stream = options.cuts_stream,
                      .regathers = options.regathers,
                      .grid = {},
                      .cp = {axis("cp_ring"), axis("cp_heads")},
                      .positions = {},
                      .positions_there = {},
                      .loss_chunk = options.loss_chunk,
                      .experts = {axis("experts"), options.expert_slices},
                      .same_samples = axis("cp+tp"),
                      .batch = axis("batch")};
  if (options.blocks != ProductAxes::Form::whole)
    out.grid = grid_of(axis("tp_row"), axis("tp_col"), axis("tp_depth"), options);
  const collective::Group &ring = out.cp.ring.group, &heads = out.cp.heads.group;
  out.positions =
      program::context_positions(options.sequence, {ring.size(), heads.size()}, {ring.rank(), heads.rank()});
  out.positions_there = tensor::on_device(tensor::indices(out.positions), options.device);
  return out;
}

Share ParallelContext::stream_share() const {
  if (grid.in_blocks()) return grid.stream;
  return cuts_stream ? Share{tp.group.rank(), tp.group.size()} : Share{};
}

std::int64_t first_of_stream(const ParallelContext& context, std::int64_t tokens) {
  const Share share = context.stream_share();
  return tokens / share.parts * share.part;
}

Rows stream_rows(const ParallelContext& context, const tensor::Tensor& samples, std::int64_t channels) {
  if (!samples.defined()) return {};
  return {samples, context.positions_there,
          first_of_stream(context, samples.numel() * std::ssize(context.positions)),
          channels * context.grid.stream_channels.group.rank()};
}

tensor::Tensor from_stream(const tensor::Tensor& x_TH, const ParallelContext& context) {
  if (context.tp.group.size() == 1) return x_TH;
  if (context.cuts_stream)
    return gather_replicated(on_tp(x_TH, "stream", collective::sharded(0)), context.tp).tensor;
  return replicate(on_tp(x_TH, "stream", collective::kInvariant), context.tp).tensor;
}

tensor::Tensor to_stream(const tensor::Tensor& sums_TH, const ParallelContext& context,
                         collective::Result result) {
  if (context.tp.group.size() == 1) return sums_TH;
  const Placed sums = on_tp(sums_TH, "sums", collective::kPartial);
  if (context.cuts_stream) return reduce_scatter(sums, context.tp, 0, {}, result).tensor;
  return all_reduce_invariant(sums, context.tp, result).tensor;
}

}  // namespace tessera::parallel
