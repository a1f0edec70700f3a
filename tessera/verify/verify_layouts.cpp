#include "tessera/verify/verify_layouts.hpp"

#include <algorithm>
#include <cmath>

#include "tessera/base/clock.hpp"
#include "tessera/base/text.hpp"
#include "tessera/checkpoint/format/chunk_hash.hpp"
#include "tessera/planner/variants/spread.hpp"
#include "tessera/spec/schema.hpp"

namespace tessera::train {

namespace {

void add(LayoutTally& tally, bool passed, double error) {
  ++tally.layouts;
  tally.passed += passed ? 1 : 0;
  tally.worst_relative_error = std::max(tally.worst_relative_error, error);
}

// The keys in which the run differs from the given one, as on a command line.
std::string overrides_text(const spec::Run& run, const spec::Run& given) {
  std::vector<std::string> words;
  for (const auto& key : spec::schema())
    if (key.get(run) != key.get(given)) words.push_back(cat(key.full(), "=", spec::value_text(key.get(run))));
  return join(words, " ");
}

// Ranks are threads here, and an error of one is told where they are joined: the layout has failed, the
// others go on.
Verification verified(const spec::Run& run, References& references, const collective::RunRanks& run_ranks) {
  try {
    return verify_as_it_is(run, references, {}, run_ranks);
  } catch (const std::exception& error) {
    Verification out;
    out.worst_relative_error = INFINITY;
    out.fault = error.what();
    return out;
  }
}

}  // namespace

LayoutsVerification verify_layouts(const spec::Run& given, std::span<const spec::Run> runs,
                                   const Progress& progress, const collective::RunRanks& run_ranks,
                                   int num_steps) {
  LayoutsVerification out;
  References references(num_steps);
  const double begin = now_seconds();
  for (const auto& run : runs) {
    const Verification found = verified(run, references, run_ranks);
    add(out.all, found.passed(), found.worst_relative_error);
    for (const auto& [trait, value] : planner::traits(run))
      add(out.by_trait[trait][value], found.passed(), found.worst_relative_error);
    if (!found.passed())
      out.failures.push_back({planner::layout_text(run), found.fault, overrides_text(run, given)});
    const auto is_finite = [](const Comparison& c) { return c.is_finite; };
    out.not_finite += std::ranges::all_of(found.comparisons, is_finite) ? 0 : 1;
    out.tolerance = found.tolerance;
    out.bits += found.bits;
    out.bits = checkpoint::hash_text(checkpoint::hash_of(std::as_bytes(std::span(out.bits))));
    out.references = references.size();
    out.seconds = now_seconds() - begin;
    progress(out);
  }
  return out;
}

std::string to_text(const LayoutsVerification& verification) {
  const auto cells = [](const std::string& name, const LayoutTally& tally) {
    return std::vector<std::string>{name, cat(tally.layouts), cat(tally.passed),
                                    scientific(tally.worst_relative_error)};
  };
  std::vector<std::vector<std::string>> rows = {{"", "layouts", "equal", "worst relative error"}};
  for (const auto& [trait, values] : verification.by_trait)
    if (values.size() > 1)
      for (const auto& [value, tally] : values) rows.push_back(cells(cat(trait, " ", value), tally));
  rows.push_back(cells("all", verification.all));
  std::string out;
  for (const auto& failure : verification.failures)
    out += cat("NOT EQUAL: ", failure.layout, "\n  ", failure.fault, "\n  again: ", failure.overrides, "\n");
  const auto& all = verification.all;
  return cat(out, table(rows), "\n", all.passed, " of ", all.layouts, " layouts equal one device within ",
             scientific(verification.tolerance, 0), ", worst relative error ",
             scientific(all.worst_relative_error), ", ", verification.references,
             " run(s) on one device to compare with, ", duration_text(verification.seconds), "\n",
             verification.not_finite == 0
                 ? ""
                 : cat("in ", verification.not_finite,
                       " of them one device has numbers that are not finite: nothing is proven by these\n"));
}

}  // namespace tessera::train
