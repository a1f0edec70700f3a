#include "tessera/train/resume.hpp"

#include <cstdio>
#include <optional>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/folder.hpp"
#include "tessera/train/saved.hpp"

namespace tessera::train {

namespace {

using checkpoint::Checkpoint;

// What is damaged on this rank; empty: the session stands where the checkpoint was written. All ranks take it or none.
struct Attempt {
  bool taken = false;
  std::string complaint;
};

Attempt attempt(Session& session, const std::string& path) {
  const auto agreed = [&](const std::string& complaint) {
    return session.sum(complaint.empty() ? 0 : 1) == 0;
  };
  std::optional<Checkpoint> opened;
  std::string complaint = complaint_of([&] {
    const During reading(session.log(), Doing::resuming);
    opened.emplace(path);
  });
  if (!agreed(complaint)) return {false, complaint};
  check_fits(session, *opened);
  complaint = complaint_of([&] { restore(session, *opened); });
  return {agreed(complaint), complaint};
}

std::string why(const Attempt& failed) {
  return failed.complaint.empty() ? "another rank found it damaged" : failed.complaint;
}

Resumed picked(Session& session, const std::string& path) {
  const Attempt tried = attempt(session, path);
  if (!tried.taken) throw UserError(cat("--from ", path, ": ", why(tried)));
  const std::int64_t step = session.progress().step;
  return {step,
          {step == 0 ? cat("beginning with the weights of ", path)
                     : cat("going on after step ", step, " from ", path)}};
}

// The newest of a folder that all ranks can read; rank 0 says which there are.
Resumed newest(Session& session, const std::string& folder, int rank) {
  Resumed out;
  std::vector<checkpoint::StepFolder> found;
  if (rank == 0) {
    const During reading(session.log(), Doing::resuming);
    found = checkpoint::step_folders(folder);
  }
  for (std::size_t i = 0;; ++i) {
    const double mine = rank != 0 ? 0 : i < found.size() ? static_cast<double>(found[i].step) : -1;
    const auto step = static_cast<std::int64_t>(session.sum(mine));
    if (step < 0) break;
    const std::string path = checkpoint::step_folder(folder, step).path;
    const Attempt tried = attempt(session, path);
    if (tried.taken) {
      out.step = session.progress().step;
      out.notes.push_back(cat("going on after step ", out.step, " from ", path));
      return out;
    }
    out.notes.push_back(cat("warning: ", path, " is not used: ", why(tried)));
    // What the first rank did not read, those say who did.
    const bool first_knows = session.sum(rank == 0 && !tried.complaint.empty() ? 1 : 0) > 0;
    if (!first_knows && !tried.complaint.empty())
      std::fputs(cat("rank ", rank, ": ", tried.complaint, "\n").c_str(), stderr);
  }
  if (!out.notes.empty())
    throw UserError(cat(join(out.notes, "\n"), "\nnone of the checkpoints in ", folder,
                        " can be used. Bring one back, or begin anew with --from none and another --out."));
  return out;
}

// A later resume would find a newer one that this run did not write.
void expect_none_newer(const Session& session, const ResumeOptions& options) {
  const auto found = checkpoint::step_folders(options.folder);
  const bool newer = options.saves && !found.empty() && found.front().step > session.progress().step;
  if (session.sum(options.rank == 0 && newer ? 1 : 0) > 0)
    throw UserError(
        cat("--from ", options.from, ": ", options.folder,
            " holds checkpoints of later steps, and this run would save between them. Give the run "
            "another --out, or move them away."));
}

}  // namespace

Resumed resume(Session& session, const ResumeOptions& options) {
  if (options.from.empty()) return newest(session, options.folder, options.rank);
  const Resumed out = options.from == "none"                    ? Resumed()
                      : checkpoint::is_checkpoint(options.from) ? picked(session, options.from)
                                                                : newest(session, options.from, options.rank);
  if (out.notes.empty() && options.from != "none")
    throw UserError(cat("--from ", options.from,
                        ": there is no checkpoint (a folder with manifest.json, or with folders step-...)"));
  expect_none_newer(session, options);
  return out;
}

}  // namespace tessera::train
