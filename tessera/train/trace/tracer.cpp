#include "tessera/train/trace/tracer.hpp"

#include <cmath>
#include <limits>
#include <numeric>

#include "tessera/base/clock.hpp"
#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/plan/identity.hpp"
#include "tessera/program/diagnose/op_description.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/simulate/profile.hpp"
#include "tessera/tensor/tensor.hpp"

namespace tessera::train {

namespace {

// Rank 0 asks each for its time and its events, over a connection that lies in host memory.
constexpr int kTag = 0, kAsks = 8;

double received_number(const collective::Group& group, int from) {
  at::Tensor cell = tensor::zeros({1}, at::kDouble);
  group.receive(cell, from, kTag);
  return cell.item<double>();
}

void send_number(const collective::Group& group, double value, int to) {
  group.send(tensor::zeros({1}, at::kDouble).fill_(value), to, kTag);
}

void send_events(const collective::Group& group, const std::string& text) {
  for (int i = 0; i < kAsks; ++i) {
    received_number(group, 0);
    send_number(group, now_seconds(), 0);
  }
  send_number(group, static_cast<double>(text.size()), 0);
  auto* bytes = reinterpret_cast<std::byte*>(const_cast<char*>(text.data()));
  group.send(tensor::view_of(bytes, {std::ssize(text)}, at::kByte), 0, kTag);
}

struct Sent {
  double ahead_seconds = 0;  // of its clock before this one
  std::string text;
};

Sent received_events(const collective::Group& group, int from) {
  Sent out;
  double quickest = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kAsks; ++i) {
    const double asked = now_seconds();
    send_number(group, 0, from);
    const double there = received_number(group, from), took = now_seconds() - asked;
    if (took >= quickest) continue;
    quickest = took;
    // Clocks that differ by less than half of the way there and back may be equal.
    const double ahead = there - asked - took / 2;
    out.ahead_seconds = std::abs(ahead) <= took / 2 ? 0 : ahead;
  }
  const auto size = static_cast<std::int64_t>(received_number(group, from));
  at::Tensor bytes = tensor::empty({size}, at::kByte);
  group.receive(bytes, from, kTag);
  out.text.assign(static_cast<const char*>(bytes.const_data_ptr()), static_cast<std::size_t>(size));
  return out;
}

}  // namespace

Tracer::Tracer(const program::Program& program, std::int64_t rank, const std::string& path)
    : path_(path),
      program_(program),
      sequence_(program.classes.at(program.tables.class_of_rank.at(static_cast<std::size_t>(rank)))),
      sets_(program::sets_of(program.tables)),
      rank_(rank) {
  if (path_.empty()) return;
  fingerprint_ = plan::fingerprint(program);
  if (rank_ != 0) return;
  try {
    metrics::write_trace(path_, events_, fingerprint_);
  } catch (const metrics::WriteError& error) {
    if (!error.passes()) throw;  // it is tried again when there is something to write
  }
}

void Tracer::add(std::int64_t step, const std::vector<engine::OpTime>& times) {
  if (path_.empty()) return;
  for (const auto& time : times) {
    const auto& op = sequence_.ops[time.op];
    metrics::Record args = {{"step", step}, {"what", std::string(program::name_of(op.what))}};
    if (program::is_compute(op.what)) args.push_back({"segment", std::int64_t{op.item}});
    if (op.micro != program::kOfStep) args.push_back({"micro", std::int64_t{op.micro}});
    if (const auto bytes = simulate::op_size(op, program_.tables)) args.push_back({"bytes", bytes});
    if (const auto ranks = simulate::kind_of(op, program_.tables).ranks; ranks > 1)
      args.insert(args.end(), {{"ranks", ranks}, {"group", group_of(op)}});
    if (!time.calls.empty()) args.push_back({"calls", calls_text(time.calls)});
    if (std::string waits = program::waited_words(sequence_, op, program_.tables); !waits.empty())
      args.push_back({"waits", std::move(waits)});
    args.push_back({"op", program::word(op, program_.tables)});
    events_.push_back({program::title(op, program_.tables), rank_, program::name_of(op.lane, program_.tables),
                       time.start_seconds, time.end_seconds - time.start_seconds, std::move(args)});
  }
}

std::vector<std::string> Tracer::write(const collective::Communicator& communicator, ActivityLog* log) {
  if (path_.empty()) return {};
  const During closing(log, Doing::closing);
  std::vector<Sent> sent;
  if (const int size = communicator.size(); size > 1) {
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    const collective::Group group = collective::make_groups(communicator.host(), {all}).front();
    if (rank_ == 0)
      for (int rank = 1; rank < size; ++rank) sent.push_back(received_events(group, rank));
    else
      send_events(group, metrics::trace_text(events_));
    group.barrier();
  }
  if (rank_ != 0) return {};
  for (std::size_t i = 0; i < sent.size(); ++i)
    for (metrics::Event& event : metrics::parse_trace(sent[i].text, cat("rank ", i + 1)).events) {
      event.start_seconds -= sent[i].ahead_seconds;
      events_.push_back(std::move(event));
    }
  constexpr int kAttempts = 3;
  std::string complaint;
  for (int i = 0; i < kAttempts; ++i) {
    complaint = complaint_of([&] { metrics::write_trace(path_, events_, fingerprint_); });
    if (complaint.empty()) return {};
  }
  return {cat("there is no trace: ", complaint)};
}

std::string Tracer::calls_text(std::span<const engine::OpCalls> calls) const {
  std::vector<std::string> words;
  for (const engine::OpCalls& each : calls)
    words.push_back(cat(program_.tables.axis_sets[static_cast<std::size_t>(each.axes)].name, " ",
                        collective::word(each.kind), " ", collective::word(each.direction), " ",
                        each.volume.calls, " ", each.volume.bytes));
  return join(words, ", ");
}

// The sender of a transfer, or the first member of a group: replicas do the same ops.
std::int64_t Tracer::group_of(const program::Op& op) const {
  const auto& set = sets_[static_cast<std::size_t>(op.along)];
  if (op.what == program::OpKind::send) return rank_;
  return op.what == program::OpKind::receive ? set.neighbour(rank_, op.hop) : set.peers(rank_).front();
}

}  // namespace tessera::train
