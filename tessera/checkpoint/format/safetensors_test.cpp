#include "tessera/checkpoint/format/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "tessera/base/clock.hpp"
#include "tessera/base/error.hpp"

namespace tessera::checkpoint {
namespace {

using Tensors = std::map<std::string, TensorBytes>;
using testing::HasSubstr;

const std::string kPath = cat(testing::TempDir(), "tessera_test_", ::getpid(), ".safetensors");
const struct Cleanup {
  ~Cleanup() { std::filesystem::remove(kPath); }
} kCleanup;

// A file with this header text and as many zero bytes of data; `length` overrides the true header length.
void write_raw(const std::string& header, std::size_t data_bytes, std::optional<std::uint64_t> length = {}) {
  std::ofstream out(kPath, std::ios::binary);
  const std::uint64_t n = length.value_or(header.size());
  out.write(reinterpret_cast<const char*>(&n), 8);
  out << header << std::string(data_bytes, '\0');
}

std::string complaint() {
  try {
    const Safetensors file(kPath);
  } catch (const UserError& error) {
    return error.what();
  }
  return "no complaint";
}

template <typename T>
TensorBytes tensor(const std::string& dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  return {dtype, std::move(shape), std::as_bytes(std::span(values))};
}

TEST(Safetensors, WhatIsWrittenIsReadBack) {
  const std::vector<float> floats = {1.5f, -2, 3, 4, 5, 6};
  const std::vector<std::uint8_t> bytes = {7, 8, 9};
  const std::vector<double> doubles = {0.1};
  const Tensors written = {{"a.bytes", tensor("U8", {3}, bytes)},
                           {"b.matrix", tensor("F32", {2, 3}, floats)},
                           {"c.scalar", tensor("F64", {}, doubles)},
                           {"d.empty", tensor("BF16", {0, 4}, std::vector<std::uint16_t>{})}};
  write_safetensors(kPath, written, {{"step", "12"}, {"quote", "\"\n"}});
  const Safetensors file(kPath);
  ASSERT_EQ(file.tensors().size(), written.size());
  for (const auto& [name, expected] : written) {
    const TensorBytes& found = file.tensor(name);
    EXPECT_EQ(found.dtype, expected.dtype) << name;
    EXPECT_EQ(found.shape, expected.shape) << name;
    EXPECT_TRUE(std::ranges::equal(found.bytes, expected.bytes)) << name;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found.bytes.data()) % *element_bytes(found.dtype), 0u) << name;
  }
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"step", "12"}, {"quote", "\"\n"}}));
}

TEST(Safetensors, AFileWithoutTensorsIsFine) {
  write_safetensors(kPath, {});
  EXPECT_TRUE(Safetensors(kPath).tensors().empty());
}

TEST(Safetensors, ReadsAHeaderWrittenByHand) {
  write_raw(R"({"w":{"dtype":"I16","shape":[2],"data_offsets":[0,4]}}   )", 4);
  EXPECT_EQ(Safetensors(kPath).tensor("w").bytes.size(), 4u);
}

