#include "tessera/shard/offload_store.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "tessera/base/error.hpp"

namespace tessera::shard {
namespace {

using tensor::Tensor;
using testing::AllOf;
using testing::HasSubstr;

OffloadKey key(std::uint32_t item, std::size_t part = 0) { return {{program::CellKind::state, item}, part}; }

Tensor counted(std::int64_t elements, double first) {
  Tensor out = tensor::empty({elements}, at::kFloat);
  for (std::int64_t i = 0; i < elements; ++i)
    out.mutable_data_ptr<float>()[i] = static_cast<float>(first) + static_cast<float>(i);
  return out;
}

class Depots : public testing::TestWithParam<bool> {
 protected:
  Depots() {
    if (!GetParam()) return;
    folder_ = testing::TempDir() + "/tessera-offload";
    std::filesystem::create_directories(folder_);
  }
  std::string folder_;
};

TEST_P(Depots, GiveBackWhatWasPutLast) {
  OffloadStore store(folder_);
  const Tensor big = counted(3'000'017, 0.5), small = counted(10, 7);
  store.put(key(1), big);
  store.put(key(1, 1), small);
  store.put(key(2), small.to(at::kBFloat16).view({2, 5}));
  EXPECT_TRUE(tensor::bit_equal(store.get(key(1)), big));
  EXPECT_TRUE(tensor::bit_equal(store.get(key(1, 1)), small));
  EXPECT_TRUE(tensor::bit_equal(store.get(key(2)), small.to(at::kBFloat16).view({2, 5})));
  store.put(key(1), small);  // a short micro-batch
  EXPECT_TRUE(tensor::bit_equal(store.get(key(1)), small));
  store.put(key(1, 1), big);
  EXPECT_TRUE(tensor::bit_equal(store.get(key(1, 1)), big));
}

TEST_P(Depots, KnowZerosThatWereNeverWritten) {
  OffloadStore store(folder_);
  store.put_zeros(key(1), {1'000'000}, at::kDouble);
  EXPECT_TRUE(store.has(key(1)));
  const Tensor zeros = store.get(key(1));
  EXPECT_EQ(zeros.scalar_type(), at::kDouble);
  EXPECT_EQ(zeros.numel(), 1'000'000);
  EXPECT_EQ(zeros.abs().max().item<double>(), 0);
  EXPECT_FALSE(store.has(key(2)));
  EXPECT_THROW(store.get(key(2)), Bug);
}

INSTANTIATE_TEST_SUITE_P(, Depots, testing::Bool(),
                         [](const auto& info) { return info.param ? "InFiles" : "InHostMemory"; });

TEST(OffloadStore, LeavesNoNamesBehind) {
  const std::string folder = testing::TempDir() + "/tessera-offload-names";
  std::filesystem::create_directories(folder);
  OffloadStore store(folder);
  store.put(key(1), counted(10, 1));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

TEST(OffloadStore, NamesTheFolderThatItCannotWriteToBeforeAnythingIsPut) {
  EXPECT_THAT(refusal([] { OffloadStore store("/nonexistent/folder"); }),
              AllOf(HasSubstr("'/nonexistent/folder' for offloaded tensors: "),
                    HasSubstr("No such file or directory"), HasSubstr("layout.offload_folder")));
  EXPECT_THAT(refusal([] { OffloadStore store("/proc"); }),
              HasSubstr("cannot make a file in the folder '/proc'"));
}

// Of what is never written too: a step must not find out that the disk is full.
TEST(OffloadStore, ReservesItsRoom) {
  const std::string folder = "/dev/shm";  // full at a size that is known
  OffloadStore store(folder);
  const auto elements = static_cast<std::int64_t>(std::filesystem::space(folder).capacity / 8 + 4096);
  EXPECT_THAT(refusal([&] { store.put_zeros(key(1), {elements}, at::kDouble); }),
              AllOf(HasSubstr("cannot reserve room in the folder '/dev/shm'"), HasSubstr("No space left")));
}

}  // namespace
}  // namespace tessera::shard
