#include "tessera/train/tracer.hpp"

#include <filesystem>

#include "tessera/base/error.hpp"
#include "tessera/program/text.hpp"

namespace tessera::train {

namespace {

std::string row_of(const program::Lane& lane, const program::Tables& tables) {
  switch (lane.kind) {
    case program::LaneKind::compute:
      return "compute";
    case program::LaneKind::copy:
      return "copy";
    case program::LaneKind::communication:
      return cat("communication ", tables.axis_sets[static_cast<std::size_t>(lane.axes)].name,
                 lane.direction ? " down" : "");
  }
  throw Bug("a lane outside its kinds");
}

}  // namespace

Tracer::Tracer(const program::Program& program, std::int64_t rank, const std::string& path)
    : path_(path),
      program_(program),
      sequence_(program.classes.at(program.tables.class_of_rank.at(static_cast<std::size_t>(rank)))),
      rank_(rank) {
  if (!path_.empty()) metrics::write_trace(part(rank_), events_);
}

void Tracer::add(std::int64_t step, const std::vector<engine::OpTime>& times) {
  if (path_.empty()) return;
  for (const auto& time : times) {
    const auto& op = sequence_.ops[time.op];
    events_.push_back({program::word(op, program_.tables),
                       rank_,
                       row_of(op.lane, program_.tables),
                       time.start_seconds,
                       time.end_seconds - time.start_seconds,
                       {{"step", step}}});
  }
}

void Tracer::write(const std::function<void()>& meet, std::int64_t num_ranks) {
  if (path_.empty()) return;
  if (rank_ != 0) metrics::write_trace(part(rank_), events_);
  meet();
  if (rank_ != 0) return;
  for (std::int64_t rank = 1; rank < num_ranks; ++rank) {
    const auto more = metrics::read_trace(part(rank));
    events_.insert(events_.end(), more.begin(), more.end());
    std::filesystem::remove(part(rank));
  }
  metrics::write_trace(path_, events_);
}

std::string Tracer::part(std::int64_t rank) const { return rank == 0 ? path_ : cat(path_, ".rank", rank); }

}  // namespace tessera::train
