// The .bin/.idx pair, byte for byte, and what is said of damaged ones. Costs about 0.1 s.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/base/files/file_text.hpp"
#include "tessera/base/testing/test_folder.hpp"
#include "tessera/data/indexed/indexed_file.hpp"
#include "tessera/data/indexed/indexed_writer.hpp"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::ThrowsMessage;

class Pair : public testing::Test {
 protected:
  std::string name(const std::string& file = "pair") const { return folder_.path(file); }

  void write(const std::vector<std::vector<std::int32_t>>& documents, TokenType type = TokenType::u16) const {
    IndexedWriter writer(name(), type);
    for (const auto& tokens : documents) writer.add(tokens);
    writer.finish();
  }
  std::string index() const { return file_text(name() + ".idx"); }
  void write_index(const std::string& bytes) const {
    std::ofstream(name() + ".idx", std::ios::binary | std::ios::trunc) << bytes;
  }
  // The index with 8 bytes at `at` replaced.
  std::string changed(std::size_t at, std::uint64_t value) const {
    std::string out = index();
    std::memcpy(out.data() + at, &value, sizeof value);
    return out;
  }

 private:
  TestFolder folder_;
};

std::vector<std::int64_t> all_tokens(const Documents& documents) {
  std::vector<std::int64_t> out(documents.num_tokens());
  documents.read(0, out);
  return out;
}

template <typename T>
std::string raw(std::initializer_list<T> numbers) {
  return {reinterpret_cast<const char*>(numbers.begin()), numbers.size() * sizeof(T)};
}

TEST_F(Pair, HasTheBytesOfTheLayout) {
  write({{1, 2, 60000}, {}, {7}});
  EXPECT_EQ(file_text(name() + ".bin"), raw<std::uint16_t>({1, 2, 60000, 7}));
  EXPECT_EQ(index(), std::string("MMIDIDX\0\0", 9) + raw<std::uint64_t>({1}) + raw<std::uint8_t>({8}) +
                         raw<std::uint64_t>({3, 4}) + raw<std::int32_t>({3, 0, 1}) +
                         raw<std::int64_t>({0, 6, 6}) + raw<std::int64_t>({0, 1, 2, 3}));
  EXPECT_EQ(std::distance(fs::directory_iterator(name("")), {}), 2) << "parts are left";
}

TEST_F(Pair, IsReadAsItWasWrittenInEveryType) {
  for (const auto type :
       {TokenType::u8, TokenType::i8, TokenType::i16, TokenType::i32, TokenType::i64, TokenType::u16}) {
    write({{1, 2, 100}, {}, {7, 8}, {}}, type);
    const IndexedFile file(name());
    EXPECT_EQ(file.type(), type);
    EXPECT_EQ(file.num_documents(), 4u);
    EXPECT_EQ(all_tokens(file), (std::vector<std::int64_t>{1, 2, 100, 7, 8})) << to_text(type);
    std::vector<std::uint64_t> begins(5);
    file.begins(0, begins);
    EXPECT_EQ(begins, (std::vector<std::uint64_t>{0, 3, 3, 5, 5}));
    EXPECT_EQ(file.length(2), 2u);
    file.check();
    fs::remove(name() + ".idx");
  }
}

TEST_F(Pair, OfNoDocumentsIsAPairToo) {
  write({});
  const IndexedFile file(name() + ".idx");
  EXPECT_EQ(file.num_documents(), 0u);
  EXPECT_EQ(file.num_tokens(), 0u);
  file.check();
}

TEST_F(Pair, AnyPlaceBelongsToTheDocumentThatHoldsIt) {
  std::vector<std::vector<std::int32_t>> documents;
  std::vector<std::uint64_t> owners;
  for (std::size_t i = 0; i < 200; ++i) {
    documents.emplace_back(i % 7 == 3 ? 0 : i * i % 61 * (i % 50 == 0 ? 40 : 1));
    owners.insert(owners.end(), documents.back().size(), i);
  }
  write(documents);
  const IndexedFile file(name());
  ASSERT_EQ(file.num_tokens(), owners.size());
  for (std::uint64_t place = 0; place < owners.size(); ++place)
    ASSERT_EQ(document_at(file, place), owners[place]) << "place " << place;
}

TEST_F(Pair, DocumentsOfSeveralSequencesAreReadAsOne) {
  std::ofstream(name() + ".bin", std::ios::binary) << raw<std::int32_t>({1, 2, 3, 4, 5, 6});
  write_index(std::string("MMIDIDX\0\0", 9) + raw<std::uint64_t>({1}) + raw<std::uint8_t>({4}) +
              raw<std::uint64_t>({4, 3}) + raw<std::int32_t>({1, 2, 1, 2}) +
              raw<std::int64_t>({0, 4, 12, 16}) + raw<std::int64_t>({0, 3, 4}));
  const IndexedFile file(name());
  std::vector<std::uint64_t> begins(3);
  file.begins(0, begins);
  EXPECT_EQ(begins, (std::vector<std::uint64_t>{0, 4, 6}));
  file.check();
}

