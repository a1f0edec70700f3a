#include "tessera/train/resume.hpp"

#include <cstdio>
#include <optional>

#include "tessera/base/complaint.hpp"
#include "tessera/base/error.hpp"
#include "tessera/checkpoint/folder/folder.hpp"
#include "tessera/checkpoint/huggingface/tensor_files.hpp"
#include "tessera/train/agreement.hpp"
#include "tessera/train/saved.hpp"
#include "tessera/train/source/tokens.hpp"

namespace tessera::train {

namespace {

using checkpoint::Checkpoint;

// What is damaged on this rank; empty: the session stands where the checkpoint was written. All ranks take it
// or none.
struct Attempt {
  bool taken = false;
  std::string complaint;
  std::vector<std::string> notes = {};
};

Attempt attempt(Session& session, const spec::Run& run, const std::string& path,
                const ResumeOptions& options) {
  const auto agreed = [&](const std::string& complaint) {
    return num_ranks_where(session, !complaint.empty()) == 0;
  };
  std::optional<Checkpoint> opened;
  std::string complaint = complaint_of([&] {
    const During reading(session.log(), Doing::resuming);
    opened.emplace(path, checkpoint::links_of(session.model()));
  });
  if (!agreed(complaint)) return {false, complaint};
  expect_no_tokenizer(run.data, path);
  const auto notes = check_fits(session, run, *opened, options.data, options.accepted);
  complaint = complaint_of([&] { restore(session, *opened); });
  return {agreed(complaint), complaint, notes};
}

std::string why(const Attempt& failed) {
  return failed.complaint.empty() ? "another rank found it damaged" : failed.complaint;
}

// What is told of the checkpoint that was taken.
void tell(const Attempt& taken, const std::string& path, std::int64_t step, Resumed& out) {
  out.step = step;
  out.checkpoint = path;
  out.notes.push_back(step == 0 ? cat("beginning with the weights of ", path)
                                : cat("going on after step ", step, " from ", path));
  out.notes.insert(out.notes.end(), taken.notes.begin(), taken.notes.end());
}

Resumed picked(Session& session, const spec::Run& run, const ResumeOptions& options) {
  const Attempt tried = attempt(session, run, options.from, options);
  if (!tried.taken) throw UserError(cat("--from ", options.from, ": ", why(tried)));
  Resumed out;
  tell(tried, options.from, session.progress().step, out);
  return out;
}

// A run would begin at its first step beside what an earlier one has made since, and write over it.
UserError weights_alone(const std::string& path) {
  return UserError(cat(path, " holds weights alone, and a run can only begin with them. Begin with --from ",
                       path, " and another --out."));
}

// The newest of a folder that all ranks can read; rank 0 says which there are.
Resumed newest(Session& session, const spec::Run& run, const std::string& folder,
               const ResumeOptions& options) {
  const int rank = options.rank;
  Resumed out;
  std::vector<checkpoint::StepFolder> found;
  if (rank == 0) {
    const During reading(session.log(), Doing::resuming);
    found = checkpoint::step_folders(folder);
  }
  for (std::size_t i = 0;; ++i) {
    const auto step = number_of_first(session, rank, i < found.size() ? found[i].step : -1);
    if (step < 0) break;
    const std::string path = checkpoint::step_folder(folder, step).path;
    const Attempt tried = attempt(session, run, path, options);
    if (tried.taken) {
      tell(tried, path, session.progress().step, out);
      if (options.from.empty() && out.step < step) throw weights_alone(path);
      return out;
    }
    out.notes.push_back(cat("warning: ", path, " is not used: ", why(tried)));
    // What the first rank did not read, those say who did.
    const bool first_knows = num_ranks_where(session, rank == 0 && !tried.complaint.empty()) > 0;
    if (!first_knows && !tried.complaint.empty())
      std::fputs(cat("rank ", rank, ": ", tried.complaint, "\n").c_str(), stderr);
  }
  if (!out.notes.empty())
    throw UserError(cat(join(out.notes, "\n"), "\nnone of the checkpoints in ", folder,
                        " can be used. Bring one back, or begin anew with --from none and another --out."));
  if (options.from.empty() && options.known_step > 0)
    throw UserError(
        cat("the checkpoint of step ", options.known_step, ", which was in ", folder,
            " when the ranks were started again, can't be found there. Bring the folder back and start "
            "the run again."));
  return out;
}

// A later resume would find a newer one that this run did not write.
void expect_none_newer(const Session& session, const ResumeOptions& options) {
  const auto found = checkpoint::step_folders(options.folder);
  const bool newer = options.saves && !found.empty() && found.front().step > session.progress().step;
  if (num_ranks_where(session, options.rank == 0 && newer) > 0)
    throw UserError(
        cat("--from ", options.from, ": ", options.folder,
            " holds checkpoints of later steps, and this run would save between them. Give the run "
            "another --out, or move them away."));
}

}  // namespace

Resumed resume(Session& session, const spec::Run& run, const ResumeOptions& options) {
  if (options.from.empty()) return newest(session, run, options.folder, options);
  const Resumed out = options.from == "none"                    ? Resumed()
                      : checkpoint::is_checkpoint(options.from) ? picked(session, run, options)
                                                                : newest(session, run, options.from, options);
  if (out.notes.empty() && options.from != "none")
    throw UserError(cat("--from ", options.from,
                        ": there is no checkpoint (a folder with manifest.json, or with folders step-...)"));
  expect_none_newer(session, options);
  return out;
}

}  // namespace tessera::train
