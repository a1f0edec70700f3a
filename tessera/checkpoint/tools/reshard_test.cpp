#include "tessera/checkpoint/tools/reshard.hpp"

#include <gmock/gmock.h>

#include <fstream>

#include "tessera/base/complaint.hpp"
#include "tessera/checkpoint/format/names.hpp"
#include "tessera/checkpoint/testing/small_checkpoint.hpp"
#include "tessera/checkpoint/tools/summary.hpp"

namespace tessera::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Reshard = SmallCheckpoint;

TEST_F(Reshard, AnyNumberOfShardsFromAnyNumberHoldsTheSameTensors) {
  for (const std::int64_t before : {1, 4, 7}) {
    save_small(folder_, before, before);
    for (const std::int64_t after : {1, 3, 8, 40}) {
      const std::string target = cat(folder_, "/from-", before, "-to-", after);
      Checkpoint from(step(before));
      reshard(from, target, {.num_ranks = after});
      Checkpoint to(target);
      EXPECT_THAT(to.problems(), IsEmpty());
      EXPECT_EQ(to.manifest().tensors, from.manifest().tensors);
      EXPECT_EQ(to.manifest().progress, from.manifest().progress);
      EXPECT_EQ(to.manifest().config, from.manifest().config);
      EXPECT_EQ(num_ranks(to.manifest()), after);
      for (const auto& [name, tensor] : small_tensors())
        EXPECT_EQ(read_whole(to, name), small_bytes(name, tensor)) << name;
      EXPECT_FALSE(std::filesystem::exists(target + ".writing"));
    }
  }
}

TEST_F(Reshard, SharesAreEqualButForARow) {
  Manifest manifest;
  manifest.tensors = {{"a", {"F32", {1000, 64}}}, {"b", {"BF16", {777}}}, {"c", {"F32", {10, 30, 20}}}};
  const auto shares = resharded_pieces(manifest, {.num_ranks = 3});
  std::int64_t all = 0;
  for (const auto& [name, tensor] : manifest.tensors) all += static_cast<std::int64_t>(bytes_of(tensor));
  std::map<std::string, std::vector<Box>> boxes;
  for (const auto& share : shares) {
    std::int64_t bytes = 0;
    for (const auto& [name, box] : share) {
      bytes +=
          box.elements() * static_cast<std::int64_t>(element_bytes(manifest.tensors[name].dtype).value());
      boxes[name].push_back(box);
    }
    EXPECT_NEAR(bytes, all / 3, 2400) << "a row of c";
  }
  for (const auto& [name, tensor] : manifest.tensors)
    EXPECT_EQ(tiling_problem(tensor.shape, boxes[name]), std::nullopt) << name;
  EXPECT_EQ(boxes["a"].size(), 3u) << "cut between rows";
}

TEST_F(Reshard, RowsTooLongForEqualSharesAreCut) {
  Manifest manifest;
  manifest.tensors = {{"a", {"F32", {2, 1 << 20}}}};
  for (const auto& share : resharded_pieces(manifest, {.num_ranks = 5})) {
    std::int64_t elements = 0;
    for (const auto& piece : share) elements += piece.box.elements();
    EXPECT_NEAR(elements, (2 << 20) / 5, 1);
  }
}

TEST_F(Reshard, LeavesTheOptimizerOutAndCarriesAttachedFiles) {
  save_small(folder_, 3, 2);
  const std::string with_file = folder_ + "/with-file";
  {
    Checkpoint from(step(3));
    Manifest manifest = from.manifest();
    NewFolder made(with_file);
    const std::string& writing = made.path();
    for (const File& file : manifest.files)
      for (const char* suffix : {"", kHashesSuffix})
        std::filesystem::copy_file(step(3) + "/" + file.name + suffix, writing + "/" + file.name + suffix);
    FileWriter writer(writing, "huggingface/tokenizer.json");
    writer.append(std::as_bytes(std::span("words", 5)));
    manifest.files.push_back(writer.finish());
    made.commit(manifest);
  }
  Checkpoint from(with_file);
  reshard(from, folder_ + "/parameters", {.num_ranks = 3, .parameters_only = true});
  Checkpoint to(folder_ + "/parameters");
  for (const auto& [name, tensor] : to.manifest().tensors) EXPECT_TRUE(is_parameter(name));
  EXPECT_EQ(to.manifest().tensors.size(), small_tensors().size() / 2);
  EXPECT_EQ(to.manifest().files.back().name, "huggingface/tokenizer.json");
  EXPECT_EQ(to.file(static_cast<std::uint32_t>(to.manifest().files.size() - 1)).chunk(0).size(), 5u);
}

TEST_F(Reshard, TellsHowFarItIsAndRefusesAnExistingTarget) {
  save_small(folder_, 3, 2);
  Checkpoint from(step(3));
  std::uint64_t last = 0, all = 0;
  reshard(from, folder_ + "/out/", {.num_ranks = 2}, [&](std::uint64_t done, std::uint64_t in_all) {
    EXPECT_GT(done, last);
    last = done, all = in_all;
  });
  EXPECT_EQ(last, all);
  EXPECT_THAT(complaint_of([&] { reshard(from, folder_ + "/out", {}); }), HasSubstr("exists; name a folder"));
}

TEST_F(Reshard, ADamagedSourceLeavesNoTarget) {
  save_small(folder_, 3, 2);
  {
    std::fstream damage(step(3) + "/rank-00001.safetensors", std::ios::in | std::ios::out | std::ios::binary);
    damage.seekp(-5, std::ios::end);
    damage.put('x');
  }
  Checkpoint from(step(3));
  EXPECT_THAT(complaint_of([&] { reshard(from, folder_ + "/out", {.num_ranks = 3}); }),
              HasSubstr("rank-00001.safetensors' is damaged"));
  EXPECT_FALSE(is_checkpoint(folder_ + "/out"));
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/out.writing"));
}

}  // namespace
}  // namespace tessera::checkpoint
