// Costs nothing to speak of.
#include "tessera/train/source/source.hpp"

#include <gtest/gtest.h>

#include "tessera/base/testing/test_folder.hpp"
#include "tessera/data/indexed/indexed_writer.hpp"

namespace tessera::train {
namespace {

TEST(HeldOut, ACharacterOfTwoTokensIsTwoBytes) {
  const TestFolder folder;
  const std::string text = "x\u00e9\u00e9\u00e9y";
  std::vector<std::int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  data::IndexedWriter writer(folder.path("accents"), data::TokenType::u16);
  for (int document = 0; document < 40; ++document) writer.add(tokens);
  writer.finish();
  spec::Run run;
  run.model.sequence = std::ssize(tokens);
  run.data.sources = folder.path("accents");
  run.data.validation = 0.5;
  run.data.tokenizer = "bytes";
  const HeldOut held = held_out(run.data, run.model, run.evaluation);
  EXPECT_GT(held.samples, 0u);
  EXPECT_EQ(held.bytes_per_token, 1.0);
}

}  // namespace
}  // namespace tessera::train
