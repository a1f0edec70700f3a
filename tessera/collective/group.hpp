// A set of ranks and the operations between them. A Group is a value: copies share one connection. A group
// of one never communicates. Operations block. One thread at a time may call them; with sockets and
// threads, one that receives and one that sends may do so at the same time, but NCCL allows one caller at a
// time (Note [One queue on a device] in engine/lanes_order.cpp). All members call the same collectives in
// the same order. A peer that is gone or silent ends an operation with PeerLost.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "tessera/collective/calls.hpp"

namespace at {
class Tensor;
}

namespace tessera::collective {

struct Link;  // the connection; transports make it (link.hpp)

// Who keeps the memory of a send. On a device the caller may: its stream then comes after the send.
enum class Held { until_received, by_caller };

class Group {
 public:
  Group() : Group(0) {}             // alone
  explicit Group(int global_rank);  // alone, as that rank
  explicit Group(std::shared_ptr<Link> link);

  int size() const;
  int rank() const;                       // position inside the group; so are root, from and to below
  const std::vector<int>& ranks() const;  // global ranks, by position

  // In place; equal shapes and bit-equal results on all members.
  void all_reduce_sum(at::Tensor& t) const;
  void all_reduce_max(at::Tensor& t) const;
  // out = the members' `in`, concatenated on dim 0.
  void all_gather(at::Tensor& out, const at::Tensor& in) const;
  // out = this member's equal share, on dim 0, of the sum of all `in`.
  void reduce_scatter_sum(at::Tensor& out, const at::Tensor& in) const;
  // in_rows[i] rows of `in` go to member i; out_rows[i] rows of `out` come from member i. Rows may be none.
  void all_to_all(at::Tensor& out, const at::Tensor& in, std::span<const std::int64_t> out_rows,
                  std::span<const std::int64_t> in_rows) const;
  // In place: everyone gets the root's values.
  void broadcast(at::Tensor& t, int root) const;
  // Returns at once with the values copied: never waits for the receiver. Equal tags arrive in order. Tags
  // are at least 0 and below kPairwiseTag (pairwise_collectives.hpp).
  void send(const at::Tensor& t, int to, int tag) const;
  // The same without a copy, unless t is not dense: nobody may change these values any more. They are held
  // until received.
  void hand_over(const at::Tensor& t, int to, int tag, Held held = Held::until_received) const;
  void receive(at::Tensor& t, int from, int tag) const;
  // Begins to receive into t, which is dense, so that values travel while the caller computes; what it
  // returns waits for the end: once, and for equal tags in the order in which they were begun. With NCCL two
  // members that send to each other must not both begin with the send.
  [[nodiscard]] std::function<void()> expect(at::Tensor t, int from, int tag) const;
  // Hands t over to one member while the like of it comes from another into `arriving`; on NCCL both are one
  // operation, so that members of a ring need not agree who sends first. Returns as `expect` does.
  [[nodiscard]] std::function<void()> shift(const at::Tensor& t, int to, at::Tensor arriving, int from,
                                            int tag) const;
  // Waits until the sends are received or the patience is over; returns how many are not.
  std::size_t unfinished_sends(std::chrono::milliseconds patience) const;
  void barrier() const;

  // What was called on this group and its copies.
  Tally& tally() const { return *tally_; }

  // The connection, which other groups may use too.
  const std::shared_ptr<Link>& link() const { return link_; }

 private:
  void count(CallKind kind, const at::Tensor& whole) const;

  std::shared_ptr<Link> link_;
  std::shared_ptr<Tally> tally_;
};

// This rank among all ranks, and the way to reach the others. Made by run_ranks (threads.hpp),
// the transports (transport.hpp).
class Communicator {
 public:
  // Not before LibTorch is warm (Note [First calls] in tensor/warm_up.hpp).
  Communicator(int rank, int size, c10::Device device = c10::kCPU);
  virtual ~Communicator() = default;
  int rank() const { return rank_; }
  int size() const { return size_; }
  // Where tensors lie that the groups of this rank can take.
  c10::Device device() const { return device_; }
  // The same ranks, for what lies in host memory, to be used while groups of the device are at work; this one
  // where the device is the host.
  virtual const Communicator& host() const { return host_ ? *host_ : *this; }
  void set_host(std::unique_ptr<Communicator> host) { host_ = std::move(host); }
  // Ends operations that wait for a peer, here and there, with PeerLost, where the transport has a way to.
  // Any thread may call it while the groups live.
  virtual void abort() const {}

 private:
  friend std::vector<Group> make_groups(const Communicator&, const std::vector<std::vector<int>>&);
  friend class PartCommunicator;
  // Connects this rank to the others of each list, all at once. The lists hold this rank and have two members
  // or more; equal ones get a connection each, told apart by their order.
  virtual std::vector<std::shared_ptr<Link>> connect(
      const std::vector<std::vector<int>>& rank_lists) const = 0;

  int rank_;
  int size_;
  c10::Device device_;
  std::unique_ptr<Communicator> host_;
};

// One group per list that holds this rank, in the order of the lists, each with a connection of its own. All
// members of a list must name it in the same call of make_groups, which costs one batched exchange.
std::vector<Group> make_groups(const Communicator& communicator,
                               const std::vector<std::vector<int>>& rank_lists);

}  // namespace tessera::collective
