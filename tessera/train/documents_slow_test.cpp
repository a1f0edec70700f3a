// Packed documents in sampled layouts of up to 8 ranks, beside each document alone on one. Takes about a
// minute.
#include <gtest/gtest.h>

#include <map>

#include "tessera/planner/variants/layouts.hpp"
#include "tessera/planner/variants/spread.hpp"
#include "tessera/train/testing/packed_documents.hpp"

namespace tessera::train {
namespace {

class PackedEverywhere : public testing::TestWithParam<spec::Family> {};

TEST_P(PackedEverywhere, GiveTheLossAndTheGradientsOfEachAlone) {
  constexpr std::size_t kLayouts = 60;
  spec::Run run = packed_run(GetParam());
  run.model.layers = 14;  // a layout takes as many as its stages need
  run.training.global_batch = 4;
  std::vector<spec::Run> layouts = planner::layouts(
      run, {.most_ranks = 8, .axes = {"pp", "dp", "cp", "tp", "zero", "schedule", "recompute"}});
  std::erase_if(layouts,
                [](const spec::Run& one) { return one.layout.pp * one.layout.cp * one.layout.tp == 1; });
  ASSERT_GE(layouts.size(), kLayouts);
  std::map<std::int64_t, engine::StepReport> expected;  // by layers
  double worst = 0;
  for (std::size_t i = 0; i < kLayouts; ++i) {
    const spec::Run& layout = layouts[i * layouts.size() / kLayouts];
    auto [found, is_new] = expected.try_emplace(layout.model.layers);
    if (is_new) found->second = first_step(unpacked(layout), one_by_one);
    const auto report = first_step(layout, packed);
    const double error = std::max(std::abs(report.loss / found->second.loss - 1),
                                  std::abs(report.gradient_norm / found->second.gradient_norm - 1));
    EXPECT_LT(error, 1e-10) << planner::layout_text(layout);
    worst = std::max(worst, error);
  }
  std::printf("%zu of %zu layouts: at most %.1e apart\n", kLayouts, layouts.size(), worst);
}

INSTANTIATE_TEST_SUITE_P(Families, PackedEverywhere,
                         testing::Values(spec::Family::llama, spec::Family::gpt2, spec::Family::olmo2));

}  // namespace
}  // namespace tessera::train
