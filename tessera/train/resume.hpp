// Resumes a run at the newest checkpoint that is whole, whatever layout wrote it.
#pragma once

#include <string>
#include <vector>

#include "tessera/train/fits.hpp"

namespace tessera::train {

struct ResumeOptions {
  std::string folder;  // of the run's checkpoints
  std::string from;    // a checkpoint, or a folder of them; "none": begin anew; empty: the newest of `folder`
  bool saves = false;  // the run writes checkpoints into `folder`
  int rank = 0;
  std::optional<checkpoint::DataIdentity> data = std::nullopt;  // that the run reads
  Accepted accepted = {};
  // A checkpoint of this step was in `folder` when the ranks were started again, which must not begin anew
  // then.
  std::int64_t known_step = 0;
};

struct Resumed {
  std::int64_t step = 0;           // the steps that are behind; 0: it begins
  std::string checkpoint;          // the one that was taken, if any
  std::vector<std::string> notes;  // for the user: what was taken, and what could not be
};

// Puts the session, which trains for the run, where a checkpoint was written; all ranks call it. Throws
// UserError when none can be used and one was asked for or is there, or when it does not fit (fits.hpp).
Resumed resume(Session& session, const spec::Run& run, const ResumeOptions& options);

}  // namespace tessera::train
