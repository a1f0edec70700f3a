// The folder of a run's checkpoints: finds the newest and begins a new one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/checkpoint/format/manifest.hpp"

namespace tessera::checkpoint {

struct StepFolder {
  std::int64_t step = 0;
  std::string path;
  bool operator==(const StepFolder&) const = default;
};

// Those of the run whose folders these lie in, newest first. They are whole, but may have been damaged since.
std::vector<StepFolder> step_folders(const std::string& folder);
StepFolder step_folder(const std::string& folder, std::int64_t step);
// The step of the newest of them that was committed, 0 if there is none.
std::int64_t newest_step(const std::string& folder);

// Whether this is a checkpoint itself: it has a manifest, whole or damaged.
bool is_checkpoint(const std::string& folder);

// One attempt at saving a step. Its id is its own: jobs that save the same step into one folder write to
// different places.
struct Save {
  std::string folder;
  std::int64_t step = 0;
  std::uint64_t id = 0;
};
// Drawn by the system; above 0, and exact as a double, so that ranks can agree on it by a sum.
std::uint64_t new_save_id();

// Saving of one step. Throw DiskError. First on one rank, which makes the place for all; then each rank
// writes its part; then the first commits.
void begin_save(const Save& save);
// Where the parts of it are written.
std::string saving_path(const Save& save);
// The last that a rank writes: what its files hold.
void write_part(const std::string& saving_path, std::int64_t rank, const Manifest& part);
// Joins the parts of all ranks, checks that each file they name is there and is the one that was written, and
// makes the checkpoint one, in the place of any of the same step. Throws UserError when a file is another.
void commit_save(const Save& save, std::int64_t num_ranks);
// After a save that failed.
void abandon_save(const Save& save);
// Removes what saves and removals that never ended left: for a job that has the folder to itself.
void remove_unfinished(const std::string& folder);

// A checkpoint that is no step of a run (rewritten, imported) comes to be in the same way. Throws DiskError,
// and UserError when `target` exists.
class NewFolder {
 public:
  explicit NewFolder(const std::string& target);
  // Removes what was written, unless it was committed.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  // Where its files are written.
  const std::string& path() const { return path_; }
  // Until then there is no `target`.
  void commit(const Manifest& manifest);
  // The same of a folder that is no checkpoint.
  void commit();

 private:
  std::string target_, path_;
};

// How many are kept: the newest `last` (0: all), and every one whose step is a multiple of `every` (0: none
// besides).
struct Keep {
  std::int64_t last = 0, every = 0;
};

// After a save of `saved_step`: removes those that need not be kept, the oldest first. Newer ones are left
// alone and don't count: the run went on from an older one because they are damaged.
void remove_old(const std::string& folder, const Keep& keep, std::int64_t saved_step);

}  // namespace tessera::checkpoint