TEST(Safetensors, NamesTheNearestTensorWhenOneIsMissing) {
  write_raw(R"({"wq.weight":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1);
  const Safetensors file(kPath);
  try {
    file.tensor("wk.weight");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has no tensor 'wk.weight'; did you mean 'wq.weight'?"));
  }
}

TEST(Safetensors, MalformedFilesAreUserErrorsThatSayWhatAndWhere) {
  struct Case {
    std::string header;
    std::size_t data_bytes;
    std::string complaint;
  };
  const auto entry = [](const std::string& fields) { return "{\"w\":{" + fields + "}}"; };
  const std::vector<Case> cases = {
      {"[1]", 0, "does not begin with '{'"},
      {"", 0, "does not begin with '{'"},
      {"{\"w\":", 0, "not a JSON object"},
      {R"({"w":3})", 0, "entry 'w' is not an object"},
      {R"({"w":[3]})", 0, "entry 'w' is not an object"},
      {R"({"__metadata__":{"a":1}})", 0, "__metadata__ 'a' is not a string"},
      {R"({"__metadata__":{"a":[1]}})", 0, "__metadata__ 'a' is not a string"},
      {R"({"__metadata__":3})", 0, "__metadata__ is not an object"},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, "names 'a' twice"},
      {R"({"__metadata__":{},"__metadata__":{}})", 0, "names '__metadata__' twice"},
      {R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"w":{"dtype":"U8","shape":[1],)"
       R"("data_offsets":[1,2]}})",
       2, "names 'w' twice"},
      {entry(R"("shape":[1],"data_offsets":[0,1])"), 1, "'w' has no dtype"},
      {entry(R"("dtype":"F33","shape":[1],"data_offsets":[0,1])"), 1, "unknown dtype 'F33'"},
      {entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,1],"x":1)"), 1, "unknown key 'x'"},
      {entry(R"("dtype":"U8","dtype":"I8","shape":[1],"data_offsets":[0,1])"), 1, "names 'dtype' twice"},
      {entry(R"("dtype":"U8","shape":[1],"shape":[1],"data_offsets":[0,1])"), 1, "names 'shape' twice"},
      {entry(R"("dtype":8,"shape":[1],"data_offsets":[0,1])"), 1, "'w' has no dtype"},
      {entry(R"("dtype":"U8","data_offsets":[0,1])"), 1, "no list 'shape'"},
      {entry(R"("dtype":"U8","shape":[1])"), 1, "no list 'data_offsets'"},
      {entry(R"("dtype":"U8","shape":"1","data_offsets":[0,1])"), 1, "no list 'shape'"},
      {entry(R"("dtype":"U8","shape":{},"data_offsets":[0,1])"), 1, "no list 'shape'"},
      {entry(R"("dtype":"U8","shape":["1"],"data_offsets":[0,1])"), 1, "holds \"1\", not a whole number"},
      {entry(R"("dtype":"U8","shape":[-1],"data_offsets":[0,1])"), 1, "holds -1, not a whole number"},
      {entry(R"("dtype":"U8","shape":[1.5],"data_offsets":[0,1])"), 1, "holds 1.5"},
      {entry(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0])"), 0, "more than 2^64"},
      {entry(R"("dtype":"U8","shape":[1],"data_offsets":[0])"), 1, "must be [begin, end]"},
      {entry(R"("dtype":"U8","shape":[1],"data_offsets":[1,0])"), 1, "must be [begin, end]"},
      {entry(R"("dtype":"U8","shape":[4],"data_offsets":[0,4])"), 3,
       "ends at byte 4 of the data, which has 3"},
      {entry(R"("dtype":"F32","shape":[2],"data_offsets":[0,4])"), 4,
       "takes 4 bytes, but its dtype and shape need 8"},
      {entry(R"("dtype":"U8","shape":[1],"data_offsets":[1,2])"), 2,
       "between 'the header' and 'w' belong to no"},
      {entry(R"("dtype":"U8","shape":[1],"data_offsets":[0,1])"), 2, "the last 1 bytes belong to no tensor"},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],)"
       R"("data_offsets":[1,3]}})",
       3, "tensors 'a' and 'b' overlap"},
  };
  for (const Case& c : cases) {
    write_raw(c.header, c.data_bytes);
    EXPECT_THAT(complaint(), HasSubstr(c.complaint)) << c.header;
    EXPECT_THAT(complaint(), HasSubstr("safetensors file '" + kPath + "'")) << c.header;
  }
}

TEST(Safetensors, HeaderLengthsAreNotTrusted) {
  std::ofstream(kPath) << "1234567";
  EXPECT_THAT(complaint(), HasSubstr("has 7 bytes"));
  write_raw("{}", 0, 3);
  EXPECT_THAT(complaint(), HasSubstr("header length 3 reaches beyond the file's 10 bytes"));
  write_raw("{}", 0, ~std::uint64_t{0});
  EXPECT_THAT(complaint(), HasSubstr("above the format's limit"));
}

TEST(Safetensors, ADeeplyNestedHeaderIsRefusedByItsDepth) {
  const std::size_t depth = 1'000'000;
  const std::string nested = std::string(depth, '[') + std::string(depth, ']');
  write_raw(R"({"w":{"dtype":"U8","shape":)" + nested + R"(,"data_offsets":[0,1]}})", 1);
  EXPECT_THAT(complaint(), HasSubstr("header is nested deeper than the format allows"));
  write_raw(R"({"w":)" + nested + "}", 0);
  EXPECT_THAT(complaint(), HasSubstr("header is nested deeper than the format allows"));
}

// A header that is read in quadratic time takes 25 s for these and one in linear time a tenth of a second.
TEST(Safetensors, AHeaderOfManyTensorsIsReadInLinearTime) {
  constexpr int kTensors = 20'000;
  std::string header = "{";
  for (int i = 0; i < kTensors; ++i)
    header += cat(i == 0 ? "" : ",", "\"t", i, "\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[", i,
                  ",", i + 1, "]}");
  write_raw(header + "}", kTensors);
  const double begun = now_seconds();
  EXPECT_EQ(Safetensors(kPath).tensors().size(), static_cast<std::size_t>(kTensors));
  EXPECT_LT(now_seconds() - begun, 5.0);
}

TEST(Safetensors, AFailedWriteLeavesNothingBehind) {
  const std::string folder = cat(testing::TempDir(), "tessera_is_a_folder_", ::getpid());
  std::filesystem::create_directories(folder + "/full");
  EXPECT_THROW(write_safetensors(folder, {}), UserError);
  EXPECT_THROW(write_safetensors("/no/such/folder/x", {}), UserError);
  for (const auto& file : std::filesystem::directory_iterator(testing::TempDir()))
    EXPECT_THAT(file.path().string(), testing::Not(HasSubstr(folder + ".tmp")));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace tessera::checkpoint
