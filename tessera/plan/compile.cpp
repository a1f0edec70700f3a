#include "tessera/plan/compile.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/plan/describe.hpp"
#include "tessera/plan/segments.hpp"
#include "tessera/plan/staging.hpp"
#include "tessera/program/check.hpp"
#include "tessera/program/generate.hpp"

namespace tessera::plan {

namespace {

program::Residency residency(const spec::Layout& layout) {
  program::Residency out{.overlap = layout.overlap, .keeps_full = layout.zero < 3};
  out.keep_bytes = layout.keep_mib << 20;
  out.prefetch = static_cast<std::uint32_t>(layout.prefetch);
  if (layout.zero >= 2) out.reduce_every = static_cast<std::int32_t>(layout.reduce_every);
  return out;
}

program::Offload offload(const spec::Layout& layout) {
  return {.optimizer = spec::offloads(layout, spec::Offload::optimizer),
          .parameters = spec::offloads(layout, spec::Offload::parameters),
          .values = spec::offloads(layout, spec::Offload::values)};
}

}  // namespace

program::Program compile(const spec::Run& run, std::string* note) {
  const Staged staged = stage(run);
  const bool is_pipeline = run.layout.pp > 1;
  const auto tables =
      describe(run, is_pipeline ? std::span(staged.rank_of_unit) : std::span<const std::uint32_t>());
  const std::int64_t ahead_bytes = run.layout.receive_ahead_mib << 20;
  const std::int64_t value_bytes = std::max<std::int64_t>(tables.values.front().bytes, 1);
  const auto ahead = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(ahead_bytes / value_bytes, 1, std::numeric_limits<std::uint32_t>::max()));
  program::Program out = program::generate(
      tables, staged.order, in_segments(staged.staging, tables),
      {.residency = residency(run.layout), .offload = offload(run.layout), .receives_ahead = ahead});
  if (note) *note = staged.note;
  const auto problems = program::check(out);
  CHECK(problems.empty(), "the compiled program is wrong:\n", program::to_text(problems));
  return out;
}

}  // namespace tessera::plan
