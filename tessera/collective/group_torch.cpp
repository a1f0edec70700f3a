#include <ATen/core/grad_mode.h>

#include <torch/csrc/autograd/graph_task.h>
#include <algorithm>
#include <numeric>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "tessera/base/error.hpp"
#include "tessera/collective/group.hpp"
#include "tessera/collective/link.hpp"
#include "tessera/tensor/warm_up.hpp"

namespace tessera::collective {
namespace {

using at::Tensor;

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t kShown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kShown); ++i) text += cat(i ? ", " : "", ranks[i]);
  return ranks.size() > kShown ? cat(text, ", ... (", ranks.size(), " ranks)") : text;
}

// c10d throws whatever its transport throws; here it becomes one of our three kinds.
template <typename Operation>
auto guarded(const Link& link, const char* what, Operation&& operation) {
  try {
    return operation();
  } catch (const Bug&) {
    throw;
  } catch (const PeerLost&) {
    throw;
  } catch (const std::exception& error) {
    throw PeerLost(cat(what, " between ranks ", ranks_text(link.ranks), " failed on rank ",
                       link.ranks[static_cast<std::size_t>(link.rank)], ": ", short_text(error)));
  }
}

// An operation that blocks; a send that failed meanwhile is told first.
template <typename Operation>
void finish(const Link& link, const char* what, Operation&& operation) {
  link.outbox.check();
  guarded(link, what, [&] { operation()->wait(); });
}

// Backends want dense memory and no autograd.
Tensor dense(const Tensor& t) { return t.detach().contiguous(); }

// Runs `operation` on a dense tensor of t's values and leaves the result in t.
template <typename Operation>
void in_place(Tensor& t, Operation&& operation) {
  const at::NoGradGuard no_grad;
  std::vector<Tensor> tensors{dense(t)};
  operation(tensors);
  if (tensors[0].data_ptr() != t.data_ptr()) t.detach().copy_(tensors[0]);
}

void check_alike(const Tensor& out, const Tensor& in) {
  TESSERA_CHECK(out.scalar_type() == in.scalar_type(), "out and in of a collective differ in dtype");
}

void all_reduce(const Link& link, Tensor& t, c10d::ReduceOp::RedOpType op, const char* what) {
  in_place(t, [&](std::vector<Tensor>& tensors) {
    c10d::AllreduceOptions options;
    options.reduceOp = op;
    finish(link, what, [&] { return link.backend->allreduce(tensors, options); });
  });
}

void check_member(const Link& link, int position) {
  TESSERA_CHECK(position >= 0 && position < static_cast<int>(link.ranks.size()), "member ", position,
                " of a group of ", link.ranks.size());
}

}  // namespace

Group::Group(int global_rank) : Group(std::make_shared<Link>()) { link_->ranks = {global_rank}; }
Group::Group(std::shared_ptr<Link> link) : link_(std::move(link)), tally_(std::make_shared<Tally>()) {}

int Group::size() const { return static_cast<int>(link_->ranks.size()); }
int Group::rank() const { return link_->rank; }
const std::vector<int>& Group::ranks() const { return link_->ranks; }

void Group::count(CallKind kind, const Tensor& whole) const {
  const bool is_forward = torch::autograd::get_current_graph_task_id() < 0;
  tally_->add({kind, is_forward ? CallDirection::forward : CallDirection::backward,
               static_cast<std::int64_t>(whole.nbytes())});
}

void Group::all_reduce_sum(Tensor& t) const {
  if (size() == 1 || t.numel() == 0) return;
  count(CallKind::all_reduce, t);
  all_reduce(*link_, t, c10d::ReduceOp::SUM, "all_reduce_sum");
}

void Group::all_reduce_max(Tensor& t) const {
  if (size() == 1 || t.numel() == 0) return;
  count(CallKind::all_reduce, t);
  all_reduce(*link_, t, c10d::ReduceOp::MAX, "all_reduce_max");
}

void Group::all_gather(Tensor& out, const Tensor& in) const {
  check_alike(out, in);
  TESSERA_CHECK(out.numel() == in.numel() * size(), "all_gather of ", in.numel(), " elements from ", size(),
                " members into ", out.numel());
  const at::NoGradGuard no_grad;
  if (size() == 1) return void(out.detach().copy_(in.reshape(out.sizes())));
  if (in.numel() == 0) return;
  count(CallKind::all_gather, out);
  Tensor input = dense(in);
  in_place(out, [&](std::vector<Tensor>& tensors) {
    finish(*link_, "all_gather", [&] { return link_->backend->_allgather_base(tensors[0], input); });
  });
}

void Group::reduce_scatter_sum(Tensor& out, const Tensor& in) const {
  check_alike(out, in);
  TESSERA_CHECK(in.numel() == out.numel() * size(), "reduce_scatter of ", in.numel(), " elements to ", size(),
                " members of ", out.numel());
  const at::NoGradGuard no_grad;
  if (size() == 1) return void(out.detach().copy_(in.reshape(out.sizes())));
  if (in.numel() == 0) return;
  count(CallKind::reduce_scatter, in);
  Tensor input = dense(in);
  in_place(out, [&](std::vector<Tensor>& tensors) {
    finish(*link_, "reduce_scatter_sum",
           [&] { return link_->backend->_reduce_scatter_base(tensors[0], input); });
  });
}

