#include "tessera/plan/communication.hpp"

#include <algorithm>
#include <utility>

#include "tessera/base/text.hpp"

namespace tessera::plan {

namespace {

std::int64_t largest_bucket_kib(const program::Program& program) {
  std::int64_t bytes = 0;
  for (const program::Bucket& bucket : program.tables.buckets)
    bytes = std::max(bytes, bucket.elements * program::bytes_of(bucket.storage));
  return bytes >> 10;
}

}  // namespace

std::string communication_words(const spec::Layout& layout) {
  if (layout.communication == spec::Communication::arrival) return "gradients are reduced as they arrive";
  return cat("gradients are reduced by priority",
             layout.slice_kib > 0 ? cat(", in slices of ", layout.slice_kib, " KiB") : "",
             layout.credit_kib > 0 ? cat(", with a credit of ", layout.credit_kib, " KiB") : "");
}

Candidate fastest_communication(const spec::Layout& asked,
                                const std::function<Candidate(const spec::Layout&)>& try_out) {
  spec::Layout layout = asked;
  layout.communication = spec::Communication::arrival;
  Candidate arrival = try_out(layout);
  layout.communication = spec::Communication::priority;
  Candidate best = try_out(layout);
  const auto is_faster = [](const Candidate& a, const Candidate& b) { return a.seconds < 0.999 * b.seconds; };
  const auto take_if_faster = [&](const spec::Layout& other) {
    Candidate candidate = try_out(other);
    if (is_faster(candidate, best)) best = std::move(candidate);
  };
  const std::int64_t largest_kib = largest_bucket_kib(best.program);
  for (const int slices : {2, 4, 8}) {
    layout.slice_kib = largest_kib / slices;
    if (asked.slice_kib == 0 && layout.slice_kib > 0) take_if_faster(layout);
  }
  layout = best.layout;
  for (const int slices : {2, 4}) {
    layout.credit_kib = slices * (layout.slice_kib > 0 ? layout.slice_kib : largest_kib);
    if (asked.credit_kib == 0 && layout.credit_kib > 0) take_if_faster(layout);
  }
  return is_faster(best, arrival) ? std::move(best) : std::move(arrival);
}

}  // namespace tessera::plan