TEST_F(Pair, GoesOnFromItsLastSyncByteForByte) {
  write({{1, 2, 3}, {4}, {5, 6}});
  const std::string expected_index = index(), expected_bin = file_text(name() + ".bin");
  fs::remove(name() + ".idx");
  fs::remove(name() + ".bin");
  PairMark mark;
  {
    IndexedWriter writer(name(), TokenType::u16);
    writer.add(std::vector<std::int32_t>{1, 2, 3});
    mark = writer.sync();
    writer.add(std::vector<std::int32_t>{9, 9, 9, 9});
    writer.sync();  // beyond the mark that is known
  }
  EXPECT_FALSE(is_pair(name()));
  IndexedWriter writer(name(), TokenType::u16, mark);
  writer.add(std::vector<std::int32_t>{4});
  writer.add(std::vector<std::int32_t>{5, 6});
  writer.finish();
  EXPECT_EQ(index(), expected_index);
  EXPECT_EQ(file_text(name() + ".bin"), expected_bin);
}

TEST_F(Pair, GoesOnBetweenTheTwoRenames) {
  write({{1, 2, 3}, {4}});
  const std::string expected = index();
  fs::rename(name() + ".bin", name("done.bin"));
  fs::remove(name() + ".idx");
  PairMark mark;
  {
    IndexedWriter writer(name(), TokenType::u16);
    writer.add(std::vector<std::int32_t>{1, 2, 3});
    writer.add(std::vector<std::int32_t>{4});
    mark = writer.sync();
  }
  fs::rename(name() + ".bin.part", name() + ".bin");
  IndexedWriter(name(), TokenType::u16, mark).finish();
  EXPECT_EQ(index(), expected);
}

TEST_F(Pair, SaysWhatIsWrongWithTheHeader) {
  write({{1, 2, 3}, {4}});
  const std::string whole = index();
  const auto message = [&](const std::string& bytes, const std::string& part) {
    write_index(bytes);
    EXPECT_THAT([&] { IndexedFile file(name()); }, ThrowsMessage<UserError>(HasSubstr(part)));
    write_index(whole);
  };
  message("", "has 0 bytes; the header of an index alone has 34");
  message("X" + whole.substr(1), "does not begin with MMIDIDX");
  message(changed(9, 2), "has version 2");
  message(whole.substr(0, 17) + '\7' + whole.substr(18), "floating point");
  message(whole.substr(0, 17) + '\11' + whole.substr(18), "tokens of type 9");
  message(whole.substr(0, whole.size() - 1), "cut off");
  message(whole + "ab", "several kinds of input");
  message(changed(18, ~std::uint64_t{0}), "damaged");
  message(changed(26, 0), "damaged");
  message(changed(34 + 8 + 8, 100), "don't belong together");
  message(changed(whole.size() - 8, 1), "not all of its 2");
  fs::resize_file(name() + ".bin", 6);
  message(whole, "has 6 bytes, but the last sequence");
  fs::remove(name() + ".bin");
  message(whole, "pair.bin': No such file");
}

TEST_F(Pair, SaysWhatIsWrongWithAPlaceWhenItIsReadAndAllOfItWhenChecked) {
  write({{1, 2, 3}, {4}, {5}});
  const std::size_t pointers = 34 + 12, documents = pointers + 24;
  const std::string whole = index();
  const auto refused = [&](const std::string& bytes, const std::string& part) {
    write_index(bytes);
    const IndexedFile file(name());
    EXPECT_EQ(file.begin(0), 0u) << "other places are read";
    EXPECT_THAT([&] { file.check(); }, ThrowsMessage<UserError>(HasSubstr(part)));
    write_index(whole);
  };
  refused(changed(pointers + 8, 5), "sequence 1 begins at byte 5");
  refused(changed(pointers + 8, 1000), "sequence 1 begins at byte 1000");
  refused(changed(pointers + 8, 4), "sequence 0 has 3 tokens from 0 on, and the next one begins at 2");
  refused(changed(documents + 8, 7), "document 1 begins at sequence 7");
  refused(changed(documents + 16, 0), "document 2 begins at sequence 0");
}

TEST_F(Pair, ATokenOutsideOfTheTypeIsABug) {
  IndexedWriter writer(name(), TokenType::u16);
  EXPECT_THROW(writer.add(std::vector<std::int32_t>{65536}), Bug);
  EXPECT_THROW(writer.add(std::vector<std::int32_t>{-1}), Bug);
  EXPECT_EQ(type_for_vocabulary(65499), TokenType::u16);
  EXPECT_EQ(type_for_vocabulary(65500), TokenType::i32);
}

// All of it is a hole, so that it takes no room: what is asked is what opening costs, and a look at one
// place.
TEST_F(Pair, OfABillionDocumentsOpensAtOnce) {
  constexpr std::uint64_t kDocuments = 1'000'000'000;
  std::string header(kIndexHeaderBytes, '\0');
  write_index_header({TokenType::u16, kDocuments, kDocuments}, std::as_writable_bytes(std::span(header)));
  std::ofstream(name() + ".bin", std::ios::binary);
  write_index(header);
  fs::resize_file(name() + ".idx", kIndexHeaderBytes + 20 * kDocuments + 8);
  std::fstream file(name() + ".idx", std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(-8, std::ios::end);
  file << raw<std::uint64_t>({kDocuments});
  file.close();
  const IndexedFile pair(name());
  EXPECT_EQ(pair.num_documents(), kDocuments);
  EXPECT_EQ(pair.begin(kDocuments / 3), 0u);
}

}  // namespace
}  // namespace tessera::data
