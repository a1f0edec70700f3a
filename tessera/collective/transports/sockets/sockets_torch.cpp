#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tessera/base/error.hpp"
#include "tessera/collective/group_name.hpp"
#include "tessera/collective/link.hpp"
#include "tessera/collective/transports/sockets/pairwise_collectives.hpp"
#include "tessera/collective/transports/sockets/sockets.hpp"
#include "tessera/net/socket_loop.hpp"

namespace tessera::collective {
namespace {

using at::Tensor;
using std::chrono::milliseconds;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

class TransferWork final : public c10d::Work {
 public:
  TransferWork(net::TransferPtr transfer, milliseconds timeout)
      : transfer_(std::move(transfer)), timeout_(timeout) {}
  bool wait(milliseconds) override {
    transfer_->wait(timeout_);
    return true;
  }
  bool isCompleted() override { return transfer_->is_done(); }

 private:
  net::TransferPtr transfer_;
  milliseconds timeout_;
};

net::Buffer buffer_of(const Tensor& t) {
  return {static_cast<char*>(t.data_ptr()), t.nbytes(), std::make_shared<Tensor>(t)};
}

class SocketBackend final : public c10d::Backend {
 public:
  // A connection for each member but this one.
  SocketBackend(std::shared_ptr<net::SocketLoop> loop, int rank,
                std::vector<std::shared_ptr<net::Connection>> connections, milliseconds timeout)
      : Backend(rank, static_cast<int>(connections.size())),
        loop_(std::move(loop)),
        connections_(std::move(connections)),
        timeout_(timeout) {
    for (const auto& connection : connections_)
      if (connection) loop_->add(connection);
  }
  ~SocketBackend() override {
    for (const auto& connection : connections_)
      if (connection) loop_->remove(connection);
  }

  const std::string getBackendName() const override { return "sockets"; }

  WorkPtr send(std::vector<Tensor>& tensors, int to, int tag) override {
    return work(peer(to).send(tag, buffer_of(tensors[0])));
  }
  WorkPtr recv(std::vector<Tensor>& tensors, int from, int tag) override {
    return work(peer(from).receive(tag, buffer_of(tensors[0])));
  }

  WorkPtr allreduce(std::vector<Tensor>& tensors, const c10d::AllreduceOptions& options) override {
    const bool is_sum = options.reduceOp == c10d::ReduceOp::SUM;
    TESSERA_CHECK(is_sum || options.reduceOp == c10d::ReduceOp::MAX, "ranks combine by sum and maximum only");
    all_reduce_by_pairs(*this, tensors[0], is_sum ? Combine::sum : Combine::maximum);
    return done_work();
  }
  WorkPtr _reduce_scatter_base(Tensor& out, Tensor& in, const c10d::ReduceScatterOptions&) override {
    reduce_scatter_by_pairs(*this, out, in, Combine::sum);
    return done_work();
  }
  WorkPtr _allgather_base(Tensor& out, Tensor& in, const c10d::AllgatherOptions&) override {
    all_gather_by_pairs(*this, out, in);
    return done_work();
  }
  WorkPtr alltoall_base(Tensor& out, Tensor& in, std::vector<std::int64_t>& out_rows,
                        std::vector<std::int64_t>& in_rows, const c10d::AllToAllOptions&) override {
    all_to_all_by_pairs(*this, out, in, out_rows, in_rows);
    return done_work();
  }
  WorkPtr broadcast(std::vector<Tensor>& tensors, const c10d::BroadcastOptions& options) override {
    broadcast_by_pairs(*this, tensors[0], static_cast<int>(options.rootRank));
    return done_work();
  }
  // An empty message from everyone to everyone.
  WorkPtr barrier(const c10d::BarrierOptions&) override {
    std::vector<net::TransferPtr> transfers;
    for (const auto& connection : connections_)
      if (connection) {
        transfers.push_back(connection->receive(kPairwiseTag, {}));
        transfers.push_back(connection->send(kPairwiseTag, {}));
      }
    for (const auto& transfer : transfers) transfer->wait(timeout_);
    return done_work();
  }

 private:
  net::Connection& peer(int position) const {
    const auto& connection = connections_.at(static_cast<std::size_t>(position));
    TESSERA_CHECK(connection, "a rank talks to itself");
    return *connection;
  }
  WorkPtr work(net::TransferPtr transfer) const {
    return c10::make_intrusive<TransferWork>(std::move(transfer), timeout_);
  }

  const std::shared_ptr<net::SocketLoop> loop_;
  const std::vector<std::shared_ptr<net::Connection>> connections_;  // by position
  const milliseconds timeout_;
};

}  // namespace

SocketCommunicator::SocketCommunicator(PeerConnector& connector, const Seat& seat)
    : Communicator(seat.rank, seat.size),
      connector_(connector),
      seat_(seat),
      loop_(std::make_shared<net::SocketLoop>()) {}

SocketCommunicator::~SocketCommunicator() = default;

std::vector<std::shared_ptr<Link>> SocketCommunicator::connect(
    const std::vector<std::vector<int>>& rank_lists) const {
  std::vector<PeerRequest> requests;
  for (const auto& ranks : rank_lists) {
    const std::string prefix = cat(seat_.prefix, "/", group_name(ranks), "/", num_made_[ranks]++, "/");
    for (const int peer : ranks)
      if (peer != rank())
        requests.push_back({peer, cat(prefix, std::min(peer, rank()), "-", std::max(peer, rank()))});
  }
  if (requests.empty()) return {};
  auto sockets = connector_.connect(requests, seat_.timeout);
  auto next = sockets.begin();
  std::vector<std::shared_ptr<Link>> links;
  for (const auto& ranks : rank_lists) {
    auto link = make_link(ranks, rank());
    std::vector<std::shared_ptr<net::Connection>> connections;
    for (const int peer : ranks)
      connections.push_back(peer == rank()
                                ? nullptr
                                : std::make_shared<net::Connection>(std::move(*next++), cat("rank ", peer)));
    link->backend =
        c10::make_intrusive<SocketBackend>(loop_, link->rank, std::move(connections), seat_.timeout);
    links.push_back(std::move(link));
  }
  return links;
}

void SocketCommunicator::abort() const { loop_->abort("the job has ended"); }

}  // namespace tessera::collective
