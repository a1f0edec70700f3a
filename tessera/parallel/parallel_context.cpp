#include "tessera/parallel/parallel_context.hpp"

#include "tessera/collective/autograd_collectives.hpp"

namespace tessera::parallel {

using collective::Placed;

namespace {
Placed on_tp(const tensor::Tensor& x, const char* name, const collective::Placement& placement) {
  return {x, name, {{"tp", placement}}};
}
}  // namespace

std::int64_t first_of_stream(const ParallelContext& context, std::int64_t tokens) {
  return context.cuts_stream ? tokens / context.tp.group.size() * context.tp.group.rank() : 0;
}

Rows stream_rows(const ParallelContext& context, std::span<const std::uint64_t> samples) {
  const auto tokens = static_cast<std::int64_t>(samples.size() * context.positions.size());
  return {samples, context.positions, first_of_stream(context, tokens)};
}

tensor::Tensor from_stream(const tensor::Tensor& x_TH, const ParallelContext& context) {
  if (context.tp.group.size() == 1) return x_TH;
  if (context.cuts_stream)
    return gather_replicated(on_tp(x_TH, "stream", collective::sharded(0)), context.tp).tensor;
  return replicate(on_tp(x_TH, "stream", collective::kInvariant), context.tp).tensor;
}

tensor::Tensor to_stream(const tensor::Tensor& sums_TH, const ParallelContext& context) {
  if (context.tp.group.size() == 1) return sums_TH;
  const Placed sums = on_tp(sums_TH, "sums", collective::kPartial);
  if (context.cuts_stream) return reduce_scatter(sums, context.tp, 0).tensor;
  return all_reduce_invariant(sums, context.tp).tensor;
}

}  // namespace tessera::parallel
