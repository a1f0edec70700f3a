// Whether each sample is read once through restarts and changes of layout, what a row holds, and what tells
// data sets apart. Costs about 1 s, unoptimised.
#include "tessera/data/samples/data_set.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <map>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/base/testing/test_folder.hpp"
#include "tessera/data/batch_plan.hpp"
#include "tessera/data/indexed/indexed_writer.hpp"

namespace tessera::data {
namespace {

using Row = std::vector<std::int64_t>;

class DataSets : public testing::Test {
 protected:
  std::string pair(const std::string& name, const std::vector<std::vector<std::int32_t>>& documents) const {
    IndexedWriter writer(folder_.path(name), TokenType::i32);
    for (const auto& tokens : documents) writer.add(tokens);
    writer.finish();
    return folder_.path(name);
  }
  // Documents of 1 to 40 tokens that count on from `first` without an end, so that every token is another.
  std::string counting(const std::string& name, std::int32_t first, std::size_t documents) const {
    std::vector<std::vector<std::int32_t>> out(documents);
    for (std::size_t i = 0; i < documents; ++i)
      for (std::uint64_t n = 1 + random_bits(3, 3, i) % 40; n > 0; --n) out[i].push_back(first++);
    return pair(name, out);
  }

 private:
  TestFolder folder_;
};

Row tokens_of(const DataSet& set, std::span<const std::uint64_t> samples) {
  Row tokens(samples.size() * static_cast<std::size_t>(set.sequence())), targets(tokens.size());
  set.fill(samples, {tokens, targets, {}});
  return tokens;
}

TEST_F(DataSets, RowsHoldTokensTargetsAndDocuments) {
  const DataSet cut({.sources = {pair("a", {{1, 2, 3}, {4, 5}, {6, 7}})}, .sequence = 6});
  Row tokens(6), targets(6), documents(6);
  cut.fill(std::vector<std::uint64_t>{0}, {tokens, targets, documents});
  EXPECT_EQ(tokens, (Row{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(targets, (Row{2, 3, -1, 5, -1, 7})) << "no document is asked for the begin of another";
  EXPECT_EQ(documents, (Row{0, 0, 0, 1, 1, 2}));
}

TEST_F(DataSets, BestFitPadsWhatIsLeftAndIgnoresIt) {
  const DataSet set({.sources = {pair("a", {{1, 2, 3}, {4, 5}, {6, 7, 8, 9}})},
                     .packing = PackingKind::best_fit,
                     .sequence = 6});
  ASSERT_EQ(set.num_samples(0), 2u);
  std::map<Row, Row> rows;
  for (const std::uint64_t sample : {0, 1}) {
    Row tokens(6), targets(6), documents(6);
    set.fill(std::vector{sample}, {tokens, targets, documents});
    rows[tokens] = targets;
    if (tokens[0] == 1) {
      EXPECT_EQ(documents, (Row{0, 0, 0, -1, -1, -1}));
    }
  }
  EXPECT_EQ(rows, (std::map<Row, Row>{{{1, 2, 3, 0, 0, 0}, {2, 3, -1, -1, -1, -1}},
                                      {{6, 7, 8, 9, 4, 5}, {7, 8, 9, -1, 5, -1}}}));
}

TEST_F(DataSets, AMaskLeavesTheLossToTheAnswers) {
  const std::string name = pair("a", {{1, 2, 3, 4}, {5, 6, 7}});
  IndexedWriter mask(name + ".mask", TokenType::u8);
  mask.add(std::vector<std::int32_t>{0, 0, 1, 1});
  mask.add(std::vector<std::int32_t>{0, 1, 1});
  mask.finish();
  const DataSet set({.sources = {name}, .sequence = 6});
  Row tokens(6), targets(6);
  set.fill(std::vector<std::uint64_t>{0}, {tokens, targets, {}});
  EXPECT_EQ(targets, (Row{-1, 3, 4, -1, 6, 7}));
  pair("b.mask", {{1}});
  EXPECT_THROW(DataSet({.sources = {pair("b", {{1, 2, 3}})}, .sequence = 2}), UserError);
}

TEST_F(DataSets, TrainingAndValidationShareNoDocument) {
  const std::string name = counting("a", 1, 1000);
  for (const auto packing : {PackingKind::cut, PackingKind::best_fit}) {
    std::set<std::int64_t> seen[2];
    for (const auto split : {Split::training, Split::validation}) {
      const DataSet set(
          {.sources = {name}, .packing = packing, .sequence = 32, .validation = 0.05, .split = split});
      for (std::uint64_t i = 0; i < set.num_samples(0); ++i)
        for (const std::int64_t token : tokens_of(set, std::vector{i}))
          seen[split == Split::training].insert(token);
    }
    const auto first_held_out = static_cast<std::int64_t>(IndexedFile(name).begin(950)) + 1;
    seen[0].erase(0), seen[1].erase(0);  // padding
    EXPECT_LT(*seen[1].rbegin(), first_held_out);
    EXPECT_GE(*seen[0].begin(), first_held_out);
    EXPECT_GT(seen[1].size(), 18000u);
  }
  EXPECT_THROW(DataSet({.sources = {name}, .sequence = 32, .split = Split::validation}), UserError);
}

TEST_F(DataSets, EachSourceIsReadOnceAnEpochAndSkipMovesOn) {
  const DataSetOptions options{.sources = {counting("a", 0, 300), counting("b", 100'000, 100)},
                               .weights = {0.7, 0.3},
                               .packing = PackingKind::best_fit,
                               .sequence = 64};
  const DataSet set(options);
  std::map<std::size_t, std::multiset<Row>> by_source;
  for (std::uint64_t k = 0; k < 2000; ++k) {
    const BlendPlace place = set.place_of(k);
    if (place.index >= 2 * set.num_samples(place.source)) continue;
    by_source[place.source].insert(tokens_of(set, std::vector{k}));
  }
  for (const auto& [source, rows] : by_source) {
    EXPECT_EQ(rows.size(), 2 * set.num_samples(source));
    for (const Row& row : rows) EXPECT_EQ(rows.count(row), 2u) << "twice in two epochs";
  }
  DataSetOptions later = options;
  later.skip = 17;
  EXPECT_EQ(tokens_of(DataSet(later), std::vector<std::uint64_t>{0, 1}),
            tokens_of(set, std::vector<std::uint64_t>{17, 18}));
}

// A job that saves every third step is killed 20 times and goes on with 5 other numbers of ranks: what counts
// is what was read up to a save. The files are opened anew each time.
TEST_F(DataSets, KillsAndChangesOfLayoutReadTheSameSamplesInTheSameOrder) {
  constexpr std::int64_t kBatch = 24, kSteps = 120, kMicro = 2;
  for (const auto packing : {PackingKind::cut, PackingKind::best_fit}) {
    const DataSetOptions options{.sources = {counting(cat("a", int(packing)), 0, 400),
                                             counting(cat("b", int(packing)), 1'000'000, 90)},
                                 .weights = {0.65, 0.35},
                                 .packing = packing,
                                 .sequence = 32,
                                 .seed = 11};
    std::vector<std::uint64_t> all(kBatch * kSteps);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    const Row expected = tokens_of(DataSet(options), all);
    Row read, unsaved;
    std::int64_t saved = 0;
    std::uint64_t life = 0;
    for (; saved < kSteps; ++life) {
      const std::int64_t ranks = std::array{1, 2, 3, 8, 4, 6}[life % 6];
      const DataSet set(options);
      unsaved.clear();
      std::int64_t lives_for =
          life < 20 ? 1 + static_cast<std::int64_t>(random_bits(1, 2, life) % 9) : kSteps;
      for (std::int64_t step = saved; step < kSteps && lives_for > 0; ++step, --lives_for) {
        for (std::int64_t micro = 0; micro * kMicro * ranks < kBatch; ++micro)
          for (std::int64_t rank = 0; rank < ranks; ++rank) {
            const auto samples =
                samples_of(static_cast<std::uint64_t>(step * kBatch), kBatch, rank, ranks, kMicro, micro);
            const Row tokens = tokens_of(set, samples);
            unsaved.insert(unsaved.end(), tokens.begin(), tokens.end());
          }
        if ((step + 1) % 3 != 0) continue;
        read.insert(read.end(), unsaved.begin(), unsaved.end());
        unsaved.clear();
        saved = step + 1;
      }
      ASSERT_LT(life, 100u);
    }
    EXPECT_GT(life, 20u);
    EXPECT_TRUE(read == expected);
  }
}

TEST_F(DataSets, AFingerprintTellsContentsApartAndNotNames) {
  const std::string a = counting("a", 0, 300), b = counting("b", 0, 300), c = counting("c", 1, 300);
  const auto of = [](const std::vector<std::string>& names) { return fingerprint_of(names); };
  EXPECT_EQ(of({a}), of({b + ".idx"}));
  EXPECT_NE(of({a}), of({c}));
  EXPECT_NE(of({a, c}), of({c, a}));
  EXPECT_EQ(of({a, c}).bytes, of({c, a}).bytes);
}

}  // namespace
}  // namespace tessera::data
