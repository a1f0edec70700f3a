#include "tessera/train/trace/tracer.hpp"

#include <cstdio>
#include <filesystem>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/metrics/out_file.hpp"
#include "tessera/plan/identity.hpp"
#include "tessera/program/diagnose/op_description.hpp"
#include "tessera/program/ir/ranks.hpp"
#include "tessera/program/ir/text.hpp"
#include "tessera/simulate/profile.hpp"

namespace tessera::train {

namespace {
constexpr char kPart[] = ".rank";
}

Tracer::Tracer(const program::Program& program, std::int64_t rank, const std::string& path)
    : path_(path),
      program_(program),
      sequence_(program.classes.at(program.tables.class_of_rank.at(static_cast<std::size_t>(rank)))),
      sets_(program::sets_of(program.tables)),
      rank_(rank) {
  if (path_.empty()) return;
  fingerprint_ = plan::fingerprint(program);
  try {
    metrics::write_trace(part(rank_), events_, fingerprint_);
  } catch (const metrics::WriteError& error) {
    if (!error.passes()) throw;  // it is tried again when there is something to write
  }
  remove_parts();
}

// A part is there from the end of a run until the first rank has joined it to its own: one that is there
// before was left by a run that was killed, or was only tried to be written.
void Tracer::remove_parts() const {
  std::error_code ignored;
  if (rank_ != 0) {
    std::filesystem::remove(part(rank_), ignored);
    return;
  }
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  const std::string prefix = std::filesystem::path(path_).filename().string() + kPart;
  std::vector<std::filesystem::path> left;
  for (const auto& entry : std::filesystem::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.find_first_not_of("0123456789", prefix.size()) == std::string::npos)
      left.push_back(entry.path());
  }
  for (const auto& each : left) std::filesystem::remove(each, ignored);
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

std::string Tracer::complaint_of_writing(const std::string& path) const {
  constexpr int kAttempts = 3;
  std::string complaint;
  for (int i = 0; i < kAttempts; ++i) {
    complaint = complaint_of([&] { metrics::write_trace(path, events_, fingerprint_); });
    if (complaint.empty()) break;
  }
  return complaint;
}

std::vector<std::string> Tracer::write(const std::function<void()>& meet, std::int64_t num_ranks,
                                       ActivityLog* log) {
  if (path_.empty()) return {};
  std::error_code ignored;
  if (rank_ != 0) {
    const During closing(log, Doing::closing);
    const std::string complaint = complaint_of_writing(part(rank_));
    if (!complaint.empty()) {
      std::fputs(cat("trace of rank ", rank_, ": ", complaint, "\n").c_str(), stderr);
      std::filesystem::remove(part(rank_), ignored);  // rank 0 sees that it is missing
    }
  }
  meet();
  if (rank_ != 0) return {};
  const During closing(log, Doing::closing);
  std::vector<std::string> missing;
  for (std::int64_t rank = 1; rank < num_ranks; ++rank) {
    const std::string complaint = complaint_of([&] {
      const auto more = metrics::read_trace(part(rank)).events;
      events_.insert(events_.end(), more.begin(), more.end());
    });
    if (!complaint.empty())
      missing.push_back(cat("'", path_, "' is incomplete: it lacks rank ", rank, " (", complaint, ")"));
    std::filesystem::remove(part(rank), ignored);
  }
  const std::string complaint = complaint_of_writing(path_);
  if (!complaint.empty()) missing.push_back(cat("there is no trace: ", complaint));
  return missing;
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

std::string Tracer::part(std::int64_t rank) const { return rank == 0 ? path_ : cat(path_, kPart, rank); }

}  // namespace tessera::train
