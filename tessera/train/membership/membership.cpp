#include "tessera/train/membership/membership.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "tessera/base/error.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::train {

namespace {

std::string bytes_of(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

std::vector<double> doubles_of(const std::string& bytes, std::size_t count) {
  if (bytes.size() != count * sizeof(double)) throw PeerLost("a rank brought other numbers than this one");
  std::vector<double> out(count);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace

Membership::Membership(const spec::Layout& layout, const collective::Communicator& all,
                       const collective::Attendance* attendance)
    : layout_(layout), all_(all), attendance_(attendance), replica_(layout.replica_of(all.rank())) {
  replicas_.resize(static_cast<std::size_t>(layout.dp_replicate));
  std::iota(replicas_.begin(), replicas_.end(), 0);
  if (attendance) return;
  std::vector<int> everyone(static_cast<std::size_t>(all.size()));
  std::iota(everyone.begin(), everyone.end(), 0);
  auto groups = collective::make_groups(all, {everyone, ranks_of_counterparts()});
  everyone_ = groups[0], counterparts_ = groups[1];
}

std::vector<int> Membership::ranks_of_counterparts() const {
  const auto mine = layout_.ranks_of_replica(replica_);
  const auto place = static_cast<std::size_t>(std::ranges::find(mine, all_.rank()) - mine.begin());
  std::vector<int> out;
  for (const int replica : replicas_) out.push_back(layout_.ranks_of_replica(replica)[place]);
  return out;
}

bool Membership::is_newcomer() const { return std::ranges::count(newcomers_, replica_) > 0; }

std::vector<double> Membership::sums(std::vector<double> values) {
  if (attendance_) return meet(values, true);
  tensor::Tensor mine = tensor::view_of(values.data(), {std::ssize(values)}, at::kDouble);
  tensor::Tensor cells = mine.to(all_.device());
  everyone_.all_reduce_sum(cells);
  mine.copy_(cells);
  return values;
}

std::vector<double> Membership::meet(const std::vector<double>& values, bool admits) {
  std::vector<int> expected;
  for (const int replica : replicas_)
    for (const int rank : layout_.ranks_of_replica(replica)) expected.push_back(rank);
  std::vector<double> brought = values;
  brought.push_back(static_cast<double>(connections_));
  const auto there = attendance_->calls.meet(expected, bytes_of(brought), admits);
  if (admits) newcomers_.clear();
  return take_over(there, values.size());
}

std::optional<std::vector<double>> Membership::join() {
  const auto there = attendance_->calls.join(layout_.ranks_of_replica(replica_));
  if (there.empty()) return std::nullopt;
  const auto other = std::ranges::find(there, false, &Attendant::is_new);
  TESSERA_CHECK(other != there.end(), "newcomers are let in by nobody");
  return take_over(there, other->brought.size() / sizeof(double) - 1);
}

std::vector<double> Membership::take_over(const std::vector<Attendant>& there, std::size_t num_values) {
  std::vector<double> sums(num_values, 0);
  for (const Attendant& each : there) {
    if (each.is_new) continue;
    const auto brought = doubles_of(each.brought, num_values + 1);
    for (std::size_t i = 0; i < num_values; ++i) sums[i] += brought[i];
    connections_ = static_cast<std::int64_t>(brought.back());
  }
  const auto is_whole = [&](int replica, bool are_new) {
    return std::ranges::all_of(layout_.ranks_of_replica(replica), [&](int rank) {
      return std::ranges::any_of(
          there, [&](const Attendant& each) { return each.rank == rank && (!are_new || each.is_new); });
    });
  };
  std::vector<int> replicas;
  for (int replica = 0; replica < layout_.dp_replicate; ++replica) {
    if (!is_whole(replica, false)) continue;
    replicas.push_back(replica);
    if (is_whole(replica, true)) newcomers_.push_back(replica);
  }
  if (std::ranges::count(replicas, replica_) == 0) throw PeerLost("another rank of this replica is lost");
  const bool are_others = std::ranges::any_of(there, &Attendant::is_new) || replicas != replicas_;
  if (are_others) is_connected_ = false, failures_ = 0;
  std::erase_if(newcomers_, [&](int replica) { return std::ranges::count(replicas, replica) == 0; });
  replicas_ = std::move(replicas);
  return sums;
}

bool Membership::attempt(const Work& work) {
  if (!attendance_) {
    work(counterparts_);
    return true;
  }
  try {
    if (!is_connected_) connect();
    work(counterparts_);
    return true;
  } catch (const PeerLost& error) {
    last_failure_ = error.what();
    // No failure of this rank: who is left tries again. Whoever waits for this one is told by the end of its
    // connections.
    leave();
    return false;
  }
}

bool Membership::agree(bool went_well) {
  if (!attendance_) return true;
  constexpr std::int64_t kMostFailures = 5;
  const bool are_well = meet({went_well ? 0.0 : 1.0}, false).front() == 0;
  if (are_well) {
    failures_ = 0;
    return true;
  }
  is_connected_ = false;
  if (++failures_ < kMostFailures) return false;
  throw PeerLost(cat("replicas could not exchange ", failures_, " times in a row, although none was lost",
                     last_failure_.empty() ? "" : cat("; this rank: ", last_failure_)));
}

void Membership::together(const Work& work) {
  bool went_well = false;
  do went_well = attempt(work);
  while (!agree(went_well));
}

void Membership::leave() {
  before_ = reduced();
  counterparts_ = collective::Group(all_.rank());
  const std::scoped_lock lock(mutex_);
  communicator_.reset();
}

void Membership::connect() {
  ++connections_;
  leave();
  auto communicator = attendance_->connect(cat("replicas-", connections_));
  {
    const std::scoped_lock lock(mutex_);
    if (is_aborted_) throw PeerLost("this rank has failed");
    communicator_ = std::move(communicator);
  }
  if (replicas_.size() > 1)
    counterparts_ = collective::make_groups(*communicator_, {ranks_of_counterparts()}).front();
  is_connected_ = true;
}

collective::Volume Membership::reduced() const {
  return before_ + counterparts_.tally().volume(collective::CallKind::all_reduce);
}

void Membership::abort() {
  all_.abort();
  const std::scoped_lock lock(mutex_);
  is_aborted_ = true;
  if (communicator_) communicator_->abort();
}

}  // namespace tessera::train
