// Checks, before ranks start, that this host has what a run needs: a run that is sure to fail is refused at
// once, with what it needs and what is there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/job/start/needs.hpp"
#include "tessera/launch/store/join.hpp"
#include "tessera/spec/spec.hpp"
#include "tessera/tensor/peak.hpp"

namespace tessera::job {

// Where a run starts and what it writes.
struct Start {
  int first_rank = 0, num_ranks = 1;  // on this host
  // Ranks look for their files themselves and are watched meanwhile, so only who starts others looks first.
  bool starts_processes = false;
  std::string checkpoints = {};  // folder of its checkpoints
  std::string from = {};   // a checkpoint or a folder of them, that must be there; empty or "none": neither
  std::string trace = {};  // a file, or empty
};

// The ranks on this host: all of them, or those of a job that was joined. Batch systems number the ranks
// of a host in a row.
Start start_on_host(const spec::Run& run, const std::optional<launch::Membership>& joined);

// What the ranks of this host will take, and what there is.
struct Outlook {
  Needs needs;
  std::int64_t new_checkpoints = 0;
  double free_memory_bytes = 0;
};

// Throws one UserError that lists all that is missing, and PeerLost when a file system does not answer within
// cluster.timeout_seconds.
Outlook expect_can_start(const spec::Run& run, const Start& start);

// The warning where products in that precision are slower than in fp32.
std::string slow_products_text(spec::Precision precision, const tensor::ProductSpeed& speed);

// What people see before ranks start: what runs and where, how much memory it takes, and how long the
// products of a step take, which is measured in up to a tenth of a second.
std::string first_screen(const Outlook& outlook, const spec::Run& run, const Start& start,
                         const std::string& name, const std::string& folder);

}  // namespace tessera::job
