// Whether documents are packed whole and each token is read once. Costs about 3 s, unoptimised.
#include "tessera/data/samples/packing.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <set>

#include "tessera/base/error.hpp"
#include "tessera/base/process/resident.hpp"
#include "tessera/base/random.hpp"
#include "tessera/data/samples/bins.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/allocator_interface.h>
#endif

namespace tessera::data {
namespace {

// Documents of these lengths; token i is i.
class Listed : public Documents {
 public:
  explicit Listed(const std::vector<std::uint64_t>& lengths) : begins_{0} {
    for (const std::uint64_t length : lengths) begins_.push_back(begins_.back() + length);
  }
  std::uint64_t num_documents() const override { return begins_.size() - 1; }
  std::uint64_t num_tokens() const override { return begins_.back(); }
  void begins(std::uint64_t first, std::span<std::uint64_t> out) const override {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = begins_.at(first + i);
  }
  void read(std::uint64_t, std::span<std::int64_t>) const override {}

 private:
  std::vector<std::uint64_t> begins_;
};

// Some 600 tokens each, of as many documents as one likes: where they begin is computed.
class Endless : public Documents {
 public:
  explicit Endless(std::uint64_t documents) : documents_(documents) {}
  std::uint64_t num_documents() const override { return documents_; }
  std::uint64_t num_tokens() const override { return 600 * documents_; }
  void begins(std::uint64_t first, std::span<std::uint64_t> out) const override {
    for (std::uint64_t& begin : out) {
      begin = 600 * first + (first == 0 || first == documents_ ? 0 : random_bits(5, 5, first) % 600);
      ++first;
    }
  }
  void read(std::uint64_t, std::span<std::int64_t>) const override {}

