// Checkpoints of version 1, kept as they were written: whatever becomes of Tessera, they read as they do
// today. `zero-1` was saved by a run on 2 stages x 2 ranks under ZeRO-1, `by-hand` has every form a tensor
// may take. Never written anew.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/base/files/file_text.hpp"
#include "tessera/checkpoint/testing/small_checkpoint.hpp"

namespace tessera::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr char kFolder[] = "tessera/checkpoint/golden/";

template <typename T>
std::vector<T> values(Checkpoint& from, const std::string& name) {
  const auto bytes = read_whole(from, name);
  std::vector<T> out(bytes.size() / sizeof(T));
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

TEST(Golden, AllOfTheOneMadeByHandReadsAsItWasWritten) {
  Checkpoint saved(cat(kFolder, "by-hand"));
  const Manifest& manifest = saved.manifest();
  EXPECT_EQ(manifest.written_by, "0.1");
  EXPECT_EQ(manifest.progress, (Progress{.step = 120,
                                         .updates = 118,
                                         .next_sample = 1920,
                                         .seed = ~0ull,
                                         .loss_scale = 1024,
                                         .good_steps = 5}));
  EXPECT_EQ(manifest.config, "[model]\nlayers = 2\n");
  EXPECT_EQ(manifest.program_hash, "0123456789abcdef");
  const std::map<std::string, Tensor> tensors = {{"a.matrix", {"F32", {3, 5}}},
                                                 {"b.half", {"BF16", {4}}},
                                                 {"c.scalar", {"F64", {}}},
                                                 {"d.empty", {"F32", {0, 2}}},
                                                 {"optimizer.exp_avg.a.matrix", {"F32", {3, 5}}}};
  EXPECT_EQ(manifest.tensors, tensors);
  EXPECT_THAT(saved.problems(), IsEmpty());
  EXPECT_THAT(values<float>(saved, "a.matrix"),
              ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14));
  EXPECT_THAT(values<float>(saved, "optimizer.exp_avg.a.matrix"),
              ElementsAre(0, -.5, -1, -1.5, -2, -2.5, -3, -3.5, -4, -4.5, -5, -5.5, -6, -6.5, -7));
  EXPECT_THAT(values<std::uint16_t>(saved, "b.half"), ElementsAre(0x3f80, 0xc000, 0x3f00, 0x4040));
  EXPECT_THAT(values<double>(saved, "c.scalar"), ElementsAre(2.5));
  EXPECT_THAT(values<float>(saved, "d.empty"), IsEmpty());
  ASSERT_EQ(manifest.files.back().name, "huggingface/config.json");
  const auto attached = saved.file(static_cast<std::uint32_t>(manifest.files.size() - 1)).chunk(0);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(attached.data()), attached.size()), "{}\n");
}

// A line per tensor: form, hash of all bytes, the first number.
std::string listing(Checkpoint& from) {
  std::string out = cat("step ", from.manifest().progress.step, ", next sample ",
                        from.manifest().progress.next_sample, "\n");
  for (const auto& [name, tensor] : from.manifest().tensors) {
    out += cat(name, " ", tensor.dtype, " ");
    for (const std::int64_t size : tensor.shape) out += cat(size, " ");
    out += cat(hash_text(hash_of(read_whole(from, name))), " ", values<float>(from, name).front(), "\n");
  }
  return out;
}

TEST(Golden, TheOneOfARunUnderZeroReadsAsItWasWritten) {
  Checkpoint saved(cat(kFolder, "zero-1"));
  EXPECT_THAT(saved.problems(), IsEmpty());
  EXPECT_EQ(saved.manifest().tensors.size(), 60u);
  EXPECT_EQ(listing(saved), file_text(cat(kFolder, "zero-1.txt")));
}

TEST(Golden, TheTextOfAManifestIsAsItWas) {
  const std::string path = cat(kFolder, "by-hand/", kManifestName);
  EXPECT_EQ(to_text(parse_manifest(file_text(path), path)), file_text(path));
}

}  // namespace
}  // namespace tessera::checkpoint
