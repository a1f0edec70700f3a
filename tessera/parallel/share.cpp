#include "tessera/parallel/share.hpp"

#include "tessera/collective/typed.hpp"

namespace tessera::parallel {

using collective::Placed;

namespace {
Placed on_tp(const tensor::Tensor& x, const char* name, const collective::Placement& placement) {
  return {x, name, {{"tp", placement}}};
}
}  // namespace

std::int64_t first_of_stream(const Share& share, std::int64_t tokens) {
  return share.cuts_stream ? tokens / share.tp.group.size() * share.tp.group.rank() : 0;
}

Rows stream_rows(const Share& share, std::span<const std::uint64_t> samples) {
  const auto tokens = static_cast<std::int64_t>(samples.size() * share.positions.size());
  return {samples, share.positions, first_of_stream(share, tokens)};
}

tensor::Tensor from_stream(const tensor::Tensor& x_TH, const Share& share) {
  if (share.tp.group.size() == 1) return x_TH;
  if (share.cuts_stream)
    return gather_replicated(on_tp(x_TH, "stream", collective::sharded(0)), share.tp).tensor;
  return replicate(on_tp(x_TH, "stream", collective::kInvariant), share.tp).tensor;
}

tensor::Tensor to_stream(const tensor::Tensor& sums_TH, const Share& share) {
  if (share.tp.group.size() == 1) return sums_TH;
  const Placed sums = on_tp(sums_TH, "sums", collective::kPartial);
  if (share.cuts_stream) return reduce_scatter(sums, share.tp, 0).tensor;
  return all_reduce_invariant(sums, share.tp).tensor;
}

}  // namespace tessera::parallel