void Group::all_to_all(Tensor& out, const Tensor& in, std::span<const std::int64_t> out_rows,
                       std::span<const std::int64_t> in_rows) const {
  check_alike(out, in);
  const auto fits = [&](const Tensor& t, std::span<const std::int64_t> rows) {
    return static_cast<int>(rows.size()) == size() &&
           std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == t.size(0);
  };
  TESSERA_CHECK(fits(out, out_rows) && fits(in, in_rows),
                "all_to_all: row counts don't add up to the tensors' rows");
  const at::NoGradGuard no_grad;
  if (size() == 1) return void(out.detach().copy_(in.reshape(out.sizes())));
  count(CallKind::all_to_all, in);
  Tensor input = dense(in);
  std::vector<std::int64_t> from(out_rows.begin(), out_rows.end()), to(in_rows.begin(), in_rows.end());
  in_place(out, [&](std::vector<Tensor>& tensors) {
    finish(*link_, "all_to_all", [&] { return link_->backend->alltoall_base(tensors[0], input, from, to); });
  });
}

void Group::broadcast(Tensor& t, int root) const {
  check_member(*link_, root);
  if (size() == 1 || t.numel() == 0) return;
  count(CallKind::broadcast, t);
  in_place(t, [&](std::vector<Tensor>& tensors) {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    finish(*link_, "broadcast", [&] { return link_->backend->broadcast(tensors, options); });
  });
}

void Group::send(const Tensor& t, int to, int tag) const {
  hand_over(t.detach().clone(at::MemoryFormat::Contiguous), to, tag);
}

void Group::hand_over(const Tensor& t, int to, int tag, Held held) const {
  check_member(*link_, to);
  TESSERA_CHECK(to != rank(), "a rank sends to itself");
  count(CallKind::send, t);
  std::vector<Tensor> tensors{dense(t)};
  auto work = guarded(*link_, "send", [&] { return link_->backend->send(tensors, to, tag); });
  if (held == Held::by_caller && !t.is_cpu()) guarded(*link_, "send", [&] { work->wait(); });
  link_->outbox.keep(std::move(work), t.device());
}

void Group::receive(Tensor& t, int from, int tag) const {
  in_place(t, [&](std::vector<Tensor>& tensors) { expect(tensors[0], from, tag)(); });
}

std::function<void()> Group::expect(Tensor t, int from, int tag) const {
  check_member(*link_, from);
  TESSERA_CHECK(from != rank(), "a rank receives from itself");
  TESSERA_CHECK(t.is_contiguous(), "what is received must be dense");
  link_->outbox.check();
  std::vector<Tensor> tensors{t};
  auto work = guarded(*link_, "receive", [&] { return link_->backend->recv(tensors, from, tag); });
  return [link = link_, work = std::move(work)] { finish(*link, "receive", [&] { return work; }); };
}

std::function<void()> Group::shift(const Tensor& t, int to, Tensor arriving, int from, int tag) const {
  if (!link_->backend->supportsCoalescing()) {
    // Not all begin with the send: it may last until the other side receives.
    const bool sends_first = rank() % 2 == 1;
    if (sends_first) hand_over(t, to, tag);
    auto wait = expect(std::move(arriving), from, tag);
    if (!sends_first) hand_over(t, to, tag);
    return wait;
  }
  check_member(*link_, to);
  check_member(*link_, from);
  TESSERA_CHECK(to != rank() && from != rank(), "a rank sends to itself");
  TESSERA_CHECK(arriving.is_contiguous(), "what is received must be dense");
  count(CallKind::send, t);
  std::vector<Tensor> sent{dense(t)}, received{std::move(arriving)};
  auto work = guarded(*link_, "shift", [&] {
    link_->backend->startCoalescing();
    link_->backend->send(sent, to, tag);
    link_->backend->recv(received, from, tag);
    return link_->backend->endCoalescing();
  });
  return [link = link_, work = std::move(work)] { finish(*link, "shift", [&] { return work; }); };
}

std::size_t Group::unfinished_sends(std::chrono::milliseconds patience) const {
  return link_->outbox.wait(patience);
}

void Group::barrier() const {
  if (size() == 1) return;
  finish(*link_, "barrier", [&] { return link_->backend->barrier(c10d::BarrierOptions()); });
}

Communicator::Communicator(int rank, int size, c10::Device device)
    : rank_(rank), size_(size), device_(device) {
  tensor::warm_up();
}

std::vector<Group> make_groups(const Communicator& communicator,
                               const std::vector<std::vector<int>>& rank_lists) {
  std::vector<std::vector<int>> lists;  // those with this rank and company
  for (const auto& list : rank_lists) {
    std::vector<int> sorted = list;
    std::ranges::sort(sorted);
    TESSERA_CHECK(!list.empty() && sorted.front() >= 0 && sorted.back() < communicator.size() &&
                      std::ranges::adjacent_find(sorted) == sorted.end(),
                  "a group's ranks ", ranks_text(list), " are not distinct ranks under ",
                  communicator.size());
    if (list.size() > 1 && std::ranges::binary_search(sorted, communicator.rank())) lists.push_back(list);
  }
  const auto links = communicator.connect(lists);
  std::vector<Group> groups;
  std::size_t next = 0;
  for (const auto& list : rank_lists) {
    if (next < lists.size() && list == lists[next])
      groups.push_back(Group(links[next++]));
    else if (list.front() == communicator.rank() && list.size() == 1)
      groups.push_back(Group(communicator.rank()));
  }
  return groups;
}

}  // namespace tessera::collective
