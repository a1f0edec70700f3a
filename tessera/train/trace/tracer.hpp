// The trace of a run. Keeps the times of all steps on this rank and writes one trace of all ranks at the end.
// An event says its step, what the op is, its segment and micro-batch if it has them, the bytes that its time
// grows with, how many ranks meet in it, which calls it made ("tp all_gather forward 2 131072": axis set,
// kind, direction, how many, bytes of the whole arrays), and which ops of the step it waited for.
#pragma once

#include <string>
#include <vector>

#include "tessera/collective/group.hpp"
#include "tessera/engine/executor.hpp"
#include "tessera/mesh/mesh.hpp"
#include "tessera/metrics/trace/trace.hpp"

namespace tessera::train {

class Tracer {
 public:
  // An empty path traces nothing. Rank 0 writes the file, and throws UserError when it can't for a reason
  // that doesn't pass.
  Tracer(const program::Program& program, std::int64_t rank, const std::string& path);

  void add(std::int64_t step, const std::vector<engine::OpTime>& times);
  // One file for all ranks: they send their events to rank 0, on whose clock all times are then. All ranks
  // call it. Returns, on rank 0, what is missing of it, a sentence each; what the disk refuses ends nothing.
  std::vector<std::string> write(const collective::Communicator& communicator, ActivityLog* log = nullptr);

 private:
  std::int64_t group_of(const program::Op& op) const;
  std::string calls_text(std::span<const engine::OpCalls> calls) const;

  std::string path_, fingerprint_;
  const program::Program& program_;
  const program::Sequence& sequence_;
  const std::vector<mesh::AxisSet> sets_;
  std::int64_t rank_;
  std::vector<metrics::Event> events_;
};

}  // namespace tessera::train
