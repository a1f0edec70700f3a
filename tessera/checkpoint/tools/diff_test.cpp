#include "tessera/checkpoint/tools/diff.hpp"

#include <gmock/gmock.h>

#include <limits>

#include "tessera/checkpoint/format/element.hpp"
#include "tessera/checkpoint/testing/small_checkpoint.hpp"
#include "tessera/checkpoint/tools/reshard.hpp"

namespace tessera::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Diff : public SmallCheckpoint {
 protected:
  // A checkpoint of these whole tensors.
  Checkpoint made(const char* name, const std::map<std::string, TensorBytes>& tensors,
                  Manifest manifest = {}) {
    const std::string target = cat(folder_, "/", name);
    NewFolder folder(target);
    std::vector<HeldPiece> held;
    for (const auto& [tensor, about] : tensors)
      held.push_back({tensor, about.dtype, about.shape, whole_box(about.shape), about.bytes});
    write_pieces(folder.path(), 0, held, manifest);
    folder.commit(manifest);
    return Checkpoint(target);
  }
};

template <typename T>
TensorBytes floats(const std::vector<T>& values) {
  return {sizeof(T) == 4 ? "F32" : "F64", {std::ssize(values)}, std::as_bytes(std::span(values))};
}

TEST_F(Diff, LayoutsOfEqualContentAreEqual) {
  save_small(folder_, 3, 4, "[model]\nlayers = 2\n[layout]\ndp_shard = 4\n");
  save_small(folder_ + "/other", 3, 3, "[model]\nlayers = 2\n[layout]\ndp_shard = 3\n");
  Checkpoint first(step(3)), second(step_folder(folder_ + "/other", 3).path);
  std::uint64_t last = 0, all = 0;
  const Difference found =
      diff(first, second, [&](std::uint64_t done, std::uint64_t in_all) { last = done, all = in_all; });
  EXPECT_TRUE(found.equal());
  EXPECT_EQ(found.num_equal, std::ssize(small_tensors()));
  EXPECT_THAT(found.config, ElementsAre(KeyDifference{"layout.dp_shard", "4", "3"}));
  EXPECT_GT(all, 0u);
  EXPECT_EQ(last, all);
}

TEST_F(Diff, StateAndKeysOfTheRunAreNamed) {
  save_small(folder_, 3, 2, "[model]\nlayers = 2\n");
  save_small(folder_, 4, 2, "[model]\nlayers = 3\n[training]\nsteps = 5\n");
  Checkpoint first(step(3)), second(step(4));
  const Difference found = diff(first, second);
  EXPECT_FALSE(found.equal());
  EXPECT_THAT(found.tensors, IsEmpty());
  EXPECT_THAT(found.state, ElementsAre(KeyDifference{"step", "3", "4"}, KeyDifference{"updates", "3", "4"}));
  EXPECT_THAT(found.config,
              ElementsAre(KeyDifference{"model.layers", "2", "3"}, KeyDifference{"training.steps", "", "5"}));
}

TEST_F(Diff, TensorsThatDifferAreMeasured) {
  const std::vector<float> a = {1, 2, 4, 0, -8}, b = {1, 2.5, 4, -0.f, -2};
  const std::vector<double> c = {1, std::numeric_limits<double>::quiet_NaN()}, d = {1, 3};
  Checkpoint first =
      made("first", {{"both", floats(a)}, {"odd", floats(c)}, {"mine", floats(a)}, {"form", floats(a)}});
  Checkpoint second =
      made("second", {{"both", floats(b)}, {"odd", floats(d)}, {"yours", floats(a)}, {"form", floats(c)}});
  const Difference found = diff(first, second);
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_THAT(found.tensors, ElementsAre(TensorDifference{"both", 5, 3, 6, 0.75},
                                         TensorDifference{"odd", 2, 1, infinite, infinite}));
  EXPECT_THAT(found.only_first, ElementsAre("mine"));
  EXPECT_THAT(found.only_second, ElementsAre("yours"));
  EXPECT_THAT(found.other_form, ElementsAre(KeyDifference{"form", "F32 [5]", "F64 [2]"}));
  EXPECT_FALSE(found.equal());
  EXPECT_TRUE(diff(first, first).equal());
}

TEST_F(Diff, ElementsOfEveryDtypeAreRead) {
  const auto read = [](const char* dtype, std::uint64_t bits) {
    return element_reader(dtype)(reinterpret_cast<const std::byte*>(&bits));
  };
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(read("BF16", 0xc040), -3);
  EXPECT_EQ(read("F16", 0xc200), -3);
  EXPECT_EQ(read("F16", 0x0001), 0x1p-24);
  EXPECT_EQ(read("F16", 0x7bff), 65504);
  EXPECT_EQ(read("F16", 0xfc00), -infinite);
  EXPECT_EQ(read("F8_E5M2", 0x7b), 57344);
  EXPECT_EQ(read("F8_E4M3", 0x7e), 448);
  EXPECT_EQ(read("F8_E4M3", 0x01), 0x1p-9);
  EXPECT_TRUE(std::isnan(read("F8_E4M3", 0xff)));
  EXPECT_EQ(read("F8_E8M0", 128), 2);
  EXPECT_EQ(read("I8", 0xff), -1);
  EXPECT_EQ(read("I16", 0xffff), -1);
  EXPECT_EQ(read("I32", 0xffffffff), -1);
  EXPECT_EQ(read("I64", ~0ull), -1);
  EXPECT_EQ(read("U8", 0xff), 255);
  EXPECT_EQ(read("U16", 0xffff), 65535);
  EXPECT_EQ(read("U32", 0xffffffff), 4294967295.0);
  EXPECT_EQ(read("U64", 1ull << 60), 0x1p60);
  EXPECT_EQ(read("BOOL", 1), 1);
  EXPECT_EQ(read("F32", 0x3fc00000), 1.5);
  EXPECT_EQ(read("F64", 0x3ff8000000000000), 1.5);
}

}  // namespace
}  // namespace tessera::checkpoint
