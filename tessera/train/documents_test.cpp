// Several documents in one sample are trained on as each of them alone would be. Takes about 2 s.
#include <gtest/gtest.h>

#include "tessera/train/testing/packed_documents.hpp"

namespace tessera::train {
namespace {

class PackedDocuments : public testing::TestWithParam<spec::Family> {};

TEST_P(PackedDocuments, GiveTheLossAndTheGradientsOfEachAlone) {
  const spec::Run run = packed_run(GetParam());
  const auto expected = first_step(unpacked(run), one_by_one);
  EXPECT_EQ(expected.tokens, kPackedSequence - std::size(kPackedLengths));
  spec::Run tp = run, cp = run, heads = run, pp = run;
  tp.layout.tp = 2, cp.layout.cp = 2, heads.layout.cp = 2, heads.layout.cp_heads = 2, pp.layout.pp = 2;
  for (const spec::Run& layout : {run, tp, cp, heads, pp}) {
    const auto found = first_step(layout, packed);
    EXPECT_EQ(found.tokens, expected.tokens);
    EXPECT_NEAR(found.loss, expected.loss, 1e-10 * expected.loss);
    EXPECT_NEAR(found.gradient_norm, expected.gradient_norm, 1e-10 * expected.gradient_norm);
  }
}

INSTANTIATE_TEST_SUITE_P(Families, PackedDocuments,
                         testing::Values(spec::Family::llama, spec::Family::gpt2, spec::Family::olmo2));

}  // namespace
}  // namespace tessera::train
