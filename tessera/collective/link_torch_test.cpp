#include <gtest/gtest.h>

#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tessera/base/error.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/collective/link.hpp"
#include "tessera/tensor/streams_only.hpp"

namespace tessera::collective {
namespace {

using at::Tensor;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

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
    return done_work();
  }
  WorkPtr recv(std::vector<Tensor>&, int, int) override { return done_work(); }
  WorkPtr barrier(const c10d::BarrierOptions&) override { return done_work(); }
  WorkPtr allreduce(std::vector<Tensor>&, const c10d::AllreduceOptions&) override { return done_work(); }

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

// Keeps what it is given to send.
class Sender final : public c10d::Backend {
 public:
  explicit Sender(Tensor& sent) : Backend(0, 2), sent_(sent) {}
  WorkPtr send(std::vector<Tensor>& tensors, int, int) override {
    sent_ = tensors[0];
    return done_work();
  }

 private:
  Tensor& sent_;
};

TEST(Link, WhatIsHandedOverIsNotCopiedUnlessItIsNotDense) {
  Tensor sent;
  const auto link = std::make_shared<Link>();
  link->ranks = {0, 1};
  link->backend = c10::make_intrusive<Sender>(sent);
  const Group group(link);
  const Tensor t = tensor::zeros({2, 3}, at::kFloat);
  group.hand_over(t, 1, 0);
  EXPECT_EQ(sent.data_ptr(), t.data_ptr());
  group.hand_over(t.t(), 1, 0);
  EXPECT_NE(sent.data_ptr(), t.data_ptr());
  EXPECT_TRUE(sent.is_contiguous());
  group.send(t, 1, 0);
  EXPECT_NE(sent.data_ptr(), t.data_ptr());
}

using tensor::StreamsOnly;
const c10::impl::DeviceGuardImplRegistrar registered(StreamsOnly::kType, new StreamsOnly());

// As on a GPU: wait() returns at once, having made the calling thread's stream wait.
class OnADevice final : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds) override {
    stream_that_waits = StreamsOnly::current_stream();
    return true;
  }
  bool isCompleted() override { return is_received; }
  std::exception_ptr exception() const override { return error; }

  std::atomic<bool> is_received = false;
  std::exception_ptr error;
  std::atomic<c10::StreamId> stream_that_waits = -1;
};

TEST(Outbox, OnADeviceASendIsReceivedWhenItSaysSoAndNoLaneWaitsForIt) {
  const auto send = c10::make_intrusive<OnADevice>();
  Outbox outbox;
  outbox.keep(send, StreamsOnly::device());
  EXPECT_EQ(outbox.wait(std::chrono::milliseconds(50)), 1u);
  send->is_received = true;
  EXPECT_EQ(outbox.wait(std::chrono::seconds(30)), 0u);
  EXPECT_GT(send->stream_that_waits, 0) << "stream 0 is the compute lane's";
}

TEST(Outbox, OnADeviceASendThatFailedIsTold) {
  const auto send = c10::make_intrusive<OnADevice>();
  send->error = std::make_exception_ptr(std::runtime_error("the peer is gone"));
  send->is_received = true;
  Outbox outbox;
  outbox.keep(send, StreamsOnly::device());
  EXPECT_THROW(outbox.wait(std::chrono::seconds(30)), PeerLost);
}

}  // namespace
}  // namespace tessera::collective
