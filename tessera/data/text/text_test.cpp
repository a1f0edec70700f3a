// Plain and packed streams, and the records in them. Costs about 0.5 s.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <filesystem>
#include <fstream>

#include "tessera/base/error.hpp"
#include "tessera/base/random.hpp"
#include "tessera/data/text/record_reader.hpp"

namespace tessera::data {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::string gz(const std::string& text) {
  std::string out(text.size() + 1000, '\0');
  z_stream state{};
  deflateInit2(&state, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&state, Z_FINISH), Z_STREAM_END);
  out.resize(state.total_out);
  deflateEnd(&state);
  return out;
}

std::string zst(const std::string& text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* state = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(state, ZSTD_c_checksumFlag, 1);  // as the program zstd does
  out.resize(ZSTD_compress2(state, out.data(), out.size(), text.data(), text.size()));
  ZSTD_freeCCtx(state);
  return out;
}

std::unique_ptr<ByteStream> stream_of(const std::string& text) {
  return memory_stream(std::as_bytes(std::span(text)));
}

std::string all_of(ByteStream& stream, std::size_t at_a_time = 1 << 12) {
  std::string out, some(at_a_time, '\0');
  while (const std::size_t n = stream.read(std::as_writable_bytes(std::span(some)))) out.append(some, 0, n);
  return out;
}

// Text that packs well in parts and badly in others.
std::string long_text() {
  std::string out;
  for (std::uint64_t i = 0; i < 60'000; ++i)
    out += i % 3 == 0 ? cat(random_bits(1, 1, i), "\n") : std::string(i % 50, 'a');
  return out;
}

TEST(ByteStream, UnpacksWhatWasPackedInOnePartOrSeveral) {
  const std::string text = long_text();
  struct Packer {
    std::string (*pack)(const std::string&);
    std::unique_ptr<ByteStream> (*unpack)(const std::string&);
  };
  for (const auto& [pack, unpack] :
       {Packer{gz, [](const std::string& packed) { return gunzipped(stream_of(packed), "x"); }},
        Packer{zst, [](const std::string& packed) { return unzstd(stream_of(packed), "x"); }}}) {
    const std::string one = pack(text), several = pack("first ") + pack("") + one;
    EXPECT_EQ(all_of(*unpack(one)), text);
    EXPECT_EQ(all_of(*unpack(several), 1000), "first " + text);
    EXPECT_EQ(all_of(*unpack("")), "");
    for (const std::size_t cut : {std::size_t{1}, one.size() / 2, one.size() - 1})
      EXPECT_THROW(all_of(*unpack(one.substr(0, cut))), UserError) << "cut to " << cut;
    std::string damaged = one;
    damaged[damaged.size() / 2] = static_cast<char>(damaged[damaged.size() / 2] ^ 1);
    EXPECT_THROW(all_of(*unpack(damaged)), UserError);
    EXPECT_THROW(all_of(*unpack("not packed at all")), UserError);
  }
}

TEST(ByteStream, IsChosenByTheNameOfTheFile) {
  const std::string folder = cat(testing::TempDir(), "tessera_text_", ::getpid(), "/");
  std::filesystem::create_directories(folder);
  const auto file = [&](const std::string& name, const std::string& bytes) {
    std::ofstream(folder + name, std::ios::binary) << bytes;
    return folder + name;
  };
  EXPECT_EQ(all_of(*open_stream(file("a.txt", "abc"))), "abc");
  EXPECT_EQ(all_of(*open_stream(file("a.jsonl.gz", gz("abc")))), "abc");
  EXPECT_EQ(all_of(*open_stream(file("a.jsonl.zst", zst("abc")))), "abc");
  const std::string parquet = file("a.parquet", "PAR1");
  EXPECT_THAT([&] { open_stream(parquet); },
              ThrowsMessage<UserError>(HasSubstr(".parquet files are not read. Convert it to JSON lines")));
  EXPECT_THAT([&] { open_stream(folder + "none"); }, ThrowsMessage<UserError>(HasSubstr("No such file")));
  std::filesystem::remove_all(folder);
}

std::vector<RawRecord> records_of(const std::string& text, RecordEnd end) {
  RecordReader reader(stream_of(text), "x", end);
  std::vector<RawRecord> out;
  while (auto record = reader.next()) out.push_back(*record);
  return out;
}

TEST(RecordReader, EndsRecordsWhereItIsTold) {
  const std::string text = "\n a\r\nb\n\n \n\nc";
  using Records = std::vector<RawRecord>;
  EXPECT_EQ(records_of(text, RecordEnd::line), (Records{{" a", 2}, {"b", 3}, {"c", 7}}));
  EXPECT_EQ(records_of(text, RecordEnd::blank_line), (Records{{" a\r\nb", 2}, {"c", 7}}));
  EXPECT_EQ(records_of(text, RecordEnd::file), (Records{{text, 1}}));
  EXPECT_EQ(records_of("", RecordEnd::line), Records{});
  EXPECT_EQ(records_of(" \n \n", RecordEnd::file), Records{});
}

TEST(RecordReader, GoesOnFromAnyPlace) {
  const std::string text = long_text() + "\n\n" + long_text();
  for (const RecordEnd end : {RecordEnd::line, RecordEnd::blank_line}) {
    RecordReader reader(stream_of(text), "x", end);
    for (int i = 0; i < (end == RecordEnd::line ? 777 : 1); ++i) reader.next();
    RecordReader later(stream_of(text), "x", end);
    later.move_to(reader.place());
    EXPECT_EQ(later.next(), reader.next());
    EXPECT_EQ(later.place(), reader.place());
  }
}

TEST(RecordReader, RefusesARecordThatIsTooLong) {
  const std::string text = "short\n" + std::string(200'000, 'a') + "\n";
  RecordReader reader(stream_of(text), "some.txt", RecordEnd::line, 100'000);
  reader.next();
  EXPECT_THAT([&] { reader.next(); },
              ThrowsMessage<UserError>(HasSubstr("'some.txt': the record at line 2 is longer than")));
}

}  // namespace
}  // namespace tessera::data
