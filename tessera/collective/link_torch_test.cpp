#include <gtest/gtest.h>

#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tessera/collective/group.hpp"
#include "tessera/collective/link.hpp"

#include "tessera/base/error.hpp"  // last: LibTorch has a CHECK of its own

namespace tessera::collective {
namespace {

using at::Tensor;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class Finished final : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds) override { return true; }
  bool isCompleted() override { return true; }
};

class Failing final : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds) override { throw std::runtime_error(""); }
};

// All goes well with it, except for its first send.
class FirstSendFails final : public c10d::Backend {
 public:
  FirstSendFails() : Backend(0, 2) {}
  WorkPtr send(std::vector<Tensor>&, int, int) override {
    if (num_sends_++ == 0) return c10::make_intrusive<Failing>();
    return c10::make_intrusive<Finished>();
  }
  WorkPtr recv(std::vector<Tensor>&, int, int) override { return c10::make_intrusive<Finished>(); }
  WorkPtr barrier(const c10d::BarrierOptions&) override { return c10::make_intrusive<Finished>(); }
  WorkPtr allreduce(std::vector<Tensor>&, const c10d::AllreduceOptions&) override {
    return c10::make_intrusive<Finished>();
  }

 private:
  int num_sends_ = 0;
};

TEST(Link, AFailedSendIsToldByWhateverComesNext) {
  const auto link = std::make_shared<Link>();
  link->ranks = {0, 1};
  link->backend = c10::make_intrusive<FirstSendFails>();
  const Group group(link);
  Tensor t = tensor::zeros({2}, at::kFloat);
  group.send(t, 1, 0);
  // The failure is noticed by a thread of the outbox: soon, not at once.
  bool is_told = false;
  for (int look = 0; look < 5000 && !is_told; ++look) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    try {
      group.barrier();
    } catch (const PeerLost& error) {
      EXPECT_NE(std::string(error.what()).find("an earlier send failed"), std::string::npos) << error.what();
      is_told = true;
    }
  }
  EXPECT_TRUE(is_told);
  EXPECT_THROW(group.receive(t, 1, 0), PeerLost);
  EXPECT_THROW(group.all_reduce_sum(t), PeerLost);
  EXPECT_THROW(group.send(t, 1, 0), PeerLost);
}

}  // namespace
}  // namespace tessera::collective
