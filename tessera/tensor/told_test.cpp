#include "tessera/tensor/told.hpp"

#include <gtest/gtest.h>

#include "tessera/base/error.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::tensor {
namespace {

template <typename Action>
Told told_of(const Action& action) {
  try {
    action();
  } catch (...) {
    return told(std::current_exception());
  }
  return {"(nothing was thrown)", 0};
}

TEST(Told, MemoryThatCannotBeHadIsTheUsersToMend) {
  const Told from_torch = told_of([] { empty({std::int64_t{1} << 50}, at::kByte); });
  EXPECT_EQ(from_torch.exit_code, kExitUserError);
  EXPECT_NE(from_torch.text.find("1125899906842624 bytes"), std::string::npos) << from_torch.text;
  EXPECT_EQ(told_of([] { throw std::bad_alloc(); }).exit_code, kExitUserError);
}

TEST(Told, OwnErrorsKeepTheirWordsAndLibTorchsLoseTheirStack) {
  EXPECT_EQ(told_of([] { throw UserError("bad key"); }).text, "bad key");
  EXPECT_EQ(told_of([] { throw PeerLost("gone"); }).exit_code, kExitPeerLost);
  const Told mismatch = told_of([] { zeros({2, 3}, at::kFloat).matmul(zeros({4, 5}, at::kFloat)); });
  EXPECT_EQ(mismatch.exit_code, kExitBug);
  EXPECT_EQ(mismatch.text.find("frame #"), std::string::npos) << mismatch.text;
  EXPECT_EQ(told_of([] { throw 7; }).exit_code, kExitBug);
}

}  // namespace
}  // namespace tessera::tensor
