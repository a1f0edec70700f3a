#include "tessera/train/tracer.hpp"

#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/program/ranks.hpp"
#include "tessera/program/text.hpp"
#include "tessera/simulate/profile.hpp"

namespace tessera::train {

Tracer::Tracer(const program::Program& program, std::int64_t rank, const std::string& path)
    : path_(path),
      program_(program),
      sequence_(program.classes.at(program.tables.class_of_rank.at(static_cast<std::size_t>(rank)))),
      sets_(program::sets_of(program.tables)),
      rank_(rank) {
  if (!path_.empty()) metrics::write_trace(part(rank_), events_);
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
    events_.push_back({program::word(op, program_.tables), rank_, program::name_of(op.lane, program_.tables),
                       time.start_seconds, time.end_seconds - time.start_seconds, std::move(args)});
  }
}

void Tracer::write(const std::function<void()>& meet, std::int64_t num_ranks, ActivityLog* log) {
  if (path_.empty()) return;
  if (rank_ != 0) {
    const During closing(log, Doing::closing);
    metrics::write_trace(part(rank_), events_);
  }
  meet();
  if (rank_ != 0) return;
  const During closing(log, Doing::closing);
  for (std::int64_t rank = 1; rank < num_ranks; ++rank) {
    const auto more = metrics::read_trace(part(rank));
    events_.insert(events_.end(), more.begin(), more.end());
    std::filesystem::remove(part(rank));
  }
  metrics::write_trace(path_, events_);
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
  if (op.what == program::What::send) return rank_;
  return op.what == program::What::receive ? set.neighbour(rank_, op.hop) : set.peers(rank_).front();
}

std::string Tracer::part(std::int64_t rank) const { return rank == 0 ? path_ : cat(path_, ".rank", rank); }

}  // namespace tessera::train
