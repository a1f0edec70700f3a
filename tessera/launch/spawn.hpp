// How are the ranks of one machine started, watched and ended together? One process per rank; the first failure ends
// them all, and is the one that is told.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tessera::launch {

struct SpawnOptions {
  int num_ranks = 1;
  std::vector<std::string> command;  // program and arguments; a program without '/' is looked up in PATH
  std::string job = "local";
  int generation = 0;
  int report_descriptor = 2;                 // where failures and the ranks' stderr are told
  std::chrono::milliseconds patience{2000};  // between SIGTERM and SIGKILL
};

// Runs the command as ranks 0..num_ranks-1, with TESSERA_RANK, TESSERA_WORLD_SIZE, TESSERA_STORE (fd:<number>, an
// inherited connection to the KeyServer), TESSERA_JOB and TESSERA_GENERATION in their environment, and returns when none is left. Their stdout
// is passed through; their stderr is kept (its last 64 KiB per rank) and told at the end. Returns 0, or the exit
// code of the rank that failed first, or 128 + signal, also of a SIGINT or SIGTERM to the caller; other
// threads of the caller must not take these two. Raises this process's limit of open files if the ranks need more;
// throws UserError when it can't.
int run_local_ranks(const SpawnOptions& options);

}  // namespace tessera::launch