 private:
  std::uint64_t documents_;
};

std::vector<std::uint64_t> log_normal_lengths(std::size_t count, double mean_log, double deviation) {
  std::vector<std::uint64_t> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::uint64_t>(std::exp(mean_log + deviation * random_normal(9, 1, i))) + 1;
  return out;
}

PackingInput all_of(const Documents& documents, std::uint64_t sequence) {
  return {.documents = &documents, .last = documents.num_documents(), .sequence = sequence, .seed = 4};
}

// All pieces of an epoch in the order of the stream; each sample holds no more than it may.
std::vector<Piece> epoch(const Packing& packing, std::uint64_t sequence, std::uint64_t number = 0) {
  std::vector<Piece> out;
  for (std::uint64_t i = 0; i < packing.num_samples(); ++i) {
    std::uint64_t tokens = 0;
    for (const Piece& piece : packing.pieces(number * packing.num_samples() + i)) {
      tokens += piece.length;
      out.push_back(piece);
    }
    EXPECT_LE(tokens, sequence);
  }
  std::ranges::sort(out, {}, &Piece::place);
  return out;
}

// Whether they cover [0, end), none of it twice.
void expect_each_token_once(const std::vector<Piece>& pieces, std::uint64_t end) {
  std::uint64_t at = 0;
  for (const Piece& piece : pieces) {
    ASSERT_EQ(piece.place, at);
    at += piece.length;
  }
  EXPECT_EQ(at, end);
}

// Pieces that end inside of a document.
std::size_t num_cut(const std::vector<Piece>& pieces) {
  return std::ranges::count(pieces, true, &Piece::is_cut);
}

TEST(CutPacking, EveryEpochReadsEachTokenOnceAndKnowsTheEndsOfDocuments) {
  const Listed documents({3, 0, 0, 9, 1, 1, 30, 2, 0, 7, 4});
  const auto packing = cut_packing(all_of(documents, 8));
  ASSERT_EQ(packing->num_samples(), 7u);  // of 57 tokens; the last is only a target
  for (const std::uint64_t number : {0, 1, 5}) {
    const auto pieces = epoch(*packing, 8, number);
    expect_each_token_once(pieces, 56);
    std::set<std::uint64_t> whole_ends;
    for (const Piece& piece : pieces)
      if (!piece.is_cut) whole_ends.insert(piece.place + piece.length);
    EXPECT_EQ(whole_ends, (std::set<std::uint64_t>{3, 12, 13, 14, 44, 46, 53}));
  }
  EXPECT_NE(packing->pieces(0), packing->pieces(7));
}

TEST(BestFitPacking, EveryEpochReadsEachTokenOnceAndCutsNothingThatFits) {
  const auto lengths = log_normal_lengths(20000, 4.5, 1.0);
  const Listed documents(lengths);
  const auto packing = best_fit_packing(all_of(documents, 512));
  const auto pieces = epoch(*packing, 512);
  expect_each_token_once(pieces, documents.num_tokens());
  std::size_t allowed = 0;
  for (const std::uint64_t length : lengths) allowed += (length - 1) / 512;
  EXPECT_EQ(num_cut(pieces), allowed) << "of documents that are longer than a sample";
  EXPECT_EQ(epoch(*packing, 512, 3), pieces) << "another epoch has the same samples in another order";
  EXPECT_NE(packing->pieces(0), packing->pieces(packing->num_samples()));
}

TEST(BestFitPacking, FillsAtLeast98PercentOfLogNormalLengths) {
  struct Case {
    double mean_log, deviation;
    std::uint64_t sequence;
  };
  for (const Case& each : {Case{6.0, 1.2, 4096}, Case{5.0, 1.0, 2048}, Case{7.0, 1.5, 8192}}) {
    const auto lengths = log_normal_lengths(200000, each.mean_log, each.deviation);
    const Listed documents(lengths);
    const auto packing = best_fit_packing(all_of(documents, each.sequence));
    const double fill = static_cast<double>(documents.num_tokens()) /
                        static_cast<double>(packing->num_samples() * each.sequence);
    const auto pieces = epoch(*packing, each.sequence);
    std::size_t allowed = 0;
    for (const std::uint64_t length : lengths) allowed += (length - 1) / each.sequence;
    std::printf("log-normal(%g, %g), sequence %zu: %.2f %% filled, %zu of %zu documents cut that would fit\n",
                each.mean_log, each.deviation, static_cast<std::size_t>(each.sequence), 100 * fill,
                num_cut(pieces) - allowed, lengths.size());
    EXPECT_GE(fill, 0.98);
    EXPECT_EQ(num_cut(pieces), allowed);
  }
}

TEST(BestFitPacking, AGroupOfAnotherKindIsCutRatherThanLost) {
  std::vector<std::uint64_t> lengths(300000, 100);                       // ten to a sample
  std::fill(lengths.begin() + 100'000, lengths.begin() + 104'000, 501);  // one to a sample
  const Listed documents(lengths);
  const auto packing = best_fit_packing(all_of(documents, 1000));
  expect_each_token_once(epoch(*packing, 1000), documents.num_tokens());
}

TEST(BestFitPacking, OneDocumentLongerThanManyGroupsIsSpreadOverThem) {
  const Listed documents({5, 3'000'000, 7});
  const auto packing = best_fit_packing(all_of(documents, 100));
  const auto pieces = epoch(*packing, 100);
  expect_each_token_once(pieces, documents.num_tokens());
  EXPECT_EQ(num_cut(pieces), 29'999u);
}

TEST(BestFitPacking, TakesAnyNumberOfDocuments) {
  for (const std::vector<std::uint64_t>& lengths :
       {std::vector<std::uint64_t>{1}, {8}, {9}, {0, 0, 3, 0}, {5, 5, 5}, {1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    const Listed documents(lengths);
    expect_each_token_once(epoch(*best_fit_packing(all_of(documents, 8)), 8), documents.num_tokens());
  }
  const Listed nothing({0, 0});
  EXPECT_THROW(best_fit_packing(all_of(nothing, 8)), UserError);
  EXPECT_THROW(cut_packing(all_of(nothing, 8)), UserError);
}

TEST(Bins, ExactlySoManyAreMadeWhateverIsNeeded) {
  const std::vector<Piece> pieces = {{0, 6}, {6, 6}, {12, 6}, {18, 2}};
  EXPECT_EQ(best_fit(pieces, 10).size(), 3u);
  std::uint64_t cut = 0;
  const Bins two = best_fit_into(pieces, 10, 2, &cut);
  EXPECT_EQ(cut, 1u);
  const Bins five = best_fit_into(pieces, 10, 5);
  EXPECT_EQ(five.size(), 5u);
  EXPECT_EQ(std::ranges::count_if(five, [](const auto& bin) { return bin.empty(); }), 1);
}

// The address sanitizer keeps what is freed, so that the process grows: there, what is in use is counted.
std::int64_t held_bytes() {
#ifdef __SANITIZE_ADDRESS__
  return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  return resident_bytes();
#endif
}

TEST(Packing, OfABillionDocumentsOpensInLessThanASecondAndStaysSmall) {
  const Endless documents(1'000'000'000);
  for (const auto make : {cut_packing, best_fit_packing}) {
    const std::clock_t begun = std::clock();
    const std::int64_t before = held_bytes();
    const auto packing = make(all_of(documents, 4096));
    const double opened = static_cast<double>(std::clock() - begun) / CLOCKS_PER_SEC;
    for (std::uint64_t i = 0; i < 200; ++i) EXPECT_FALSE(packing->pieces(i * 977).empty());
    const std::int64_t grown = held_bytes() - before;
    std::printf("opened in %.3f s of processor time, 200 samples later %.1f MB larger\n", opened,
                static_cast<double>(grown) * 1e-6);
    EXPECT_LT(opened, 1.0);
    EXPECT_LT(grown, 50'000'000);
  }
}

}  // namespace
}  // namespace tessera::data
