#include "tessera/tensor/told.hpp"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <system_error>

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
  const Told of_the_library = told_of([] { throw std::bad_alloc(); });
  EXPECT_EQ(of_the_library.exit_code, kExitUserError);
  EXPECT_NE(of_the_library.text.find("its tensors hold 0 bytes, and the process "), std::string::npos)
      << of_the_library.text;
}

TEST(Told, MemoryOfADeviceIsToldWithWhatItHolds) {
  const Told told = told_of([] {
    TORCH_CHECK(
        false,
        "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.15 GiB of which "
        "1.12 GiB is free. Including non-PyTorch memory, this process has 78.02 GiB memory in use. Of the "
        "allocated memory 70.00 GiB is allocated by PyTorch.");
  });
  EXPECT_EQ(told.exit_code, kExitUserError);
  EXPECT_NE(told.text.find("it tried to allocate 2.50 GiB and holds 78.02 GiB of the device"),
            std::string::npos)
      << told.text;
}

TEST(Told, AThreadThatCannotBeStartedIsAboutMemory) {
  const Told told = told_of(
      [] { throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)); });
  EXPECT_EQ(told.exit_code, kExitUserError);
  EXPECT_NE(told.text.find("ulimit -v"), std::string::npos) << told.text;
  EXPECT_EQ(told_of([] {
              throw std::system_error(std::make_error_code(std::errc::bad_file_descriptor));
            }).exit_code,
            kExitBug);
}

TEST(Told, MessagesAreBoundedWhateverNameTheyQuote) {
  const std::string name(120'000, 'x');
  const Told told = told_of([&] { static_cast<void>(std::filesystem::exists(name)); });
  EXPECT_EQ(told.exit_code, kExitUserError);
  EXPECT_NE(told.text.find("File name too long"), std::string::npos) << told.text;
  EXPECT_LT(told.text.size(), 2000u);
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
